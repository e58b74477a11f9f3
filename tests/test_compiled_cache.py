"""Compiled code is restored only for the same sources, packages and processor."""

from pathlib import Path

import pytest

from engine.training import compile_cache
from tests import compiled_cache


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a checkout with one compiled function."""
    cache = tmp_path / "checkout" / "engine" / "training" / "__pycache__"
    cache.mkdir(parents=True)
    for name in ("dense.forward-38.py311.nbi", "dense.forward-38.py311.1.nbc", "dense.cpython-311.pyc"):
        (cache / name).write_text(name)
    return tmp_path / "checkout"


def names(root: Path) -> set[str]:
    return {path.name for path in root.rglob("*") if path.is_file()}


def test_restore_fills_a_clean_checkout(checkout, tmp_path) -> None:
    assert compiled_cache.save(checkout, tmp_path / "kept") == 2
    assert compiled_cache.restore(tmp_path / "clean", tmp_path / "kept") == 2
    assert names(tmp_path / "clean") == {"dense.forward-38.py311.nbi", "dense.forward-38.py311.1.nbc"}


def test_restore_copies_nothing_for_other_sources(checkout, tmp_path, monkeypatch) -> None:
    compiled_cache.save(checkout, tmp_path / "kept")
    monkeypatch.setattr(compile_cache, "digest", lambda: "of other sources")
    assert compiled_cache.restore(tmp_path / "clean", tmp_path / "kept") == 0


def test_key_depends_on_the_processor_but_not_its_clock(tmp_path) -> None:
    files = []
    for number, flags in enumerate(("avx2 avx512f", "avx2")):
        files.append(tmp_path / str(number))
        files[-1].write_text(f"model name\t: One\nflags\t\t: {flags}\ncpu MHz\t\t: {number}\n")
    first, second = map(compiled_cache.key, files)
    assert first != second
    files[1].write_text(files[0].read_text().replace("MHz\t\t: 0", "MHz\t\t: 9"))
    assert compiled_cache.key(files[1]) == first


def test_restore_keeps_existing_files(checkout, tmp_path) -> None:
    compiled_cache.save(checkout, tmp_path / "kept")
    compiled = checkout / "engine" / "training" / "__pycache__" / "dense.forward-38.py311.nbi"
    compiled.write_text("newer")
    compiled_cache.restore(checkout, tmp_path / "kept")
    assert compiled.read_text() == "newer"


def test_save_keeps_only_the_newest_copies(checkout, tmp_path, monkeypatch) -> None:
    for number in range(compiled_cache.MOST + 2):
        monkeypatch.setattr(compile_cache, "digest", lambda number=number: str(number))
        compiled_cache.save(checkout, tmp_path / "kept")
    assert len(list((tmp_path / "kept").iterdir())) == compiled_cache.MOST
    assert compiled_cache.restore(tmp_path / "clean", tmp_path / "kept") == 2, "the newest copy exists"
