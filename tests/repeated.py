"""Decide whether repeated tests are due: ``python -m tests.repeated`` runs them and records that they passed.

A test marked ``repeats`` checks the rule of another test at another size, in another precision, or with a browser or
processes of its own; or it takes long and depends on the sources of one area only. With ``after=n``, the first n cases
of the test always run. ``make test`` runs the others where a source of their area (``AREAS``) has changed since
``repeated.txt`` was recorded; ``make nightly`` always does.
"""

import hashlib
import io
import os
import subprocess
import sys
import tokenize
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
RECORDED = Path(__file__).with_name("repeated.txt")
AREAS = {
    "computations": (
        "benchmarks/audit_broken.py",
        "benchmarks/noise_cost.py",
        "engine/config",
        "engine/corpus",
        "engine/embeddings",
        "engine/experiments",
        "engine/federated",
        "engine/gemm.py",
        "engine/privacy",
        "engine/records",
        "engine/reports",
        "engine/scoring.py",
        "engine/seeds.py",
        "engine/simulation",
        "engine/taggers",
        "engine/tagging",
        "engine/training",
        "requirements.txt",
        "tests/benchmarks",
        "tests/engine/corpus",
        "tests/engine/embeddings",
        "tests/engine/experiments",
        "tests/engine/federated",
        "tests/engine/privacy",
        "tests/engine/reports",
        "tests/engine/simulation",
        "tests/engine/tagging",
        "tests/engine/training",
    ),
    "dashboard": (
        ".streamlit",
        "app.py",
        "benchmarks/screenshots.py",
        "cached_results",
        "docs/explore.png",
        "docs/glossary.md",
        "engine",
        "pages",
        "requirements.txt",
        "tests/browser",
        "tests/engine/lessons",
        "tests/pages",
        "tests/provider.py",
    ),
    "federation": (
        "engine/config",
        "engine/corpus",
        "engine/embeddings",
        "engine/errors.py",
        "engine/federated",
        "engine/file_access.py",
        "engine/gemm.py",
        "engine/privacy",
        "engine/records",
        "engine/scoring.py",
        "engine/sealing.py",
        "engine/seeds.py",
        "engine/simulation",
        "engine/taggers",
        "engine/training",
        "federation",
        "requirements.txt",
        "tests/federation",
    ),
    "image": (
        "docs/deploy",
        "engine/__main__.py",
        "engine/access",
        "engine/cluster",
        "engine/file_access.py",
        "engine/launcher_pipe.py",
        "engine/serve.py",
        "engine/settings.py",
        "engine/setup",
        "engine/training/read_only_cache.py",
        "requirements.txt",
        "tests/image",
    ),
    "pages": (
        ".streamlit",
        "app.py",
        "cached_results",
        "docs/glossary.md",
        "docs/tutorials",
        "engine/access",
        "engine/lessons",
        "engine/service",
        "pages",
        "requirements.txt",
        "tests/browser",
        "tests/engine/lessons",
        "tests/pages",
    ),
    "processes": (
        "cached_results",
        "engine/__main__.py",
        "engine/access",
        "engine/artifact_store.py",
        "engine/cli",
        "engine/cluster",
        "engine/config",
        "engine/corpus",
        "engine/embeddings",
        "engine/errors.py",
        "engine/experiments",
        "engine/federated",
        "engine/file_access.py",
        "engine/gemm.py",
        "engine/launcher_pipe.py",
        "engine/privacy",
        "engine/records",
        "engine/reports",
        "engine/sealing.py",
        "engine/seeds.py",
        "engine/serve.py",
        "engine/service",
        "engine/settings.py",
        "engine/setup",
        "engine/simulation",
        "engine/store",
        "engine/taggers",
        "engine/tagging",
        "engine/training",
        "engine/validation.py",
        "federation",
        "requirements.txt",
        "tests/engine/cli",
        "tests/engine/cluster",
        "tests/engine/fuzz",
        "tests/engine/reliability",
        "tests/engine/service",
        "tests/engine/setup",
        "tests/engine/store",
        "tests/engine/tagging",
        "tests/engine/test_file_access.py",
    ),
}
"""For each area, files and folders whose change makes its tests due."""


def area(item: pytest.Item, marker: pytest.Mark) -> str:
    """Return the area of a marker ``repeats``; without ``area=…`` it is that of computations.

    Raises:
        pytest.UsageError: There is no such area, or a change of the test itself would not make the area due.
    """
    name: str = marker.kwargs.get("area", "computations")
    if name not in AREAS:
        raise pytest.UsageError(f"area={name!r} of a marker repeats, expected one of {', '.join(AREAS)}")
    if not _has(name, item.path):
        file = item.path.relative_to(ROOT).as_posix()
        raise pytest.UsageError(f"{file} is not in the sources of {name!r}, the area of its marker repeats")
    return name


@cache
def _has(name: str, file: Path) -> bool:
    """Tell whether a file is among the sources of an area."""
    return any(file.is_relative_to(ROOT / source) for source in AREAS[name])


def code(source: str) -> str:
    """Return a module's source without docstrings, other string statements, comments and empty lines.

    It reads tokens, since parsing all sources takes twice as long, before the first test.
    """
    lines = source.splitlines()
    strings: list[tokenize.TokenInfo] = []  # tokens of a statement so far, if all of them are strings
    begins = True
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
        elif token.type == tokenize.STRING and begins:
            strings.append(token)
        elif token.type == tokenize.NEWLINE:
            for row in {row for string in strings for row in range(string.start[0] - 1, string.end[0])}:
                lines[row] = ""
            strings, begins = [], True
        elif token.type not in (tokenize.NL, tokenize.INDENT, tokenize.DEDENT):
            strings, begins = [], False
    return "\n".join(line.rstrip() for line in lines if line.strip())


def digest(name: str, root: Path = ROOT) -> str:
    """Return the SHA-256 of the names and contents of the sources of an area; of Python files, only the code counts."""
    whole = hashlib.sha256()
    for source in AREAS[name]:
        for path in _files(root / source):
            whole.update(f"{path.relative_to(root).as_posix()}\0".encode())
            whole.update(_content(path, path.stat().st_mtime_ns))
    return whole.hexdigest()


@cache
def _content(path: Path, _changed: int) -> bytes:
    """Return the SHA-256 of what counts of a file, which several areas may have.

    Args:
        path: The file.
        _changed: Time of its last change.
    """
    content = code(path.read_text("utf-8")).encode() if path.suffix == ".py" else path.read_bytes()
    return hashlib.sha256(content).digest()


def _files(source: Path) -> list[Path]:
    if source.is_file():
        return [source]
    return sorted(path for path in source.rglob("*") if path.is_file() and "__pycache__" not in path.parts)


def _recorded() -> dict[str, str]:
    lines = RECORDED.read_text("utf-8").splitlines() if RECORDED.exists() else []
    return {name: value for name, _, value in (line.partition(" ") for line in lines) if name in AREAS}


@cache
def due() -> list[str]:
    """Return the areas of which a source has changed since their tests last passed."""
    recorded = _recorded()
    return [name for name in AREAS if recorded.get(name) != digest(name)]


def main() -> int:
    """Run the repeated tests of the changed areas and record the digests if they pass; return the exit code."""
    changed = due()
    before = {name: digest(name) for name in changed}
    if not changed:
        sys.stdout.write("No source of a repeated test has changed.\n")
        return 0
    command = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadfile", "-m", "repeats", *sys.argv[1:]]
    environment = os.environ | {"CI": "true"}  # a test that would be skipped, for lack of a browser, fails
    code = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
    if code == 0:
        passed = {name: value for name, value in before.items() if digest(name) == value}
        lines = [f"{name} {value}\n" for name, value in sorted((_recorded() | passed).items())]
        RECORDED.write_text("".join(lines), encoding="utf-8")
    return code


if __name__ == "__main__":
    raise SystemExit(main())
