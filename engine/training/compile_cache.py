"""Whether the engine's compiled code is there, ready to load: a digest of its sources lies beside it.

Only the standard library: every start of the dashboard asks this.
"""

import hashlib
from contextlib import suppress
from pathlib import Path

_ENGINE = Path(__file__).resolve().parent.parent
_STAMP, _BEGUN = (_ENGINE / "__pycache__" / name for name in ("compiled", "compiling"))
"""Of this checkout: another one with the same virtual environment has compiled code of its own."""


def is_fresh() -> bool:
    """Whether everything was compiled since its sources changed."""
    return _STAMP.is_file() and _STAMP.read_text() == digest()


def begin() -> None:
    """Remove what was compiled of other sources: Numba sees that a function has changed, not that one has which it
    calls. What an interruption left of these sources stays."""
    today = digest()
    with suppress(OSError):  # where nobody may write beside the sources, compiled code is kept elsewhere
        if not _BEGUN.is_file() or _BEGUN.read_text() != today:
            for path in _ENGINE.rglob("__pycache__/*.nb[ic]"):
                path.unlink(missing_ok=True)
            _BEGUN.parent.mkdir(exist_ok=True)
            _BEGUN.write_text(today)


def renew() -> None:
    """Say that everything has been compiled."""
    with suppress(OSError):
        _STAMP.parent.mkdir(exist_ok=True)
        _STAMP.write_text(digest())


def digest() -> str:
    """Return the SHA-256 of all sources that Numba compiles."""
    sources = (path.read_bytes() for path in sorted(_ENGINE.rglob("*.py")))
    return hashlib.sha256(b"\0".join(source for source in sources if b"from numba" in source)).hexdigest()
