"""Compiled code in a read-only checkout is copied from beside the sources, and a new one is written elsewhere."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.engine.reliability.disturbed import ROOT
from tests.engine.reliability.test_read_only_home import MOUNT

LOCATORS = "engine.training.read_only_cache.CopiedCacheLocator,InTreeCacheLocator,UserWideCacheLocator"
CODE = """
import sys
from engine.training import compile_cache
from engine.training.added import doubled
assert doubled(2.0) == 4.0
print(compile_cache.digest()[:32], sum(doubled.stats.cache_hits.values()), sum(doubled.stats.cache_misses.values()))
if len(sys.argv) > 1:
    print(doubled(2))
"""
ADDED = """from numba import njit


@njit(cache=True)
def doubled(x):
    return x * 2
"""


@pytest.fixture
def checkout(tmp_path):
    """Make a checkout with one compiled function of its own."""
    folder = tmp_path / "checkout"
    (folder / "engine" / "training").mkdir(parents=True)
    for name in ("engine/__init__.py", "engine/training/__init__.py", "engine/training/compile_cache.py",
                 "engine/training/read_only_cache.py"):  # fmt: skip
        (folder / name).write_bytes((ROOT / name).read_bytes())
    (folder / "engine/training/added.py").write_text(ADDED)
    return folder


def run(within: Sequence[str], checkout: Path, cache: Path, *arguments: str) -> list[str]:
    """Run the program in a checkout with a user's cache folder; return its words."""
    environment = {"NUMBA_CACHE_LOCATOR_CLASSES": LOCATORS, "XDG_CACHE_HOME": str(cache), "NUMBA_CACHE_DIR": ""}
    done = subprocess.run(
        [*within, sys.executable, "-B", "-c", CODE, *arguments],
        cwd=checkout,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.fixture
def read_only(own_mounts, checkout):
    """Return the prefix of a command for which the checkout is on a read-only file system."""
    return [*own_mounts, "sh", "-c", MOUNT, str(checkout)]


def test_read_only_checkout_starts_with_its_compiled_code(checkout, read_only, tmp_path):
    cache = tmp_path / "cache"
    digest, *first = run((), checkout, cache)
    assert first == ["0", "1"]
    assert not cache.exists()
    beside = sorted((checkout / "engine/training/__pycache__").glob("added*"))
    assert run(read_only, checkout, cache, "integers") == [digest, "1", "0", "4"]
    copied = cache / "epsilon-explorer" / "compiled" / digest / "training"
    assert len(list(copied.glob("*.nbc"))) == 2  # the copied one, and that for integers, which was compiled now
    assert sorted((checkout / "engine/training/__pycache__").glob("added*")) == beside


@pytest.mark.repeats(area="processes")
def test_each_version_of_the_sources_has_its_own_copy(checkout, read_only, tmp_path):
    """Numba would keep compiled code whose callee has changed."""
    cache = tmp_path / "cache"
    older = run(read_only, checkout, cache, "integers")[0]
    (checkout / "engine/training/callee.py").write_text(f"{ADDED}\n# changed\n")
    digest, *counts = run(read_only, checkout, cache, "integers")
    assert digest != older
    assert counts == ["0", "1", "4"]
