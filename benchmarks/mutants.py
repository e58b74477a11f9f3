"""Mutation testing of what privacy rests on: ``python -m benchmarks.mutants [MODULE …] [--limit N] [--leave-red]``.

Cosmic Ray makes one small change after another in a copy of the tree; tests that are quick and to the point must
notice. A change that they let pass is a survivor: it is shown, and has to be killed by a test or explained, one by
one, in ``mutants_explained.toml``; one that is neither makes the command fail. What was found is kept by the module's
text, so that a run that was interrupted goes on; when tests have changed, survivors are tried again. Which text of a
module was tested, when and with which outcome is written to ``mutants_tested.toml``, and the report names modules that
have changed since.

Each mutant is tested in a fork of this process, which has imported the libraries but not the engine: a tenth of a
second instead of three. Nothing that Python compiled is kept, and Numba, whose functions are compiled to files of their
own, knows by a file's time and size that it was changed.
"""

import argparse
import difflib
import gc
import hashlib
import importlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from engine.settings import REPOSITORY, Settings

EXPLAINED = Path(__file__).with_name("mutants_explained.toml")
TESTED = Path(__file__).with_name("mutants_tested.toml")
_PRIVACY, _FEDERATED, _TRAINING = "tests/engine/privacy", "tests/engine/federated", "tests/engine/training"
MODULES = {
    "engine/seeds.py": (f"{_PRIVACY}/test_seeds.py", f"{_PRIVACY}/test_mechanisms.py"),
    "engine/privacy/plan.py": (f"{_PRIVACY}/test_plan.py", f"{_PRIVACY}/test_mechanisms.py"),
    "engine/privacy/mechanisms.py": (f"{_PRIVACY}/test_plan.py", f"{_PRIVACY}/test_mechanisms.py"),
    "engine/privacy/noise_check/critical_values.py": (f"{_PRIVACY}/test_bounds.py",),
    "engine/privacy/accounting.py": (f"{_PRIVACY}/test_prices.py", f"{_FEDERATED}/test_costliest.py"),
    "engine/privacy/pld.py": (f"{_PRIVACY}/test_losses.py", f"{_PRIVACY}/test_prices.py"),
    "engine/privacy/group_privacy.py": (f"{_PRIVACY}/test_mixtures.py",),
    "engine/privacy/rdp_filter.py": (f"{_PRIVACY}/test_booking.py",),
    "engine/privacy/noise_check/schedule.py": (f"{_PRIVACY}/test_noise_watch.py",),
    "engine/privacy/noise_check/monitor.py": (f"{_PRIVACY}/test_noise_check.py",),
    "engine/privacy/noise_check/hypothesis_tests.py": (f"{_PRIVACY}/test_noise_verdict.py",),
    "engine/federated/accounting.py": tuple(
        f"{_FEDERATED}/test_{name}.py" for name in ("costliest", "divergence", "federated_epsilon")
    ),
    "engine/training/dpsgd.py": (f"{_TRAINING}/test_step.py",),
    "engine/training/optimisers.py": (f"{_TRAINING}/test_optimisers.py",),
}
"""What is changed, and the tests that must notice."""
_COPIED = ("engine", "tests", "benchmarks", "pyproject.toml")
_IMPORTED = (
    "pytest pytest_cov.plugin pytest_timeout hypothesis _hypothesis_pytestplugin unittest.mock "
    "numpy scipy.stats scipy.optimize scipy.signal mpmath numba cryptography.hazmat.primitives.ciphers "
    "dp_accounting.rdp dp_accounting.pld.privacy_loss_distribution dp_accounting.pld.common prv_accountant"
).split()
_OURS = ("engine", "tests", "benchmarks", "pages", "conftest")
_BINARY = "Add_Sub Sub_Add Mul_Div Div_Mul FloorDiv_Div Mod_FloorDiv Pow_Mul RShift_LShift LShift_RShift".split()
_COMPARED = ("Lt_LtE Lt_GtE LtE_Lt LtE_Gt Gt_GtE Gt_LtE GtE_Gt GtE_Lt Eq_NotEq NotEq_Eq Is_IsNot IsNot_Is").split()
OPERATORS = {
    *(f"core/ReplaceBinaryOperator_{name}" for name in _BINARY),
    *(f"core/ReplaceComparisonOperator_{name}" for name in _COMPARED),
    *(f"core/ReplaceUnaryOperator_{name}" for name in ("USub_UAdd", "Delete_Not", "Invert_UAdd")),
    *(f"core/{name}" for name in ("ReplaceAndWithOr", "ReplaceOrWithAnd", "AddNot", "NumberReplacer")),
    *(f"core/{name}" for name in ("ReplaceTrueWithFalse", "ReplaceFalseWithTrue", "ZeroIterationForLoop")),
    *(f"core/{name}" for name in ("ReplaceBreakWithContinue", "ReplaceContinueWithBreak", "ExceptionReplacer")),
}
"""Of Cosmic Ray's changes: each kind of operator turns into its opposite or its neighbour, not into all eleven others;
decorators stay, since most of ours only make things faster."""
_FAILURE = re.compile(r"(?:FAILED|ERROR) (\S.*)")
_SLOW, _LEAST = 8.0, 30.0
"""A mutant that takes so many times as long as the tests do without a change, and so many seconds, is found."""


@dataclass(frozen=True)
class Mutant:
    """A change that the tests let pass. before, after: the lines, without indentation."""

    module: str
    line: int
    before: str
    after: str


def copy_tree(folder: Path, tree: Path = REPOSITORY, parts: Sequence[str] = _COPIED) -> None:
    """Copy the files of a tree that Git knows, as they are now: these parts of it, or all (none given).

    Files that are equal stay, and what Numba compiled of them.
    """
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *parts]
    listed = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=True).stdout.splitlines()
    names = {name for name in listed if (tree / name).is_file()}
    for old in [path for path in folder.rglob("*.py") if str(path.relative_to(folder)) not in names]:
        old.unlink()
    for name in names:
        source, target = tree / name, folder / name
        if not target.exists() or target.read_bytes() != source.read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)


def passes(folder: Path, arguments: list[str], limit: float, output: Path) -> bool:
    """Whether pytest, in a fork, finds no fault within so many seconds."""
    child = os.fork()
    if child == 0:
        os.setsid()
        _test(folder, arguments, output)
    end = time.monotonic() + limit
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def _test(folder: Path, arguments: list[str], output: Path) -> None:
    """Run in the fork and end it: our own modules are imported again, from ``folder``."""
    code = 1
    try:
        file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, 1)
        os.dup2(file, 2)
        os.chdir(folder)
        sys.dont_write_bytecode = True
        sys.path[:] = [str(folder), *(place for place in sys.path if place not in ("", str(REPOSITORY)))]
        for name in [name for name in sys.modules if name.split(".")[0] in _OURS]:
            del sys.modules[name]
        importlib.invalidate_caches()
        import pytest

        # Plain asserts: to rewrite those of a long file takes longer than many a test of it.
        code = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "--assert=plain", *arguments]))
        sys.stdout.flush()
    finally:
        os._exit(code)


def red(folder: Path, tests: Iterable[str], output: Path) -> list[str]:
    """Return the tests that fail without any change."""
    if passes(folder, ["--maxfail=1000000", "-rfE", *tests], 3600.0, output):
        return []
    return failures(output.read_text(encoding="utf-8")) or [*tests]


def failures(text: str) -> list[str]:
    """Return the tests that failed, by what pytest prints with ``-rfE``. Errors in a log have more than one space."""
    return [found[1].split(" - ")[0] for line in text.splitlines() if (found := _FAILURE.match(line))]


class Session:
    """Mutants of one module and what became of them. folder: the copy of the tree; place: where sessions are kept."""

    def __init__(self, module: str, folder: Path, place: Path) -> None:
        from cosmic_ray.commands.init import _all_work_items
        from cosmic_ray.work_db import WorkDB

        self.module, self.path = module, folder / module
        self.tests = [test for test in MODULES[module] if (folder / test).exists()]
        self._name = f"{module.removesuffix('.py').replace('/', '.')}-{_digest([self.path])}"
        self._place, self._folder = place, folder
        self._stamp = place / f"{self._name}.tests"
        """Which tests the survivors have seen."""
        self._work = WorkDB(str(place / f"{self._name}.sqlite"), WorkDB.Mode.create)
        if not self._work.num_work_items:
            items = _all_work_items([self.path], {})
            wanted = [item for item in items if item.mutations[0].operator_name in OPERATORS]
            self._work.add_work_items(wanted)

    def pending(self) -> list[Any]:
        """Mutants without a result, and survivors if the tests are others than they were."""
        found = list(self._work.pending_work_items)
        if not self._stamp.exists():
            self._stamp.write_text(self._tests_digest())
        if self._stamp.read_text() != self._tests_digest():
            survived = {job for job, result in self._work.results if not result.is_killed}
            found += [item for item in self._work.work_items if item.job_id in survived]
        return found

    def _tests_digest(self) -> str:
        return _digest([self._folder / test for test in self.tests])

    def run(self, limit: int | None, leave_red: bool) -> None:
        """Test what is pending, so many of them at most. Raises SystemExit where tests fail without any change."""
        from cosmic_ray.work_item import TestOutcome, WorkerOutcome, WorkResult

        output = self._place / f"{self._name}.txt"
        every = self.pending()
        pending = every[:limit]
        if not pending:
            return
        left_out = red(self._folder, self.tests, output)
        if left_out and not leave_red:
            raise SystemExit(f"{self.module}: red without any change: {', '.join(left_out)}")
        for test in left_out:
            print(f"{self.module}: left out, since it is red without any change: {test}", file=sys.stderr)  # noqa: T201
        arguments = [*self.tests, *(f"--deselect={test}" for test in left_out)]
        start = time.monotonic()
        if not passes(self._folder, arguments, 3600.0, output):
            raise SystemExit(f"{self.module}: its tests fail without any change, see {output}")
        allowed = max(_LEAST, _SLOW * (time.monotonic() - start))
        for item in pending:
            diff = ""
            with self._changed(item.mutations[0]) as (before, after):
                survived = after is not None and passes(self._folder, arguments, allowed, output)
                diff = "\n".join(
                    difflib.unified_diff(before.splitlines(), (after or "").splitlines(), n=0, lineterm="")
                )
            outcome = TestOutcome.SURVIVED if survived else TestOutcome.KILLED
            self._work.set_result(item.job_id, WorkResult(WorkerOutcome.NORMAL, None, outcome, diff))
        if len(pending) == len(every):  # else, and where this was interrupted, survivors are tried again
            self._stamp.write_text(self._tests_digest())

    def _changed(self, mutation: Any) -> Any:
        from cosmic_ray.mutating import use_mutation
        from cosmic_ray.plugins import get_operator

        return use_mutation(self.path, get_operator(mutation.operator_name)(), mutation.occurrence)

    def counts(self) -> tuple[int, int]:
        """Mutants, and how many were tested."""
        return self._work.num_work_items, self._work.num_results

    def survivors(self) -> Iterator[Mutant]:
        """Those that were let pass so far."""
        places = {item.job_id: item.mutations[0].start_pos[0] for item in self._work.work_items}
        for job, result in self._work.results:
            if not result.is_killed:
                lines = (result.diff or "").splitlines()
                before = [line[1:].strip() for line in lines if line.startswith("-") and not line.startswith("---")]
                after = [line[1:].strip() for line in lines if line.startswith("+") and not line.startswith("+++")]
                yield Mutant(self.module, places[job], "\n".join(before), "\n".join(after))

    def outcome(self) -> dict[str, Any]:
        """Return the fields that are saved in ``mutants_tested.toml``."""
        every, tested = self.counts()
        survived = sorted(self.survivors(), key=lambda mutant: (mutant.line, mutant.after))
        return {
            "digest": _digest([self.path]),
            "date": datetime.now(UTC).date().isoformat(),
            "mutants": every,
            "tested": tested,
            "killed": tested - len(survived),
            "survivors": [f"{mutant.before} → {mutant.after}" for mutant in survived],
        }


def _digest(files: Iterable[Path]) -> str:
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


def kept(file: Path = TESTED) -> dict[str, dict[str, Any]]:
    """Return the saved outcome of each module that was ever tested."""
    if not file.exists():
        return {}
    entries = tomllib.loads(file.read_text(encoding="utf-8")).get("tested", [])
    return {entry.pop("module"): entry for entry in entries}


def keep(found: Mapping[str, dict[str, Any]], file: Path = TESTED) -> None:
    """Write what was found of some modules in place of what stands there of them, unless more of the same text was
    tested before."""
    every = kept(file)
    for module, outcome in found.items():
        known = every.get(module)
        if not (known and known["digest"] == outcome["digest"] and known["tested"] > outcome["tested"]):
            every[module] = outcome
    lines = ["# Which text of each module was tested, by `python -m benchmarks.mutants`. digest: of its text."]
    for module in (name for name in MODULES if name in every):
        lines += ["", "[[tested]]", f"module = {json.dumps(module)}"]
        for name, value in every[module].items():
            if isinstance(value, list):  # a line each
                inner = "".join(f"    {json.dumps(each, ensure_ascii=False)},\n" for each in value)
                lines.append(f"{name} = [\n{inner}]" if value else f"{name} = []")
            else:
                lines.append(f"{name} = {json.dumps(value)}")
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def changed_since(file: Path = TESTED) -> list[str]:
    """Return a sentence for each module whose text has changed since it was tested."""
    known, lines = kept(file), []
    for module in MODULES:
        entry = known.get(module)
        if entry is None:
            lines.append(f"{module}: no outcome is kept of any text of it")
        elif entry["digest"] != _digest([REPOSITORY / module]):
            lines.append(f"{module}: changed since {entry['date']}")
        elif entry["tested"] < entry["mutants"]:
            lines.append(f"{module}: {entry['tested']:,} of {entry['mutants']:,} mutants tested")
    return lines


def gone(entries: Iterable[tuple[str, str, str]], folder: Path = REPOSITORY) -> list[str]:
    """Explanations of lines that their modules have no longer."""
    texts: dict[str, str] = {}
    found = []
    for module, before, _ in entries:
        if module not in texts:
            lines = (folder / module).read_text(encoding="utf-8").splitlines()
            texts[module] = "\n" + "\n".join(line.strip() for line in lines) + "\n"
        if f"\n{before}\n" not in texts[module]:
            found.append(f"{module}: {before}")
    return found


def explained() -> dict[tuple[str, str, str], str]:
    """Reasons, by module and by the lines before and after."""
    entries = tomllib.loads(EXPLAINED.read_text(encoding="utf-8")).get("mutant", [])
    return {(entry["module"], entry["before"], entry["after"]): entry["reason"] for entry in entries}


def report(sessions: list[Session]) -> tuple[str, int]:
    """Return a report on the modules, and the number of survivors without an explanation."""
    reasons, lines, unexplained = explained(), [], 0
    for session in sessions:
        every, tested = session.counts()
        found = sorted(session.survivors(), key=lambda mutant: mutant.line)
        known = [mutant for mutant in found if (mutant.module, mutant.before, mutant.after) in reasons]
        lines.append(
            f"{session.module}: {every} mutants, {tested} tested, {tested - len(found)} killed, "
            f"{len(known)} explained, {len(found) - len(known)} not explained"
        )
        for mutant in found:
            reason = reasons.get((mutant.module, mutant.before, mutant.after))
            unexplained += reason is None
            lines += [
                f"  line {mutant.line}: {reason or 'NOT EXPLAINED'}",
                f"  - {mutant.before}",
                f"  + {mutant.after}",
            ]
    return "\n".join(lines), unexplained


def main() -> None:
    """Change, test, report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", metavar="MODULE", help=f"default: all of {', '.join(MODULES)}")
    parser.add_argument("--limit", type=int, help="mutants to test of each module, at most")
    parser.add_argument("--leave-red", action="store_true", help="go on without tests that fail without any change")
    parser.add_argument("--only-report", action="store_true", help="test nothing, say what is known")
    options = parser.parse_args()
    unknown = [module for module in options.modules if module not in MODULES]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}")
    place = Settings.from_environment().home / "mutants"
    folder = place / "tree"
    folder.mkdir(parents=True, exist_ok=True)
    copy_tree(folder)
    for name in _IMPORTED:
        importlib.import_module(name)
    gc.freeze()  # what is here is no forked process's to collect
    sessions = [Session(module, folder, place) for module in options.modules or MODULES]
    if not options.only_report:
        for session in sessions:
            session.run(options.limit, options.leave_red)
        keep({session.module: session.outcome() for session in sessions})
    text, unexplained = report(sessions)
    sys.stdout.write("\n".join([text, *changed_since(), *gone(explained())]) + "\n")
    raise SystemExit(1 if unexplained else 0)


if __name__ == "__main__":
    main()
