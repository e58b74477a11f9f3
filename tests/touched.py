"""Run the tests that a change touches: ``python -m tests.touched [--base REV]``; ``make check`` calls it.

A test file is touched where it imports a changed module, directly or through others. Files with the
shortest chain of imports come first. After ``SECONDS`` no further test starts; the rest count as skipped.
"""

import argparse
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from tests.modules import ROOT, imports, module_name

SECONDS = 55.0
"""Time for tests, in seconds; lint and types take the rest of 90 s."""
SLOW = ("tests/browser", "tests/engine/reliability", "tests/engine/cluster", "tests/federation", "tests/image")
"""Folders that start browsers, clusters, databases or containers; CI runs them."""
_PARTS = ("engine", "federation", "pages", "benchmarks", "tests")


def changed(base: str) -> list[Path]:
    """Return the files that differ from a commit, and the untracked files that Git does not ignore."""
    commands = (["diff", "--name-only", "--no-renames", base], ["ls-files", "--others", "--exclude-standard"])
    listed = [
        subprocess.run(["git", *command], cwd=ROOT, capture_output=True, text=True, check=True) for command in commands
    ]
    return sorted({ROOT / name for result in listed for name in result.stdout.splitlines()})


def distances(files: Iterable[Path]) -> dict[Path, int]:
    """Return for each test file the number of imports to the nearest of the files.

    A file that is not Python counts as changed in the modules that name it. A conftest.py is imported by each test
    below its folder.
    """
    modules = {module_name(path): path for part in _PARTS for path in (ROOT / part).rglob("*.py")}
    modules["app"] = ROOT / "app.py"
    tests = [path for path in modules.values() if path.name.startswith("test_")]
    importers: defaultdict[str, set[str]] = defaultdict(set)
    for name, path in modules.items():
        for imported in imports(path):
            importers[imported].add(name)
        if path.name == "conftest.py":
            importers[name] |= {module_name(test) for test in tests if path.parent in test.parents}
    for name in modules:  # app.py and the tests of pages and browsers open pages by path
        if name.endswith(".page"):
            importers[name].add("app")
    importers["app"] |= {"tests.pages.conftest", "tests.browser.conftest"}
    reached: dict[str, int] = {}
    front = {name for file in files for name in _touched_directly(file, modules)}
    distance = 0
    while front:
        reached |= dict.fromkeys(front, distance)
        front = {user for name in front for user in importers[name]} - set(reached)
        distance += 1
    return {path: reached[name] for path in tests if (name := module_name(path)) in reached}


def _touched_directly(file: Path, modules: dict[str, Path]) -> set[str]:
    if file.suffix == ".py":
        name = module_name(file)
        return {name} if name in modules else set()
    return {name for name, path in modules.items() if file.name in path.read_text(encoding="utf-8")}


def main() -> int:
    """Run the touched tests; return the exit code of pytest, or 0 if there are none."""
    parser = argparse.ArgumentParser(prog="python -m tests.touched", description="Run the tests that a change touches.")
    parser.add_argument("--base", default="HEAD", metavar="REV", help="commit that the change is compared with")
    selected = distances(changed(parser.parse_args().base))
    order = [path.relative_to(ROOT).as_posix() for path in sorted(selected, key=lambda path: (selected[path], path))]
    slow = [name for name in order if name.startswith(SLOW)]
    quick = [name for name in order if name not in slow]
    if slow:
        sys.stdout.write(
            f"Not run here, since they start browsers, clusters or containers (CI runs them): {', '.join(slow)}\n"
        )
    if not quick:
        sys.stdout.write("No other test imports a changed file.\n")
        return 0
    options = ["--numprocesses", "2", "--dist", "loadfile", "--no-loadscope-reorder", "-q", f"--stop-after={SECONDS}"]
    sys.stdout.flush()
    return subprocess.run([sys.executable, "-m", "pytest", *options, *quick], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
