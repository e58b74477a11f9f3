"""Corpus handles locate files once, on this machine or in another machine's copy."""

import dataclasses
from pathlib import Path

import fsspec
import pytest

from engine import corpus
from engine.corpus import CorpusHandle, files
from engine.errors import CorpusError

LINES = "".join(f"Rosa{n} B-PER\nlives O\nin O\nRome B-LOC\n\n" for n in range(30))


@pytest.fixture
def machines(settings, tmp_path):
    """Return the settings of two machines that share files only."""
    system = fsspec.filesystem("memory")
    if system.exists("/machines"):
        system.rm("/machines", recursive=True)
    return tuple(dataclasses.replace(settings, home=tmp_path / name, shared="memory://machines") for name in "ab")


def test_files_are_located_once(settings, tmp_path: Path, monkeypatch) -> None:
    path, calls = tmp_path / "mine.conll", []
    path.write_text(LINES)
    locate = files.locate
    monkeypatch.setattr(files, "locate", lambda *arguments: calls.append(arguments) or locate(*arguments))
    handle = corpus.resolve(str(path), settings)
    assert not calls
    assert handle.train_sentences == 24
    assert handle.checksum == handle.load().checksum
    assert len(handle.layout) == 24
    assert len(calls) == 1


def test_changed_corpus_fails_the_expected_checksum(settings, tmp_path: Path) -> None:
    path = tmp_path / "mine.conll"
    path.write_text(LINES)
    checksum = corpus.resolve(str(path), settings).checksum
    assert corpus.resolve(str(path), settings, checksum).checksum == checksum
    path.write_text(LINES + "Ann B-PER\n")
    with pytest.raises(CorpusError, match="was changed since"):
        _ = corpus.resolve(str(path), settings, checksum).checksum


def test_another_machine_finds_an_uploaded_corpus_by_its_checksum(machines, tmp_path: Path) -> None:
    local, remote = machines
    path = tmp_path / "mine.conll"
    path.write_text(LINES)
    handle = corpus.resolve(str(path), local)
    handle.share()
    handle.share()
    train = handle.load().train
    path.unlink()
    with pytest.raises(CorpusError):
        _ = corpus.resolve(str(path), remote).checksum
    located = corpus.resolve(str(path), remote, handle.checksum)
    assert located.checksum == handle.checksum
    assert located.load().train == train
    with pytest.raises(CorpusError):
        _ = corpus.resolve(str(path), remote, "0" * 64).checksum


def test_share_copies_only_for_other_machines(settings, machines, tmp_path) -> None:
    path = tmp_path / "mine.conll"
    path.write_text(LINES)
    corpus.resolve(str(path), settings).share()
    assert not (settings.home / "corpora-by-checksum").exists()
    corpus.resolve("synthetic", machines[0]).share()
    assert not fsspec.filesystem("memory").exists("/machines")


def test_train_sentences_of_a_named_corpus_needs_no_files(settings) -> None:
    handle = CorpusHandle("conll2003", settings)
    assert handle.train_sentences == 14_041
    with pytest.raises(CorpusError, match="is not available"):
        _ = handle.checksum
