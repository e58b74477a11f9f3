"""Mutation tests of privacy-critical modules: ``python -m benchmarks.mutants [MODULE …] [--limit N] [--leave-red]``.

Cosmic Ray applies one mutation at a time in a copy of the tree; fast, specific tests must detect it. An undetected
mutation is a survivor: the report shows it, and it must be killed by a test or explained in ``mutants_explained.toml``.
Otherwise the command fails. Results are saved by checksum of the module, so that an interrupted run can resume; after a
change of the tests, survivors are tested again. ``mutants_tested.toml`` has the checksum, date and outcome of each
tested module, and the report lists modules that have changed since.

Each mutant is tested in a fork of this process, which has imported the libraries but not the engine: 0.1 seconds
instead of three. Compiled Python code is not cached. Numba, which caches compiled functions in files, detects a changed
module by its time and size.
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
    "engine/privacy/noise_check/critical_values.py": (f"{_PRIVACY}/noise_check/test_critical_values.py",),
    "engine/privacy/accounting.py": (
        f"{_PRIVACY}/test_accounting.py",
        f"{_PRIVACY}/assumptions/test_evaluation.py",
        f"{_FEDERATED}/test_costliest.py",
        f"{_PRIVACY}/test_small_delta.py",
    ),
    "engine/privacy/pld.py": (
        f"{_PRIVACY}/test_pld.py",
        f"{_PRIVACY}/test_loss_pmf.py",
        f"{_PRIVACY}/assumptions/test_evaluation.py",
    ),
    "engine/privacy/group_privacy.py": (f"{_PRIVACY}/test_mixtures.py", f"{_PRIVACY}/test_small_delta.py"),
    "engine/privacy/rdp_filter.py": (f"{_PRIVACY}/test_rdp_filter.py",),
    "engine/privacy/noise_check/schedule.py": (f"{_PRIVACY}/noise_check/test_schedule.py",),
    "engine/privacy/noise_check/monitor.py": (f"{_PRIVACY}/noise_check/test_monitor.py",),
    "engine/privacy/noise_check/hypothesis_tests.py": (f"{_PRIVACY}/noise_check/test_hypothesis_tests.py",),
    "engine/federated/accounting.py": tuple(
        f"{_FEDERATED}/test_{name}.py" for name in ("costliest", "divergence", "federated_epsilon")
    ),
    "engine/training/dpsgd.py": (f"{_TRAINING}/test_step.py",),
    "engine/training/optimisers.py": (f"{_TRAINING}/test_optimisers.py",),
}
"""Mutated modules, with the tests that must detect the mutations."""
_COPIED = ("engine", "tests", "benchmarks", "pyproject.toml", "requirements.txt")
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
"""Operators of Cosmic Ray that are used.

Each operator is replaced by its opposite or its neighbour, not by all eleven others. Decorators stay, since most of
ours only affect speed.
"""
_FAILURE = re.compile(r"(?:FAILED|ERROR) (\S.*)")
_SLOW, _MIN_SECONDS = 8.0, 30.0
"""Timeout of a mutant: a multiple of the tests' time without a mutation, and at least some seconds."""


@dataclass(frozen=True)
class Mutant:
    """A survivor: a mutation that the tests do not detect.

    Attributes:
        module: Path of the module.
        line: Number of its first line.
        before: The original lines, without indentation.
        after: The mutated lines, without indentation.
    """

    module: str
    line: int
    before: str
    after: str


def copy_tree(folder: Path, tree: Path = REPOSITORY, parts: Sequence[str] = _COPIED) -> None:
    """Copy the files of a tree that Git lists, with uncommitted changes.

    Equal files stay unchanged, so that Numba's cache of them stays valid.

    Args:
        folder: The target.
        tree: The source.
        parts: Files and folders to copy; empty for all.
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
    """Run pytest in a fork, and return whether all tests pass within the limit.

    Args:
        folder: The copy of the tree.
        arguments: Arguments of pytest.
        limit: Timeout in seconds.
        output: File for the output of pytest.
    """
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
    """Run the tests in the fork and end it; our modules are imported again, from ``folder``."""
    code = 1
    try:
        file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, 1)
        os.dup2(file, 2)
        os.chdir(folder)
        sys.dont_write_bytecode = True
        sys.path[:] = [str(folder), *(path for path in sys.path if path not in ("", str(REPOSITORY)))]
        for name in [name for name in sys.modules if name.split(".")[0] in _OURS]:
            del sys.modules[name]
        importlib.invalidate_caches()
        import pytest

        repeated: Any = importlib.import_module("tests.repeated")
        # As after any mutation of these sources; their digest takes longer than most tests.
        repeated.due = lambda: ["computations"]
        # Plain asserts: rewriting the asserts of a long file takes longer than many of its tests.
        code = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "--assert=plain", *arguments]))
        sys.stdout.flush()
    finally:
        os._exit(code)


def red(folder: Path, tests: Iterable[str], output: Path) -> list[str]:
    """Return the tests that fail without a mutation."""
    if passes(folder, ["--maxfail=1000000", "-rfE", *tests], 3600.0, output):
        return []
    return failures(output.read_text(encoding="utf-8")) or [*tests]


def failures(text: str) -> list[str]:
    """Return the failed tests from the output of pytest with ``-rfE``; errors in a log have more than one space."""
    return [match[1].split(" - ")[0] for line in text.splitlines() if (match := _FAILURE.match(line))]


class Session:
    """Mutants of one module, with their results.

    Args:
        module: Path of the module.
        folder: The copy of the tree.
        home: Folder of the saved sessions.
    """

    def __init__(self, module: str, folder: Path, home: Path) -> None:
        from cosmic_ray.commands.init import _all_work_items
        from cosmic_ray.work_db import WorkDB

        self.module, self.path = module, folder / module
        self.tests = [test for test in MODULES[module] if (folder / test).exists()]
        self._name = f"{module.removesuffix('.py').replace('/', '.')}-{_digest([self.path])}"
        self._home, self._folder = home, folder
        self._stamp = home / f"{self._name}.tests"
        """Checksum of the tests that the survivors passed."""
        self._work = WorkDB(str(home / f"{self._name}.sqlite"), WorkDB.Mode.create)
        if not self._work.num_work_items:
            items = _all_work_items([self.path], {})
            used = [item for item in items if item.mutations[0].operator_name in OPERATORS]
            self._work.add_work_items(used)

    def pending(self) -> list[Any]:
        """Return the mutants without a result, and the survivors if the tests have changed."""
        items = list(self._work.pending_work_items)
        if not self._stamp.exists():
            self._stamp.write_text(self._tests_digest())
        if self._stamp.read_text() != self._tests_digest():
            survived = {job for job, result in self._work.results if not result.is_killed}
            items += [item for item in self._work.work_items if item.job_id in survived]
        return items

    def _tests_digest(self) -> str:
        return _digest([self._folder / test for test in self.tests])

    def run(self, limit: int | None, leave_red: bool) -> None:
        """Test the pending mutants. Raises SystemExit if tests fail without a mutation.

        Args:
            limit: Maximum number of mutants; None for all.
            leave_red: Whether to leave out tests that fail without a mutation.
        """
        from cosmic_ray.work_item import TestOutcome, WorkerOutcome, WorkResult

        output = self._home / f"{self._name}.txt"
        items = self.pending()
        pending = items[:limit]
        if not pending:
            return
        left_out = red(self._folder, self.tests, output)
        if left_out and not leave_red:
            raise SystemExit(f"{self.module}: tests that fail without a mutation: {', '.join(left_out)}")
        for test in left_out:
            print(f"{self.module}: left out, since it fails without a mutation: {test}", file=sys.stderr)  # noqa: T201
        arguments = [*self.tests, *(f"--deselect={test}" for test in left_out)]
        start = time.monotonic()
        if not passes(self._folder, arguments, 3600.0, output):
            raise SystemExit(f"{self.module}: its tests fail without a mutation, see {output}")
        allowed = max(_MIN_SECONDS, _SLOW * (time.monotonic() - start))
        for item in pending:
            diff = ""
            with self._changed(item.mutations[0]) as (before, after):
                survived = after is not None and passes(self._folder, arguments, allowed, output)
                diff = "\n".join(
                    difflib.unified_diff(before.splitlines(), (after or "").splitlines(), n=0, lineterm="")
                )
            outcome = TestOutcome.SURVIVED if survived else TestOutcome.KILLED
            self._work.set_result(item.job_id, WorkResult(WorkerOutcome.NORMAL, None, outcome, diff))
        if len(pending) == len(items):  # else, and after an interruption, survivors are tested again
            self._stamp.write_text(self._tests_digest())

    def _changed(self, mutation: Any) -> Any:
        from cosmic_ray.mutating import use_mutation
        from cosmic_ray.plugins import get_operator

        return use_mutation(self.path, get_operator(mutation.operator_name)(), mutation.occurrence)

    def counts(self) -> tuple[int, int]:
        """Return the number of mutants, and of tested ones."""
        return self._work.num_work_items, self._work.num_results

    def survivors(self) -> Iterator[Mutant]:
        """Yield the survivors so far."""
        line_numbers = {item.job_id: item.mutations[0].start_pos[0] for item in self._work.work_items}
        for job, result in self._work.results:
            if not result.is_killed:
                lines = (result.diff or "").splitlines()
                before = [line[1:].strip() for line in lines if line.startswith("-") and not line.startswith("---")]
                after = [line[1:].strip() for line in lines if line.startswith("+") and not line.startswith("+++")]
                yield Mutant(self.module, line_numbers[job], "\n".join(before), "\n".join(after))

    def outcome(self) -> dict[str, Any]:
        """Return the fields that are saved in ``mutants_tested.toml``."""
        total, tested = self.counts()
        survived = sorted(self.survivors(), key=lambda mutant: (mutant.line, mutant.after))
        return {
            "digest": _digest([self.path]),
            "date": datetime.now(UTC).date().isoformat(),
            "mutants": total,
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


def keep(outcomes: Mapping[str, dict[str, Any]], file: Path = TESTED) -> None:
    """Write new outcomes of some modules, unless the file has an outcome of the same text with more tested mutants."""
    saved = kept(file)
    for module, outcome in outcomes.items():
        known = saved.get(module)
        if not (known and known["digest"] == outcome["digest"] and known["tested"] > outcome["tested"]):
            saved[module] = outcome
    lines = ["# Tested modules, written by `python -m benchmarks.mutants`. digest: checksum of the module's text."]
    for module in (name for name in MODULES if name in saved):
        lines += ["", "[[tested]]", f"module = {json.dumps(module)}"]
        for name, value in saved[module].items():
            if isinstance(value, list):  # a line each
                inner = "".join(f"    {json.dumps(item, ensure_ascii=False)},\n" for item in value)
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
            lines.append(f"{module}: no outcome is saved")
        elif entry["digest"] != _digest([REPOSITORY / module]):
            lines.append(f"{module}: changed since {entry['date']}")
        elif entry["tested"] < entry["mutants"]:
            lines.append(f"{module}: {entry['tested']:,} of {entry['mutants']:,} mutants tested")
    return lines


def gone(entries: Iterable[tuple[str, str, str]], folder: Path = REPOSITORY) -> list[str]:
    """Return the explanations of lines that their modules no longer have."""
    texts: dict[str, str] = {}
    missing = []
    for module, before, _ in entries:
        if module not in texts:
            lines = (folder / module).read_text(encoding="utf-8").splitlines()
            texts[module] = "\n" + "\n".join(line.strip() for line in lines) + "\n"
        if f"\n{before}\n" not in texts[module]:
            missing.append(f"{module}: {before}")
    return missing


def explained() -> dict[tuple[str, str, str], str]:
    """Return the reasons by module, original lines and mutated lines."""
    entries = tomllib.loads(EXPLAINED.read_text(encoding="utf-8")).get("mutant", [])
    return {(entry["module"], entry["before"], entry["after"]): entry["reason"] for entry in entries}


def report(sessions: list[Session]) -> tuple[str, int]:
    """Return a report on the modules, and the number of survivors without an explanation."""
    reasons, lines, unexplained = explained(), [], 0
    for session in sessions:
        total, tested = session.counts()
        survivors = sorted(session.survivors(), key=lambda mutant: mutant.line)
        known = [mutant for mutant in survivors if (mutant.module, mutant.before, mutant.after) in reasons]
        lines.append(
            f"{session.module}: {total} mutants, {tested} tested, {tested - len(survivors)} killed, "
            f"{len(known)} explained, {len(survivors) - len(known)} not explained"
        )
        for mutant in survivors:
            reason = reasons.get((mutant.module, mutant.before, mutant.after))
            unexplained += reason is None
            lines += [
                f"  line {mutant.line}: {reason or 'NOT EXPLAINED'}",
                f"  - {mutant.before}",
                f"  + {mutant.after}",
            ]
    return "\n".join(lines), unexplained


def main() -> None:
    """Test the mutants, and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", metavar="MODULE", help=f"default: all of {', '.join(MODULES)}")
    parser.add_argument("--limit", type=int, help="maximum number of mutants to test in each module")
    parser.add_argument("--leave-red", action="store_true", help="leave out tests that fail without a mutation")
    parser.add_argument("--only-report", action="store_true", help="report saved results; test nothing")
    options = parser.parse_args()
    unknown = [module for module in options.modules if module not in MODULES]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}")
    home = Settings.from_environment().home / "mutants"
    folder = home / "tree"
    folder.mkdir(parents=True, exist_ok=True)
    copy_tree(folder)
    for name in _IMPORTED:
        importlib.import_module(name)
    gc.freeze()  # forked processes must not collect these objects
    sessions = [Session(module, folder, home) for module in options.modules or MODULES]
    if not options.only_report:
        for session in sessions:
            session.run(options.limit, options.leave_red)
        keep({session.module: session.outcome() for session in sessions})
    text, unexplained = report(sessions)
    sys.stdout.write("\n".join([text, *changed_since(), *gone(explained())]) + "\n")
    raise SystemExit(1 if unexplained else 0)


if __name__ == "__main__":
    main()
