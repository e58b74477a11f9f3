"""Read which modules of this repository import which, from their source."""

import ast
import functools
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def module_name(path: Path) -> str:
    """Return the full name under which a file of this repository is imported."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


FILES = {module_name(path): path for part in ("engine", "federation", "pages") for path in (ROOT / part).rglob("*.py")}
FILES["app"] = ROOT / "app.py"
"""The modules of the product."""


@functools.cache
def imports(path: Path) -> frozenset[str]:
    """Return all that a file imports, at its start or later, by full name."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
        elif isinstance(node, ast.Constant) and node.value in FILES and "." in node.value:
            found.add(node.value)  # `python -m that.module` in a list of words is an import too
    return frozenset(found)
