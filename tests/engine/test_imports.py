"""Imports run down only, and a page's first paint waits for nothing heavy."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

RANKS = (
    ("engine.errors", "engine.seeds"),
    ("engine.config", "engine.settings"),
    ("engine.records",),
    ("engine.corpus", "engine.privacy"),
    ("engine.embeddings", "engine.scoring", "engine.paper", "engine.sweeps"),
    ("engine.diagnosis", "engine.recipes", "engine.repeats"),
    ("engine.reports",),
    ("engine.taggers",),
    ("engine.training",),
    ("engine.federated",),
    ("engine.simulation", "engine.store"),
    ("engine.worker", "engine.dispatch", "engine.second_opinion", "engine.tuning"),
    ("engine.cluster", "engine.runs"),
    ("engine.options",),
    ("engine.__main__", "engine.serve", "engine.install"),
    ("pages.shared",),
    ("pages",),
    ("app",),
)
"""From the bottom up: a part imports only what stands above its line here, or its own package."""
RANK = {name: rank for rank, names in enumerate(RANKS) for name in names}


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


FILES = {module_name(path): path for part in ("engine", "pages") for path in (ROOT / part).rglob("*.py")}
FILES["app"] = ROOT / "app.py"


def part_of(module: str) -> str | None:
    """The part a module belongs to, None if it is not ours (or the package ``engine`` itself)."""
    names = [name for name in RANK if module == name or module.startswith(f"{name}.")]
    return max(names, key=len, default=None)


def imports(path: Path) -> set[str]:
    """Everything that a file imports, at its start or later, by full name."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
    return found


@pytest.mark.parametrize("module", sorted(FILES))
def test_imports_run_down(module):
    if module == "engine":
        return
    here = part_of(module)
    assert here, f"{module} has no place in RANKS"
    for imported in imports(FILES[module]):
        there = part_of(imported)
        if there and there != here:
            assert RANK[there] < RANK[here], f"{module} imports {imported}"


def test_the_engine_knows_no_streamlit():
    for module, path in FILES.items():
        if module.startswith("engine"):
            assert not any(name.split(".")[0] == "streamlit" for name in imports(path)), module


def test_pages_reach_runs_only_through_their_door():
    forbidden = ("engine.store", "engine.dispatch", "engine.worker", "engine.cluster", "engine.simulation")
    for module, path in FILES.items():
        if module.startswith(("pages", "app")):
            assert not [name for name in imports(path) if name.startswith((*forbidden, "engine.training"))], module


def test_runs_and_worker_do_not_know_each_other():
    assert not any(name.startswith("engine.worker") for name in imports(FILES["engine.runs"]))
    assert not any(name.startswith("engine.runs") for name in imports(FILES["engine.worker"]))


def test_what_draws_and_what_is_said_know_no_streamlit():
    for name in ("address", "charts", "compare", "curves", "palette", "paper", "speed", "words"):
        assert "streamlit" not in imports(FILES[f"pages.shared.{name}"]), name


def test_only_shared_parts_touch_the_session():
    for path in (ROOT / "app.py", *(ROOT / "pages").glob("*.py")):
        assert "session_state" not in path.read_text(encoding="utf-8"), path.name


def test_a_page_imports_nothing_heavy():
    code = (
        "import sys\n"
        "import engine.runs, engine.reports, pages.shared.charts, pages.shared.controls, pages.shared.live\n"
        "print(*{name.split('.')[0] for name in sys.modules})"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    heavy = {
        "tensorflow",
        "keras",
        "spacy",
        "dp_accounting",
        "distributed",
        "dask",
        "faker",
        "sklearn",
        "scipy",
        "numba",
    }
    assert not heavy & set(loaded.stdout.split())


def test_a_worker_that_needs_no_tensorflow_has_not_loaded_it(trained_settings):
    code = (
        "import sys\n"
        "from engine import worker\n"
        "from engine.settings import Settings\n"
        "worker.warm_up(Settings.from_environment())\n"
        "from engine.simulation import simulate\n"
        "from tests.engine.runs_for_tests import SMALL\n"
        "assert list(simulate(SMALL, Settings.from_environment()))[-1].test\n"
        "print(*{name.split('.')[0] for name in sys.modules})"
    )
    here = os.environ | {"EPSILON_HOME": str(trained_settings.home)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env=here, check=True)
    assert "numba" in done.stdout.split()
    assert not {"tensorflow", "keras"} & set(done.stdout.split())
