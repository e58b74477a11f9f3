"""Keep compiled code between clean checkouts: ``python3 -m tests.compiled_cache restore``, later ``… save``.

``.ci/run`` calls it. In a persistent checkout, Numba's files are beside the sources and need no copy. A copy is used
only for the same sources, pinned packages and processor; Numba also compares each file with its source and the
processor. This module imports only the standard library, since it runs before the packages are installed.
"""

import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from engine.training import compile_cache

ROOT = Path(__file__).resolve().parents[1]
FOLDER = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "epsilon-explorer" / "compiled"
MOST = 3
"""Maximum number of copies; the oldest is deleted first."""
PATTERNS = ("__pycache__/*.nb[ic]", "__pycache__/compiled-*", "__pycache__/compiling")
"""Numba's files, and the digests of their sources."""


def key(cpu_info: Path = Path("/proc/cpuinfo")) -> str:
    """Return the name of the copy for these sources, packages and this processor."""
    lists = (ROOT / name for name in ("requirements.txt", "tests/requirements.txt"))
    target = compile_cache.target(cpu_info)
    parts = [compile_cache.digest(), sys.version, target, *(path.read_text(encoding="utf-8") for path in lists)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def restore(root: Path = ROOT, folder: Path = FOLDER) -> int:
    """Copy the saved files beside the sources without overwriting any; return the number of saved files."""
    copy = folder / key()
    files = [path for path in copy.rglob("*") if path.is_file()]
    for path in files:
        target = root / path.relative_to(copy)
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)
    return len(files)


def save(root: Path = ROOT, folder: Path = FOLDER) -> int:
    """Save a copy of the files beside the sources, replacing an older copy; return the number of files."""
    files = [path for pattern in PATTERNS for path in (root / "engine").rglob(pattern)]
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        for path in files:
            target = Path(temporary) / "new" / path.relative_to(root)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)
        if files:
            shutil.rmtree(folder / key(), ignore_errors=True)
            (Path(temporary) / "new").rename(folder / key())
    copies = sorted((path for path in folder.iterdir() if path.is_dir()), key=lambda path: path.stat().st_mtime)
    for old in copies[:-MOST]:
        shutil.rmtree(old, ignore_errors=True)
    return len(files)


def main() -> int:
    """Run the command of the argument; return the exit code."""
    verbs: dict[str, Callable[[], int]] = {"restore": restore, "save": save}
    if len(sys.argv) != 2 or sys.argv[1] not in verbs:
        sys.stderr.write(f"arguments={sys.argv[1:]}, expected one of {', '.join(verbs)}\n")
        return 2
    sys.stdout.write(f"compiled code: {verbs[sys.argv[1]]()} files ({sys.argv[1]})\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
