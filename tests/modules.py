"""Imports between the modules of this repository, read from their source."""

import ast
import functools
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def module_name(path: Path) -> str:
    """Return the full module name of a file of this repository."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


FILES = {module_name(path): path for part in ("engine", "federation", "pages") for path in (ROOT / part).rglob("*.py")}
FILES["app"] = ROOT / "app.py"
"""Paths of the product's modules by full name, without tests and benchmarks."""


@functools.cache
def imports(path: Path) -> frozenset[str]:
    """Return the full names of all imports of a file, at its start or inside functions."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
        elif isinstance(node, ast.Constant) and node.value in FILES and "." in node.value:
            names.add(node.value)  # a module name in a command, such as `python -m that.module`, counts as an import
    return frozenset(names)
