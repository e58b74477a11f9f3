"""Decide whether tests that repeat others are due: ``python -m tests.repeated`` runs them and records that they passed.

A test marked ``repeats`` has the rule of another test at further sizes or in another precision; with ``after=n`` so do
all its cases but the first n. ``make test`` runs it where a source in ``SOURCES`` has changed since the digest in
``repeated.txt`` was recorded; ``make nightly`` always does.
"""

import ast
import hashlib
import io
import subprocess
import sys
import tokenize
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RECORDED = Path(__file__).with_name("repeated.txt")
SOURCES = (
    "engine/experiments",
    "engine/federated",
    "engine/privacy",
    "engine/reports",
    "engine/seeds.py",
    "engine/taggers",
    "engine/training",
    "requirements.txt",
    "tests/engine/experiments",
    "tests/engine/federated",
    "tests/engine/privacy",
    "tests/engine/reports",
    "tests/engine/training",
)
"""Files, and folders with all Python files below them, whose change makes the tests due."""


def code(source: str) -> str:
    """Return a module's source without docstrings, other string statements, comments and empty lines."""
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines[node.lineno - 1 : node.end_lineno] = [""] * (node.end_lineno - node.lineno + 1)
    return "\n".join(line.rstrip() for line in lines if line.strip())


def digest(root: Path = ROOT) -> str:
    """Return the SHA-256 of the names and the code of the sources."""
    whole = hashlib.sha256()
    for name in SOURCES:
        source = root / name
        for path in sorted(source.rglob("*.py")) if source.is_dir() else [source]:
            name = path.relative_to(root).as_posix()
            text = path.read_text(encoding="utf-8")
            whole.update(f"{name}\0{code(text) if path.suffix == '.py' else text}\0".encode())
    return whole.hexdigest()


@cache
def due() -> bool:
    """Return whether a source has changed since the tests last passed."""
    return not RECORDED.exists() or RECORDED.read_text(encoding="utf-8").strip() != digest()


def main() -> int:
    """Run the repeating tests and record the digest if they pass; return the exit code of pytest."""
    before = digest()
    command = [sys.executable, "-m", "pytest", "--nightly", "-m", "repeats", "-n", "2", *sys.argv[1:]]
    code = subprocess.run(command, cwd=ROOT, check=False).returncode
    if code == 0 and digest() == before:
        RECORDED.write_text(before + "\n", encoding="utf-8")
    return code


if __name__ == "__main__":
    raise SystemExit(main())
