"""State of the engine's compiled code: a digest of its sources tells whether it is up to date.

It needs the standard library only, since every start of the dashboard checks it.
"""

import hashlib
from contextlib import suppress
from pathlib import Path

_ENGINE = Path(__file__).resolve().parent.parent
_STAMP, _BEGUN = (_ENGINE / "__pycache__" / name for name in ("compiled", "compiling"))
"""Digest files of this checkout; another checkout with the same virtual environment has its own compiled code."""


def is_fresh() -> bool:
    """Return whether all functions were compiled after the last change of their sources."""
    return _STAMP.is_file() and _STAMP.read_text() == digest()


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
        _STAMP.write_text(digest())


def digest() -> str:
    """Return the SHA-256 of all sources that Numba compiles."""
    sources = (path.read_bytes() for path in sorted(_ENGINE.rglob("*.py")))
    return hashlib.sha256(b"\0".join(source for source in sources if b"from numba" in source)).hexdigest()
