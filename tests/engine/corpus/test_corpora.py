"""Named corpora, paths and uploads: location, splits, refused files."""

import functools
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from engine import corpus
from engine.corpus import Corpus, uploads
from engine.errors import CorpusError, StoreError
from engine.settings import Settings


def sentences(count: int, start: int = 0) -> bytes:
    return "\n".join(f"word{i} O\nName{i} B-PER\n" for i in range(start, start + count)).encode()


def entities(part):
    return sum(tag[0] == "B" for sentence in part for tag in sentence.tags)


@pytest.fixture(scope="module")
def load(data_dir, tmp_path_factory) -> Callable[[str], Corpus]:
    """Return a function that reads a real corpus by its name, once."""
    home = tmp_path_factory.mktemp("home")
    settings = Settings(home=home, data_dir=data_dir, store_url=f"sqlite:///{home / 'runs.sqlite'}", published=home)
    return functools.cache(lambda name: corpus.resolve(name, settings).load())


@pytest.mark.parametrize(
    ("name", "sizes", "entity_counts"),
    [
        ("conll2003", (14_041, 3_250, 3_453), (23_499, 5_942, 5_648)),
        ("wnut17", (3_394, 1_009, 1_287), (1_975, 836, 1_079)),
        ("psytar", (3_850, 550, 1_191), (3_535, 431, 1_077)),
        ("bc5cdr", (4_560, 4_581, 4_797), (9_385, 9_593, 9_809)),
        ("ncbi_disease", (5_424, 923, 940), (5_134, 787, 960)),
    ],
)
def test_published_counts(name, sizes, entity_counts, load):
    loaded = load(name)
    parts = (loaded.train, loaded.validation, loaded.test)
    assert tuple(map(len, parts)) == sizes
    assert tuple(map(entities, parts)) == entity_counts


@pytest.mark.parametrize(("name", "total", "entity_count"), [("btc", 9_339, 14_885), ("wikigold", 1_696, 3_558)])
def test_unsplit_corpora_are_split_completely(name, total, entity_count, load):
    loaded = load(name)
    parts = (loaded.train, loaded.validation, loaded.test)
    assert sum(map(len, parts)) == total
    assert sum(map(entities, parts)) == entity_count
    assert len(loaded.test) / total == pytest.approx(0.1, abs=0.005)


def test_btc_has_a_section_for_each_training_sentence(load):
    loaded = load("btc")
    assert sorted(set(loaded.sections)) == ["a", "b", "e", "f", "g", "h"]
    assert len(loaded.sections) == len(loaded.train)


@pytest.mark.parametrize("name", ["bc5cdr", "psytar"])
def test_folders_with_train_dev_and_test(name, data_dir, settings):
    loaded = corpus.resolve(str(data_dir / name), settings).load()
    expected = {"bc5cdr": (4_560, 4_581, 4_797), "psytar": (3_850, 550, 1_191)}[name]
    assert (len(loaded.train), len(loaded.validation), len(loaded.test)) == expected


def test_named_corpora_agree_with_their_catalogue_rows(data_dir, settings, load):
    with_corpora = with_data(settings, data_dir)
    for info in corpus.catalogue(with_corpora):
        loaded = load(info.name)
        assert len(loaded.train) + len(loaded.validation) + len(loaded.test) == info.sentences
        assert loaded.entity_types == info.entity_types
        assert len(loaded.train) == corpus.resolve(info.name, settings).train_sentences
        assert corpus.resolve(info.name, with_corpora).checksum == loaded.checksum
        assert info.available


def test_named_corpus_with_wrong_checksum_is_refused(data_dir, settings):
    original = (data_dir / "wikigold" / "wikigold.conll.txt").read_bytes()
    folder = settings.home / "corpora" / "wikigold"
    folder.mkdir(parents=True)
    (folder / "wikigold.conll.txt").write_bytes(original.replace(b"I-PER", b"I-LOC", 1))
    with pytest.raises(CorpusError, match=r"not the expected file.*\bwikigold\b"):
        corpus.resolve("wikigold", settings).load()


def test_missing_corpus_error_names_the_command(settings):
    with pytest.raises(CorpusError, match="python -m engine fetch wnut17"):
        corpus.resolve("wnut17", settings).load()
    with pytest.raises(CorpusError, match="licence forbids an automatic download"):
        corpus.resolve("conll2003", settings).load()
    with pytest.raises(CorpusError, match="corpus='nowhere' is neither"):
        corpus.resolve("nowhere", settings).load()


def test_a_file_is_split_80_10_10_deterministically(tmp_path, settings):
    file = tmp_path / "notes.conll"
    file.write_bytes(sentences(50))
    first, second = (corpus.resolve(str(file), settings).load() for _ in range(2))
    assert first == second
    assert (len(first.train), len(first.validation), len(first.test)) == (40, 5, 5)
    assert len({*first.train, *first.validation, *first.test}) == 50


def test_a_folder_without_dev_validates_on_a_tenth_of_train(tmp_path, settings):
    (tmp_path / "train.txt").write_bytes(sentences(30))
    (tmp_path / "test.txt").write_bytes(sentences(7, start=100))
    loaded = corpus.resolve(str(tmp_path), settings).load()
    assert (len(loaded.train), len(loaded.validation), len(loaded.test)) == (27, 3, 7)
    assert not set(loaded.train) & set(loaded.validation)


@pytest.mark.parametrize("name", ["dev.tsv", "valid.tsv", "devel.conll"])
def test_a_folder_with_dev_keeps_train_whole(tmp_path, settings, name):
    for file, count in (("train.tsv", 30), (name, 4), ("test.tsv", 5)):
        (tmp_path / file).write_bytes(sentences(count))
    loaded = corpus.resolve(str(tmp_path), settings).load()
    assert (len(loaded.train), len(loaded.validation), len(loaded.test)) == (30, 4, 5)


def test_a_folder_without_test_or_with_two_trains_is_refused(tmp_path, settings):
    (tmp_path / "train.txt").write_bytes(sentences(30))
    with pytest.raises(CorpusError, match=r"no file test\.\*"):
        corpus.resolve(str(tmp_path), settings).load()
    (tmp_path / "train.tsv").write_bytes(sentences(30))
    with pytest.raises(CorpusError, match=r"two files.*\btrain\b"):
        corpus.resolve(str(tmp_path), settings).load()


def test_too_few_sentences_are_refused(tmp_path, settings):
    file = tmp_path / "few.conll"
    file.write_bytes(sentences(9))
    with pytest.raises(CorpusError, match=r"few\.conll.* 9 .*at least 10\b"):
        corpus.resolve(str(file), settings).load()


def test_checksum_depends_on_content_only(tmp_path, settings):
    first, other = tmp_path / "one.conll", tmp_path / "other.conll"
    first.write_bytes(sentences(20))
    other.write_bytes(sentences(20))
    assert corpus.resolve(str(first), settings).checksum == corpus.resolve(str(other), settings).checksum
    other.write_bytes(sentences(21))
    assert corpus.resolve(str(first), settings).checksum != corpus.resolve(str(other), settings).checksum


class TestUploads:
    def test_an_upload_is_saved_and_listed(self, settings):
        name = corpus.add_upload("Case notes (2).conll", sentences(20), settings)
        assert name == "my-case-notes-2"
        assert len(corpus.resolve(name, settings).load().train) == 16
        assert [info.name for info in corpus.catalogue(settings) if info.where == "your files"] == [name]

    def test_upload_is_idempotent_and_other_content_gets_a_number(self, settings):
        names = [corpus.add_upload("a.txt", sentences(count), settings) for count in (20, 20, 30, 30)]
        assert names == ["my-a", "my-a", "my-a-2", "my-a-2"]

    @pytest.mark.parametrize(
        "filename", ["../../evil.conll", "/etc/passwd", "..", "", "a\\..\\b.conll", "\0.txt", "x" * 999]
    )
    def test_no_path_escapes(self, filename, settings):
        corpus.add_upload(filename, sentences(20), settings)
        inside = [path for path in settings.home.parent.rglob("*") if path.is_file()]
        assert [path.parent for path in inside] == [settings.home / "corpora"]

    def test_unreadable_upload_is_not_saved(self, settings):
        for data in (b"", b"\x80\x00", b"a O\n" * 20, sentences(3)):
            with pytest.raises(CorpusError, match=r"bad\.conll"):
                corpus.add_upload("bad.conll", data, settings)
        assert not list(settings.home.rglob("*.conll"))

    def test_unwritable_folder_raises_store_error(self, settings):
        settings.home.mkdir()
        (settings.home / "corpora").write_text("in the way")
        with pytest.raises(StoreError, match=r"a\.conll cannot be saved"):
            corpus.add_upload("a.conll", sentences(20), settings)

    def test_a_link_out_of_the_folder_is_not_listed(self, settings, tmp_path):
        (tmp_path / "secret").write_bytes(sentences(20))
        (settings.home / "corpora").mkdir(parents=True)
        os.symlink(tmp_path / "secret", settings.home / "corpora" / "my-link.conll")
        assert [info.name for info in corpus.catalogue(settings) if info.where == "your files"] == []
        with pytest.raises(CorpusError, match="neither a known corpus"):
            corpus.resolve("my-link", settings).load()


def with_data(settings, data_dir: Path):
    import dataclasses

    return dataclasses.replace(settings, data_dir=data_dir)


def test_a_file_may_be_larger_than_an_upload(settings, tmp_path, monkeypatch):
    monkeypatch.setattr(uploads, "MAX_BYTES", 100)
    data = b"Ada B-PER\nsang O\n\n" * 20
    path = tmp_path / "large.conll"
    path.write_bytes(data)
    assert len(corpus.resolve(str(path), settings).load().train) == 16
    with pytest.raises(CorpusError, match=r"more than 100 bytes.*upload"):
        corpus.add_upload("large.conll", data, settings)


def test_declared_types_of_joined_corpora_and_splits(settings):
    infos = corpus.catalogue(settings)
    assert corpus.declared_types("bc5cdr", infos) == {"Chemical", "Disease"}
    assert corpus.declared_types("conll2003 + ade@3", infos) == {"LOC", "MISC", "ORG", "PER", "ADE", "Dosage", "Drug"}
    assert corpus.declared_types("unknown", infos) == set()
