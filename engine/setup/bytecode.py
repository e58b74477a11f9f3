"""Byte-code of all installed packages, compiled in parallel.

pip would compile one file after another before the first page appears. Modules that are imported earlier compile their
own.
"""

import compileall
import hashlib
import os
import sysconfig
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from engine import setup_status

_FILES = 100
"""Number of files that a process receives at a time."""


def there() -> bool:
    """Return whether byte-code was compiled since packages were last installed."""
    return _stamp().is_file() and _stamp().read_text() == _installed()


def make(progress: Callable[[str], None]) -> None:
    """Compile each file whose byte-code is missing or outdated; skip files with syntax errors, as pip does.

    This uses all cores, or only one at low priority, that is, behind a running dashboard.
    """
    installed = _installed()
    files = sorted(map(str, _packages().rglob("*.py")))
    with ExitStack() as stack:
        map_files: Callable[..., Any] = map
        if os.nice(0) == 0:
            map_files = partial(stack.enter_context(ProcessPoolExecutor()).map, chunksize=_FILES)
        for done, _ in enumerate(map_files(partial(compileall.compile_file, quiet=2), files), 1):
            if done % _FILES == 0:
                progress(f"{done:,} of {len(files):,} files")
    progress(f"{len(files):,} files")
    _stamp().write_text(installed)


def _packages() -> Path:
    return Path(sysconfig.get_path("purelib"))


def _stamp() -> Path:
    return setup_status.FOLDER / "byte-code"


def _installed() -> str:
    """Return a digest of the names of all installed packages."""
    names = sorted(entry.name for entry in _packages().glob("*.dist-info"))
    return hashlib.sha256("\n".join(names).encode()).hexdigest()
