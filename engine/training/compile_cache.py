"""State of the engine's compiled code: digests of its sources and of the processor tell whether it is up to date.

It needs the standard library only, since every start of the dashboard checks it.
"""

import hashlib
import os
import platform
import re
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path

_ENGINE = Path(__file__).resolve().parent.parent
_STAMP = _ENGINE / "__pycache__" / f"compiled-{sys.implementation.cache_tag}"
_BEGUN = _ENGINE / "__pycache__" / "compiling"
"""Digest files of this checkout; another checkout with the same virtual environment has its own compiled code. Each
version of Python has its own, too."""


def is_fresh() -> bool:
    """Return whether all functions were compiled from these sources and for this processor."""
    try:
        return _STAMP.read_text() == _stamp()
    except OSError:  # there is none, or another user's
        return False


def begin() -> None:
    """Remove code compiled from other sources; code of an interrupted compilation of these sources stays.

    Numba detects a change of a function, but not a change of a function that it calls.
    """
    current = digest()
    with suppress(OSError):  # in a read-only checkout, Numba stores compiled code elsewhere
        if not _BEGUN.is_file() or _BEGUN.read_text() != current:
            for path in _ENGINE.rglob("__pycache__/*.nb[ic]"):
                path.unlink(missing_ok=True)
            _BEGUN.parent.mkdir(exist_ok=True)
            _BEGUN.write_text(current)


def renew() -> None:
    """Mark all functions as compiled."""
    with suppress(OSError):
        _STAMP.parent.mkdir(exist_ok=True)
        _STAMP.write_text(_stamp())


def _stamp() -> str:
    return f"{digest()}\n{target()}"


@cache
def digest() -> str:
    """Return the SHA-256 of all sources that Numba compiles, as they are when the process first asks."""
    sources = (path.read_bytes() for path in sorted(_ENGINE.rglob("*.py")))
    return hashlib.sha256(b"\0".join(source for source in sources if b"from numba" in source)).hexdigest()


def target(cpu_info: Path = Path("/proc/cpuinfo")) -> str:
    """Return the SHA-256 of the processor's model and features, and of the variables that replace them for Numba.

    Numba stores code for each processor, and compiles again for another one.
    """
    try:
        text = cpu_info.read_text(encoding="utf-8")
    except OSError:
        text = ""
    processor = sorted(set(re.findall(r"^(?:model name|flags)\s*:.*$", text, re.MULTILINE))) or [platform.processor()]
    replaced = (os.environ.get(name, "") for name in ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES"))
    return hashlib.sha256("\0".join((*processor, *replaced)).encode()).hexdigest()
