"""Plant faults in the product and report which tests detect them: ``python -m benchmarks.planted_faults``.

``planted_faults.toml`` lists handwritten faults of the type that developers make: each with the text before and after,
and with the tests that should detect it. Each fault is planted in a copy of the tree, its tests are run, and it is
removed again. The tests must pass without a fault first. The command fails if a fault is not detected.

Results are saved in the home, so that an interrupted run can resume. A result is valid until the fault, its file, its
tests or the shared modules of the tests change.
"""

import argparse
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.mutants import copy_tree, failures
from engine.settings import REPOSITORY, Settings

FAULTS = Path(__file__).with_name("planted_faults.toml")
AREAS = ("corpus", "store", "cluster", "pages", "command line", "reports", "federation", "access", "arrays and scores")
_SLOW, _MIN_SECONDS = 8.0, 120.0
"""Timeout of tests with a fault: a multiple of their time without it, and a minimum in seconds; then it is detected."""
_MAX_SECONDS = 3600.0
"""Timeout of tests without a fault, in seconds."""
_WIDE = 160
"""Maximum characters of a test's name in the table; the JSON has the whole name."""
_PASSED, _FAILED, _INTERRUPTED = 0, 1, 2
"""Exit codes of pytest; the third follows an error in an imported module."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A change to one file of the product.

    Attributes:
        name: Name of the fault, in words.
        area: One of :data:`AREAS`.
        file: Path of the changed file.
        before: Text that occurs once in the file.
        after: Its replacement.
        tests: Files or folders of tests that should detect the fault, or single tests after ``::``.
        old_tests: The same in another checkout, where the tests have other names.
    """

    name: str
    area: str
    file: str
    before: str
    after: str
    tests: tuple[str, ...]
    old_tests: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Result:
    """Result of a fault.

    Attributes:
        found: Whether a test failed.
        seconds: Duration of the tests.
        test: The first failed test; empty without one.
    """

    found: bool
    seconds: float
    test: str


def read(file: Path = FAULTS) -> list[Fault]:
    """Return the faults in their order."""
    entries: list[dict[str, Any]] = tomllib.loads(file.read_text(encoding="utf-8"))["fault"]
    return [Fault(**entry | {name: tuple(entry.get(name, ())) for name in ("tests", "old_tests")}) for entry in entries]


def problems(faults: Iterable[Fault], tree: Path = REPOSITORY) -> list[str]:
    """Return a sentence for each fault that cannot be planted in a tree, or whose tests are missing."""
    sentences = []
    for fault in faults:
        text = (tree / fault.file).read_text(encoding="utf-8") if (tree / fault.file).is_file() else ""
        if (number := text.count(fault.before)) != 1:
            sentences.append(f"{fault.name}: the text before occurs {number} times in {fault.file}, expected once")
        if fault.before == fault.after:
            sentences.append(f"{fault.name}: the text after equals the text before")
        sentences += [f"{fault.name}: {test} does not exist" for test in fault.tests if not _exists(test, tree)]
    return sentences


def _exists(test: str, tree: Path) -> bool:
    file, *parts = test.split("::")
    path = tree / file
    if not parts:
        return path.exists()
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    names = (part.partition("[")[0] for part in parts)
    return all(f"def {name}(" in text or f"class {name}:" in text for name in names)


@contextmanager
def planted(fault: Fault, folder: Path) -> Iterator[None]:
    """Change the file within the block, then restore its text and time, so that compiled code stays valid."""
    path = folder / fault.file
    text, status = path.read_text(encoding="utf-8"), path.stat()
    path.write_text(text.replace(fault.before, fault.after), encoding="utf-8")
    try:
        yield
    finally:
        path.write_text(text, encoding="utf-8")
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def run_tests(folder: Path, tests: Sequence[str], limit: float, output: Path, *, keep_code: bool) -> Result:
    """Run tests until the first one fails.

    Args:
        folder: The copy of the tree.
        tests: Files, folders or names of tests.
        limit: Timeout in seconds, which counts as a failure.
        output: File for the output of pytest.
        keep_code: Whether compiled Python is written.

    Raises:
        SystemExit: If pytest cannot run the tests.
    """
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-rfE", "-p", "no:cacheprovider", *tests]
    environment = os.environ | ({} if keep_code else {"PYTHONDONTWRITEBYTECODE": "1"})
    begun = time.monotonic()
    with output.open("wb") as file:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=file, stderr=file, stdin=subprocess.DEVNULL, process_group=0
        )
        try:
            code: int | None = process.wait(limit)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    seconds = round(time.monotonic() - begun, 1)
    if code is None:
        return Result(found=True, seconds=seconds, test=f"timeout after {limit:.0f} s")
    text = output.read_text(encoding="utf-8", errors="replace")
    if code not in (_PASSED, _FAILED, _INTERRUPTED):
        raise SystemExit(f"pytest ended with {code} on {' '.join(tests)}:\n{text[-3000:]}")
    failed = failures(text)
    return Result(found=code != _PASSED, seconds=seconds, test=failed[0] if failed else "")


class Session:
    """Faults in the copy of one tree.

    Args:
        tree: The tree.
        home: Folder of the copy, of the last output of pytest, and of the results.
    """

    def __init__(self, tree: Path, home: Path) -> None:
        self.folder, self._output, self._kept = home / "tree", home / "pytest.txt", home / "results.json"
        self.folder.mkdir(parents=True, exist_ok=True)
        copy_tree(self.folder, tree, ())
        self._known: dict[str, Any] = json.loads(self._kept.read_text(encoding="utf-8")) if self._kept.exists() else {}

    def result(self, fault: Fault) -> Result:
        """Return the result of a fault. Raises SystemExit if its tests fail without it."""
        limit = max(_MIN_SECONDS, _SLOW * self._passed(fault.tests))
        key = self._digest([self.folder / fault.file], fault.tests, fault.before, fault.after)
        if key not in self._known:
            with planted(fault, self.folder):
                result = run_tests(self.folder, fault.tests, limit, self._output, keep_code=False)
            self._keep(key, result)
        return Result(**self._known[key])

    def _passed(self, tests: Sequence[str]) -> float:
        """Return the seconds that the tests take without a fault."""
        product = [path for path in self.folder.rglob("*.py") if self.folder / "tests" not in path.parents]
        key = self._digest(product, tests)
        if key not in self._known:
            result = run_tests(self.folder, tests, _MAX_SECONDS, self._output, keep_code=True)
            if result.found:
                raise SystemExit(f"{result.test} fails without a fault, see {self._output}")
            self._keep(key, result)
        return float(self._known[key]["seconds"])

    def _keep(self, key: str, result: Result) -> None:
        self._known[key] = asdict(result)
        self._kept.write_text(json.dumps(self._known, indent=1), encoding="utf-8")

    def _digest(self, files: Iterable[Path], tests: Sequence[str], *texts: str) -> str:
        """Return a checksum of the inputs of a result: files, tests, shared modules of the tests, and texts."""
        paths = {*files, *(path for path in (self.folder / "tests").rglob("*.py") if not path.name.startswith("test_"))}
        for test in tests:
            path = self.folder / test.partition("::")[0]
            paths |= {path} if path.is_file() else set(path.rglob("*.py"))
        whole = hashlib.sha256(json.dumps([*tests, *texts]).encode())
        for path in sorted(paths):
            whole.update(f"{path.relative_to(self.folder)}\0".encode() + path.read_bytes() + b"\0")
        return whole.hexdigest()[:16]


def row(fault: Fault, result: Result) -> str:
    """Return a fault and its result as a line of the table."""
    outcome = "found" if result.found else "NOT FOUND"
    return f"{fault.name:68}  {fault.area:17}  {outcome:9}  {result.seconds:6.1f} s  {result.test[:_WIDE]}"


def main() -> None:
    """Plant the selected faults and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all faults")
    parser.add_argument("--area", choices=AREAS, help="only faults of this area")
    parser.add_argument("--tree", type=Path, metavar="FOLDER", help="another checkout, for the faults and their tests")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results to this file")
    options = parser.parse_args()
    faults, tree = read(), (options.tree or REPOSITORY).resolve()
    if unknown := set(options.names) - {fault.name for fault in faults}:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    chosen = [
        replace(fault, tests=fault.old_tests) if options.tree and fault.old_tests else fault
        for fault in faults
        if (not options.names or fault.name in options.names) and options.area in (None, fault.area)
    ]
    if sentences := problems(chosen, tree):
        raise SystemExit("\n".join(sentences))
    home = Settings.from_environment().home / "planted-faults" / hashlib.sha256(str(tree).encode()).hexdigest()[:8]
    session, results = Session(tree, home), []
    for fault in chosen:
        result = session.result(fault)
        results.append(asdict(fault) | asdict(result))
        sys.stdout.write(row(fault, result) + "\n")
        sys.stdout.flush()
        if options.json:
            options.json.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    missed = sum(not result["found"] for result in results)
    sys.stdout.write(f"{len(results) - missed} of {len(results)} faults found.\n")
    raise SystemExit(1 if missed else 0)


if __name__ == "__main__":
    main()
