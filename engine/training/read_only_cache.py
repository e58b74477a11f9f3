"""Numba's compiled code where the checkout is not writable, as in a container with a read-only root.

Numba reads compiled code beside the sources only if it could also write there; otherwise it uses a folder of the user,
which is empty in a new container. The variable ``NUMBA_CACHE_LOCATOR_CLASSES`` makes Numba load this module
(``docs/deploy/Containerfile``).
"""

import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

from numba.core.caching import InTreeCacheLocator

from engine.training import compile_cache

_ENGINE = Path(__file__).resolve().parent.parent


class CopiedCacheLocator(InTreeCacheLocator):
    """Folder of the user that starts with the compiled code that is beside the sources.

    Its name contains the digest of all compiled sources: Numba would keep code whose callee has changed.
    """

    def __init__(self, py_func: object, py_file: str) -> None:
        super().__init__(py_func, py_file)  # type: ignore[no-untyped-call]
        inside = Path(py_file).resolve().parent.relative_to(_ENGINE)
        self._cache_path = str(_copied() / inside)

    @classmethod
    def from_function(cls, py_func: object, py_file: str) -> "CopiedCacheLocator | None":
        """Return a locator for a function of the engine in a read-only checkout, else None: Numba tries the next."""
        path = Path(py_file).resolve()
        if not path.is_relative_to(_ENGINE) or os.access(path.parent, os.W_OK):
            return None
        located: CopiedCacheLocator | None = super().from_function(py_func, py_file)  # type: ignore[no-untyped-call]
        return located


@cache
def _copied() -> Path:
    """Return the user's folder for these sources; the first process copies the compiled code into it."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    target = home / "epsilon-explorer" / "compiled" / compile_cache.digest()[:32]
    if not target.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as temporary:
            new = Path(temporary) / "new"
            new.mkdir()
            for path in _ENGINE.rglob("__pycache__/*.nb[ic]"):
                copy = new / path.parent.parent.relative_to(_ENGINE) / path.name
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, copy)
            try:
                new.rename(target)
            except OSError:  # another process was faster
                if not target.is_dir():
                    raise
    return target
