"""The byte-code of all installed packages, made at once: pip would make it one file after another, before a page could
be seen. What is needed earlier makes its own."""

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
"""Handed to a process at a time."""


def there() -> bool:
    """Whether byte-code was made since packages were last installed."""
    return _stamp().is_file() and _stamp().read_text() == _installed()


def make(progress: Callable[[str], None]) -> None:
    """Make it where it is missing or older than its source; a file that is no Python is left out, as pip does.

    By all cores; by one where priority is low, which is behind the dashboard.
    """
    packages = _installed()
    files = sorted(map(str, _packages().rglob("*.py")))
    with ExitStack() as stack:
        each: Callable[..., Any] = map
        if os.nice(0) == 0:
            each = partial(stack.enter_context(ProcessPoolExecutor()).map, chunksize=_FILES)
        for done, _ in enumerate(each(partial(compileall.compile_file, quiet=2), files), 1):
            if done % _FILES == 0:
                progress(f"{done:,} of {len(files):,} files")
    progress(f"{len(files):,} files")
    _stamp().write_text(packages)


def _packages() -> Path:
    return Path(sysconfig.get_path("purelib"))


def _stamp() -> Path:
    return setup_status.FOLDER / "byte-code"


def _installed() -> str:
    """A digest of what is installed."""
    names = sorted(each.name for each in _packages().glob("*.dist-info"))
    return hashlib.sha256("\n".join(names).encode()).hexdigest()
