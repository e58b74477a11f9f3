"""Keep compiled code between clean checkouts: ``python3 -m tests.compiled_cache restore``, later ``… save``.

``.ci/run`` calls it. On a checkout that stays, Numba's files lie beside the sources and nothing has to be copied. A
copy is used for the same sources, pinned packages and processor only; Numba itself checks each file against its source
and the processor once more. Only the standard library: it runs before the packages are installed.
"""

import hashlib
import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from engine.training import compile_cache

ROOT = Path(__file__).resolve().parents[1]
FOLDER = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "epsilon-explorer" / "compiled"
MOST = 3
"""Copies that are kept; the oldest goes first."""
PATTERNS = ("__pycache__/*.nb[ic]", "__pycache__/compiled", "__pycache__/compiling")
"""Numba's files, and the digests that say of which sources they are."""


def key(cpu_info: Path = Path("/proc/cpuinfo")) -> str:
    """Return the name of the copy for these sources, packages and this processor."""
    try:
        said = cpu_info.read_text(encoding="utf-8")
    except OSError:
        said = platform.processor()
    processor = sorted(set(re.findall(r"^(?:model name|flags)\s*:.*$", said, re.MULTILINE))) or [said]
    lists = (ROOT / name for name in ("requirements.txt", "tests/requirements.txt"))
    parts = [compile_cache.digest(), sys.version, *processor, *(path.read_text(encoding="utf-8") for path in lists)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def restore(root: Path = ROOT, folder: Path = FOLDER) -> int:
    """Copy what was kept beside the sources, where nothing is yet; return the number of files."""
    kept = folder / key()
    files = [path for path in kept.rglob("*") if path.is_file()]
    for path in files:
        target = root / path.relative_to(kept)
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)
    return len(files)


def save(root: Path = ROOT, folder: Path = FOLDER) -> int:
    """Keep a copy of what lies beside the sources, in place of an older one; return the number of files."""
    found = [path for pattern in PATTERNS for path in (root / "engine").rglob(pattern)]
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(dir=folder) as made:
        for path in found:
            target = Path(made) / "new" / path.relative_to(root)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)
        if found:
            shutil.rmtree(folder / key(), ignore_errors=True)
            (Path(made) / "new").rename(folder / key())
    copies = sorted((each for each in folder.iterdir() if each.is_dir()), key=lambda each: each.stat().st_mtime)
    for old in copies[:-MOST]:
        shutil.rmtree(old, ignore_errors=True)
    return len(found)


def main() -> int:
    """Do what the argument asks for; return the exit code."""
    verbs: dict[str, Callable[[], int]] = {"restore": restore, "save": save}
    if len(sys.argv) != 2 or sys.argv[1] not in verbs:
        sys.stderr.write(f"arguments={sys.argv[1:]}, expected one of {', '.join(verbs)}\n")
        return 2
    sys.stdout.write(f"compiled code: {verbs[sys.argv[1]]()} files ({sys.argv[1]})\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
