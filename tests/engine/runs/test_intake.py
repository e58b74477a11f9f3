"""A corpus of one's own: read in a process of its own, renamed, deleted with all that came of it."""

import dataclasses
import os
from pathlib import Path

import pytest

from engine import corpus
from engine.cluster.worker import compute
from engine.errors import CorpusError, InvalidConfig
from engine.runs import Runs, intake
from engine.store.database import Store
from tests.engine.runs_for_tests import SMALL

SENTENCES = "".join(f"{name} B-PER\nlives O\nin O\nNew B-LOC\nUlm I-LOC\n\n" for name in ("Rosa", "Ada", "Max") * 20)


def test_what_was_read_is_told_and_pages_need_not_read_it_again(settings, monkeypatch):
    runs, told = Runs(settings), []
    name, found = runs.add_corpus("Case notes.conll", SENTENCES.encode(), told.append)
    assert name == "my-case-notes"
    assert found.sentences == (48, 6, 6)
    assert found.names == {"PER": 60, "LOC": 60}
    assert found.first == "[Rosa PER] lives in [New Ulm LOC]"
    assert told == [
        "Reading its sentences and tags",
        "Counting names",
        "Comparing it with the sentences that features were fitted on",
    ]
    monkeypatch.setattr(corpus.CorpusHandle, "load", lambda self: pytest.fail("it was read"))
    config = dataclasses.replace(SMALL, corpus=name, features="contextual")
    assert runs.train_sentences(name) == 48
    assert runs.overlap(config).sentences == (48, 6, 6)
    assert runs.corpus(config).layout.types == ("LOC", "PER")


@pytest.mark.parametrize("data", [b"", b"\x80\x00", b"a O\n" * 20, b"a B-PER extra\nb O\n"])
def test_what_is_wrong_is_said_with_the_name_of_the_file(settings, data):
    with pytest.raises(CorpusError) as refused:
        Runs(settings).add_corpus("bad & odd.conll", data)
    assert str(refused.value).startswith("bad & odd.conll")
    assert str(settings.home) not in str(refused.value)
    assert not list((settings.home / "corpora").iterdir())


def test_a_file_that_takes_all_memory_takes_nothing_along(settings, monkeypatch):
    program = "import sys; from engine.runs import intake; intake.BYTES = 500_000_000; sys.exit(intake.main())"
    honest = intake.subprocess.Popen

    def small(command, **more):
        return honest([command[0], "-c", program, command[-1]], **more)

    monkeypatch.setattr(intake.subprocess, "Popen", small)
    many = "".join(f"w{number} B-PER\nx O\n\n" for number in range(1_200_000)).encode()
    with pytest.raises(CorpusError, match="could not be read: it takes more than 10 minutes, or all memory"):
        Runs(settings).add_corpus("notes.conll", many)


def test_one_that_takes_too_long_is_given_up(settings, monkeypatch):
    monkeypatch.setattr(intake, "SECONDS", 0.01)
    with pytest.raises(CorpusError, match="could not be read"):
        Runs(settings).add_corpus("notes.conll", SENTENCES.encode())


class TestItsEnd:
    @pytest.fixture
    def kept(self, trained_settings):
        """A corpus with a run on it."""
        runs = Runs(trained_settings)
        name, _ = runs.add_corpus("notes.conll", SENTENCES.encode())
        config = dataclasses.replace(SMALL, corpus=name, data_fraction=1.0)
        identity = runs.identity(config)
        Store(trained_settings.store_url).submit(identity, config, runs.corpus(config).checksum)
        compute(identity, trained_settings, "here")
        return runs, name, identity

    def test_nothing_of_it_remains(self, kept, trained_settings):
        runs, name, identity = kept
        checksum = runs.corpus(runs.get(identity).config).checksum[:16]
        known = (checksum, identity, name)
        assert len(_named(trained_settings.home, known)) > 4
        runs.delete_corpus(name)
        assert _named(trained_settings.home, known) == []
        assert runs.runs_of(name) == []
        assert name not in {info.name for info in runs.corpora()}

    def test_a_name_stays_while_runs_are_called_by_it(self, kept):
        runs, name, identity = kept
        with pytest.raises(InvalidConfig, match="has 1 runs, which are called by its name"):
            runs.rename_corpus(name, "Letters")
        runs.delete(identity)
        assert runs.rename_corpus(name, "Letters of 1904") == "my-letters-of-1904"
        assert runs.train_sentences("my-letters-of-1904") == 48

    def test_a_name_that_is_taken_is_refused_and_only_own_corpora_end(self, kept):
        runs, name, identity = kept
        runs.delete(identity)
        runs.add_corpus("other.conll", SENTENCES.encode())
        with pytest.raises(CorpusError, match="expected one that no corpus has: other is there"):
            runs.rename_corpus(name, "Other!")
        for strange in ("synthetic", "btc", "my-nothing", "../x"):
            with pytest.raises(CorpusError):
                runs.delete_corpus(strange)
            with pytest.raises(CorpusError):
                runs.rename_corpus(strange, "mine")


def _named(home: Path, words: tuple[str, ...]) -> list[str]:
    """All that lies below and is called by one of these; links are followed: encoded corpora are shared by tests."""
    every = [Path(folder, name) for folder, below, files in os.walk(home, followlinks=True) for name in below + files]
    return [str(path) for path in every if any(word in path.name for word in words)]
