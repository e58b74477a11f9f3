"""Imports follow the ranks of modules, and a page's first paint loads no heavy package."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.modules import FILES, ROOT, imports

RANKS = (
    ("engine.errors", "engine.memory", "engine.sealing", "engine.seeds", "engine.visible_text"),
    ("engine.taggers",),
    ("engine.artifact_store", "engine.file_access", "engine.launcher_pipe", "engine.validation"),
    ("engine.access.roles", "engine.config", "engine.hardware", "engine.setup_status", "engine.settings"),
    ("engine.instructions",),
    ("engine.gemm",),
    ("engine.records",),
    ("engine.corpus", "engine.privacy"),
    ("engine.embeddings", "engine.scoring"),
    ("engine.training",),
    ("engine.federated",),
    ("engine.store",),
    ("engine.store.access_store", "engine.simulation"),
    ("engine.experiments",),
    ("engine.lessons",),
    ("engine.reports", "engine.tagging"),
    ("engine.cluster",),
    ("engine.service",),
    ("engine.cli",),
    ("engine.__main__", "pages.shared"),
    (
        "pages.account",
        "pages.assumptions",
        "pages.audit",
        "pages.budget",
        "pages.claim",
        "pages.compare",
        "pages.diagnose",
        "pages.explore",
        "pages.frontier",
        "pages.glossary",
        "pages.home",
        "pages.learn",
        "pages.medical",
        "pages.paper",
        "pages.planner",
        "pages.practice",
        "pages.report",
        "pages.runs",
        "pages.speed",
        "pages.startup",
        "pages.try_it",
        "pages.tuning",
    ),
    ("pages.startup.warm_up",),  # it loads what any page first shows
    ("app", "pages.startup.server"),
    ("engine.setup",),
    ("engine.serve",),
    ("federation",),
)
"""From low to high: a module imports only lower ranks or its own package."""
RANK = {name: rank for rank, names in enumerate(RANKS) for name in names}


def part_of(module: str) -> str | None:
    """Return the entry of ``RANKS`` that contains a module; None for other modules (and the package ``engine``
    itself)."""
    names = [name for name in RANK if module == name or module.startswith(f"{name}.")]
    return max(names, key=len, default=None)


@pytest.mark.parametrize("module", sorted(FILES))
def test_module_imports_lower_ranks_only(module):
    if module in ("engine", "pages"):
        return
    here = part_of(module)
    assert here, f"{module} has no place in RANKS"
    for imported in imports(FILES[module]):
        there = part_of(imported)
        if there and there != here:
            assert RANK[there] < RANK[here], f"{module} imports {imported}"


def test_engine_does_not_import_streamlit():
    for module, path in FILES.items():
        if module.startswith("engine"):
            assert not any(name.split(".")[0] == "streamlit" for name in imports(path)), module


def test_pages_reach_runs_only_through_the_service():
    forbidden = (
        "engine.store",
        "engine.cluster",
        "engine.simulation.run",
        "engine.simulation.setup",
        "engine.training",
    )
    for module, path in FILES.items():
        if module.startswith(("pages", "app")):
            assert not [name for name in imports(path) if name.startswith(forbidden)], module


def test_service_and_worker_do_not_import_each_other():
    for module, path in FILES.items():
        if module.startswith("engine.service"):
            assert not any(name.startswith("engine.cluster.worker") for name in imports(path)), module
    assert not any(name.startswith("engine.service") for name in imports(FILES["engine.cluster.worker"]))


EXECUTES_DATA = {"cloudpickle", "dill", "jsonpickle", "joblib", "marshal", "pickle", "shelve"}
"""Modules that execute code from files."""


def unpickles(path: Path) -> list[str]:
    """Return the names in one of our files that could execute code from a data file."""
    found = [name for name in imports(path) if name.split(".")[0] in EXECUTES_DATA]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        called, said = ast.unparse(node.func), {each.arg: ast.unparse(each.value) for each in node.keywords}
        if called in ("np.load", "numpy.load") and said.get("allow_pickle") != "False":
            found.append(f"{called} without allow_pickle=False")
        elif called.endswith("cache_data") and "persist" in said:  # Streamlit pickles persistent caches
            found.append("cache_data(persist=)")
        elif called in ("eval", "exec") or called.endswith((".read_pickle", "torch.load")):
            found.append(called)
    return found


def test_no_module_executes_code_from_data_files():
    assert not {module: found for module, path in FILES.items() if (found := unpickles(path))}


@pytest.mark.parametrize(
    "code",
    [
        "import pickle",
        "from joblib import load",
        "def later():\n    import cloudpickle.compat",
        "np.load(path)",
        "np.load(path, allow_pickle=True)",
        "np.load(path, allow_pickle=chosen)",
        "@st.cache_data(persist='disk')\ndef f(): ...",
        "pd.read_pickle(path)",
        "eval(text)",
    ],
)
def test_unpickles_detects_code_execution(tmp_path, code):
    (tmp_path / "a.py").write_text(code)
    assert unpickles(tmp_path / "a.py")


def test_chart_and_text_modules_do_not_import_streamlit():
    claimed = {
        module
        for module, path in FILES.items()
        if module.startswith("pages")
        and re.search("(no|without|not use) streamlit", (ast.get_docstring(ast.parse(path.read_text())) or "").lower())
    }
    assert {"pages.shared.charts", "pages.shared.titles", "pages.explore.messages", "pages.speed.chart"} <= claimed
    for name in claimed | {"pages.shared.address", "pages.shared.palette"}:
        assert not any(found.split(".")[0] == "streamlit" for found in imports(FILES[name])), name


def pages_that_use(module: str) -> set[str]:
    """Return the folders of pages, and the app, that use a module directly or through shared modules.

    The warm-up of a new server does not count: it loads modules of any page.
    """
    others = {module, "pages.startup.warm_up"}
    users = {name for name, path in FILES.items() if module in imports(path) and name not in others}
    found: set[str] = set()
    for user in users:
        found |= pages_that_use(user) if user.startswith("pages.shared.") else {".".join(user.split(".")[:2])}
    return found


def test_shared_modules_serve_two_pages_or_a_page_and_the_startup():
    for module in FILES:
        if module.startswith("pages.shared."):
            users = pages_that_use(module)
            assert len(users - {"pages.startup"}) >= 2 or users > {"pages.startup"}, module
        elif module.count(".") == 2 and module.startswith("pages."):
            assert pages_that_use(module) <= {module.rsplit(".", 1)[0], "app", "engine.serve"}, module


def test_page_modules_do_not_use_session_state():
    for path in (ROOT / "app.py", *(ROOT / "pages").glob("*/page.py")):
        assert "session_state" not in path.read_text(encoding="utf-8"), path.name


def test_no_module_has_more_than_400_lines():
    long = {module: lines for module, path in FILES.items() if (lines := path.read_text().count("\n")) > 400}
    assert not long


def test_pages_import_no_heavy_packages():
    code = (
        "import sys\n"
        "import engine.service, engine.reports.tuning, pages.shared.titles, pages.explore.controls\n"
        "import pages.explore.live, pages.learn.lesson_layout, pages.learn.lessons\n"
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
        "optuna",
        "sqlalchemy",
    }
    assert not heavy & set(loaded.stdout.split())


@pytest.mark.contract
def test_worker_loads_tensorflow_only_if_needed(trained_settings):
    code = (
        "import sys\n"
        "from engine.cluster import worker\n"
        "from engine.settings import Settings\n"
        "worker.warm_up({})\n"
        "from engine.simulation.run import simulate\n"
        "from tests.engine.factories import SMALL\n"
        "assert list(simulate(SMALL, Settings.from_environment()))[-1].test\n"
        "print(*{name.split('.')[0] for name in sys.modules})"
    )
    here = os.environ | {"EPSILON_HOME": str(trained_settings.home)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env=here, check=True)
    assert "numba" in done.stdout.split()
    assert not {"tensorflow", "keras"} & set(done.stdout.split())
