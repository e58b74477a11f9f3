"""Compiled code is kept for the same sources, packages and processor, and for no others."""

from pathlib import Path

import pytest

from engine.training import compile_cache
from tests import compiled_cache


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout in which one function is compiled."""
    beside = tmp_path / "checkout" / "engine" / "training" / "__pycache__"
    beside.mkdir(parents=True)
    for name in ("dense.forward-38.py311.nbi", "dense.forward-38.py311.1.nbc", "dense.cpython-311.pyc"):
        (beside / name).write_text(name)
    return tmp_path / "checkout"


def names(root: Path) -> set[str]:
    return {path.name for path in root.rglob("*") if path.is_file()}


def test_a_clean_checkout_gets_the_compiled_code_of_the_last_one(checkout, tmp_path) -> None:
    assert compiled_cache.save(checkout, tmp_path / "kept") == 2
    assert compiled_cache.restore(tmp_path / "clean", tmp_path / "kept") == 2
    assert names(tmp_path / "clean") == {"dense.forward-38.py311.nbi", "dense.forward-38.py311.1.nbc"}


def test_other_sources_get_nothing(checkout, tmp_path, monkeypatch) -> None:
    compiled_cache.save(checkout, tmp_path / "kept")
    monkeypatch.setattr(compile_cache, "digest", lambda: "of other sources")
    assert compiled_cache.restore(tmp_path / "clean", tmp_path / "kept") == 0


def test_another_processor_has_another_copy(tmp_path) -> None:
    files = []
    for number, flags in enumerate(("avx2 avx512f", "avx2")):
        files.append(tmp_path / str(number))
        files[-1].write_text(f"model name\t: One\nflags\t\t: {flags}\ncpu MHz\t\t: {number}\n")
    first, second = map(compiled_cache.key, files)
    assert first != second
    files[1].write_text(files[0].read_text().replace("MHz\t\t: 0", "MHz\t\t: 9"))
    assert compiled_cache.key(files[1]) == first


def test_what_is_there_already_stays(checkout, tmp_path) -> None:
    compiled_cache.save(checkout, tmp_path / "kept")
    there = checkout / "engine" / "training" / "__pycache__" / "dense.forward-38.py311.nbi"
    there.write_text("newer")
    compiled_cache.restore(checkout, tmp_path / "kept")
    assert there.read_text() == "newer"


def test_only_the_newest_copies_are_kept(checkout, tmp_path, monkeypatch) -> None:
    for number in range(compiled_cache.MOST + 2):
        monkeypatch.setattr(compile_cache, "digest", lambda number=number: str(number))
        compiled_cache.save(checkout, tmp_path / "kept")
    assert len(list((tmp_path / "kept").iterdir())) == compiled_cache.MOST
    assert compiled_cache.restore(tmp_path / "clean", tmp_path / "kept") == 2, "the newest is there"
