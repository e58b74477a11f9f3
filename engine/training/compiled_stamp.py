"""Whether the engine's compiled code is there, ready to load: a digest of its sources lies in the environment.

Only the standard library: every start of the dashboard asks this.
"""

import hashlib
import sys
from pathlib import Path

_ENGINE = Path(__file__).resolve().parent.parent


def is_fresh() -> bool:
    """Whether everything was compiled since its sources changed."""
    stamp = _stamp()
    return stamp.is_file() and stamp.read_text() == _digest()


def renew() -> None:
    """Say that everything has been compiled."""
    _stamp().write_text(_digest())


def _stamp() -> Path:
    return Path(sys.prefix) / "compiled"


def _digest() -> str:
    sources = (path.read_bytes() for path in sorted(_ENGINE.rglob("*.py")))
    return hashlib.sha256(b"\0".join(source for source in sources if b"from numba" in source)).hexdigest()
