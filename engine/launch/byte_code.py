"""The byte-code of all installed packages, made at once by all cores that may be used: pip would make it one file after
another, before a page could be seen. What is needed earlier makes its own."""

import compileall
import hashlib
import os
import sys
import sysconfig
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

_FILES = 100
"""Handed to a process at a time."""


def there() -> bool:
    """Whether byte-code was made since packages were last installed."""
    stamp = Path(sys.prefix) / "byte-code"
    return stamp.is_file() and stamp.read_text() == _installed()


def make(progress: Callable[[str], None]) -> None:
    """Make it where it is missing or older than its source; a file that is no Python is left out, as pip does."""
    files = sorted(map(str, Path(sysconfig.get_path("purelib")).rglob("*.py")))
    before = _installed()
    quietly = partial(compileall.compile_file, quiet=2)
    cores = 1 if os.nice(0) > 0 else os.cpu_count()  # behind the dashboard it takes one
    with ProcessPoolExecutor(cores) as pool:
        for done, _ in enumerate(pool.map(quietly, files, chunksize=_FILES), 1):
            if done % _FILES == 0:
                progress(f"{done:,} of {len(files):,} files")
    progress(f"{len(files):,} files")
    (Path(sys.prefix) / "byte-code").write_text(before)


def _installed() -> str:
    """A digest of what is installed."""
    names = sorted(each.name for each in Path(sysconfig.get_path("purelib")).glob("*.dist-info"))
    return hashlib.sha256("\n".join(names).encode()).hexdigest()
