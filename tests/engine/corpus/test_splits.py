"""Seeded splits: complete, with equal sentences together, and different for different seeds."""

from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest

from engine import corpus
from engine.corpus import files
from engine.errors import CorpusError
from engine.settings import Settings


def settings_at(home: Path) -> Settings:
    return Settings(home=home, data_dir=None, store_url=f"sqlite:///{home / 'store.db'}")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    folder = tmp_path / "corpora" / "my-notes"
    folder.mkdir(parents=True)
    number = 0
    for part, sentences in (("train", 160), ("valid", 20), ("test", 20)):
        lines = []
        for _ in range(sentences):
            number += 1
            lines.append(f"Patient O\n{'again' if number % 10 == 0 else number} B-X\n")
        (folder / f"{part}.txt").write_text("\n".join(lines))
    return settings_at(tmp_path)


def words_by_set(name: str, settings: Settings) -> list[list[str]]:
    whole = corpus.resolve(name, settings).load()
    return [[each.tokens[1] for each in part] for part in (whole.train, whole.validation, whole.test)]


def test_a_seeded_split_is_complete_with_20_percent_test_sentences(settings: Settings) -> None:
    published, found = words_by_set("my-notes", settings), words_by_set("my-notes@3", settings)
    assert sorted(chain(*found)) == sorted(chain(*published))
    assert len(found[0]) == pytest.approx(160, abs=20)
    assert 30 <= len(found[2]) <= 50
    assert 10 <= len(found[1]) <= 30


def test_equal_sentences_stay_in_one_set(settings: Settings) -> None:
    for number in range(8):
        assert sum("again" in part for part in words_by_set(f"my-notes@{number}", settings)) == 1


def test_seed_determines_split_and_checksum(settings: Settings) -> None:
    first, again, other = (words_by_set(f"my-notes@{seed}", settings) for seed in (3, 3, 4))
    assert first == again != other
    checksums = {corpus.resolve(name, settings).checksum for name in ("my-notes", "my-notes@3", "my-notes@4")}
    assert len(checksums) == 3
    assert corpus.resolve("my-notes@3", settings).train_sentences == len(first[0])


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("ade@0", ("ade", 0)),
        ("my-notes@12", ("my-notes", 12)),
        ("ade", ("ade", None)),
        ("ade@", ("ade@", None)),
        ("ade@-1", ("ade@-1", None)),
        ("ade@x", ("ade@x", None)),
        ("ade@²", ("ade@²", None)),
        ("unknown@3", ("unknown@3", None)),
        ("ade@4294967296", ("ade@4294967296", None)),
        ("synthetic@1", ("synthetic@1", None)),
    ],
)
def test_base_name_and_split(name: str, found: tuple[str, int | None]) -> None:
    assert files.base_name_and_split(name) == found


def test_too_few_different_sentences_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "corpora" / "my-same"
    folder.mkdir(parents=True)
    for part in ("train", "test"):
        (folder / f"{part}.txt").write_text("\n".join(["Take O\nAspirin B-X\n"] * 20))
    with pytest.raises(CorpusError, match=r"my-same@1 .*too few"):
        corpus.resolve("my-same@1", settings_at(tmp_path)).load()


def test_another_machine_finds_the_split(settings: Settings, tmp_path: Path) -> None:
    shared = replace(settings, shared="memory://splits")
    handle = corpus.resolve("my-notes@5", shared)
    handle.share()
    remote = corpus.resolve("my-notes@5", replace(shared, home=tmp_path / "elsewhere"), handle.checksum)
    assert [s.tokens for s in remote.load().test] == [s.tokens for s in handle.load().test]
