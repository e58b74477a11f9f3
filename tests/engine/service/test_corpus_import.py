"""A corpus of one's own: read in a process of its own, renamed, deleted with all that came of it."""

import dataclasses
import os
from pathlib import Path

import fsspec
import pytest

from engine import corpus
from engine.cluster.worker import compute
from engine.config import FEATURES, JOIN, FederationConfig, with_noise
from engine.embeddings.contamination import overlap
from engine.errors import CorpusError, InvalidConfig
from engine.records import Audit, RunState
from engine.service import Application, corpus_import
from engine.settings import Settings
from engine.store.run_store import RunStore
from tests.engine.factories import SMALL

SENTENCES = "".join(f"{name} B-PER\nlives O\nin O\nNew B-LOC\nUlm I-LOC\n\n" for name in ("Rosa", "Ada", "Max") * 20)


TWO = {"notes": SENTENCES, "other": SENTENCES.replace("lives", "sings")}
"""Two corpora with names in common."""


def test_what_was_read_is_told_and_pages_need_not_read_it_again(settings, monkeypatch):
    app, told = Application(settings), []
    name, found = app.corpora.add("Case notes.conll", SENTENCES.encode(), told.append)
    assert name == "my-case-notes"
    assert found.sentences == (48, 6, 6)
    assert found.names == {"PER": 60, "LOC": 60}
    assert found.first == "[Rosa PER] lives in [New Ulm LOC]"
    assert all(part in stage for part, stage in zip(("sentences and tags", "names", "fitted on"), told, strict=True))
    monkeypatch.setattr(corpus.CorpusHandle, "load", lambda self: pytest.fail("it was read"))
    config = dataclasses.replace(SMALL, corpus=name, features="contextual")
    assert app.corpora.train_sentences(name) == 48
    assert app.queries.overlap(config).sentences == (48, 6, 6)
    assert app.queries.corpus(config).layout.types == ("LOC", "PER")


@pytest.mark.parametrize("data", [b"", b"\x80\x00", b"a O\n" * 20, b"a B-PER extra\nb O\n"])
def test_what_is_wrong_is_said_with_the_name_of_the_file(settings, data):
    with pytest.raises(CorpusError) as refused:
        Application(settings).corpora.add("bad & odd.conll", data)
    assert str(refused.value).startswith("bad & odd.conll")
    assert str(settings.home) not in str(refused.value)
    assert not list((settings.home / "corpora").iterdir())


def test_a_file_that_takes_all_memory_takes_nothing_along(settings, monkeypatch):
    program = "import sys; from engine.service import corpus_import as c; c.BYTES = 500_000_000; sys.exit(c.main())"
    honest = corpus_import.subprocess.Popen

    def small(command, **more):
        return honest([command[0], "-c", program, command[-1]], **more)

    monkeypatch.setattr(corpus_import.subprocess, "Popen", small)
    many = "".join(f"w{number} B-PER\nx O\n\n" for number in range(1_200_000)).encode()
    with pytest.raises(CorpusError, match=r"not be read: .* 10 minutes,.* memory"):
        Application(settings).corpora.add("notes.conll", many)


def test_one_that_takes_too_long_is_given_up(settings, monkeypatch):
    monkeypatch.setattr(corpus_import, "SECONDS", 0.01)
    with pytest.raises(CorpusError, match="could not be read"):
        Application(settings).corpora.add("notes.conll", SENTENCES.encode())


def asked(app: Application, name: str, masked: float = 0.0) -> str:
    """A run on a corpus that waits, with what pages work out before it."""
    config = dataclasses.replace(SMALL, corpus=name, data_fraction=1.0)
    if masked:
        config = dataclasses.replace(with_noise(config, 0.0), federation=FederationConfig(masked=masked))
    identity, on = app.queries.identity(config), app.queries.corpus(config)
    on.share()
    RunStore(app.settings.store_url).submit(identity, config, on.checksum)
    assert len(app.previews.plan(config).shards) == len(on.parts)
    assert len(on.layout) == on.train_sentences
    overlap(on, FEATURES[-1])
    return identity


def done(app: Application, name: str) -> str:
    identity = asked(app, name)
    compute(identity, app.settings, "here")
    assert app.queries.status(identity).state == RunState.DONE
    return identity


class TestItsEnd:
    @pytest.fixture
    def kept(self, trained_settings):
        """A corpus with a run on it."""
        app = Application(trained_settings)
        name, _ = app.corpora.add("notes.conll", SENTENCES.encode())
        return app, name, done(app, name)

    def test_nothing_of_it_remains(self, kept, trained_settings):
        app, name, identity = kept
        checksum = app.queries.corpus(app.queries.get(identity).config).checksum[:16]
        known = (checksum, identity, name)
        assert len(_named(trained_settings.home, known)) > 4
        app.corpora.delete(name)
        assert _named(trained_settings.home, known) == []
        assert app.queries.runs_of(name) == []
        assert name not in {info.name for info in app.corpora.all()}

    def test_nothing_remains_of_its_splits_and_of_what_it_was_joined_with(self, settings):
        settings = dataclasses.replace(settings, shared="memory://ends")
        app = Application(settings)
        (name, _), (other, _) = (app.corpora.add(f"{title}.conll", text.encode()) for title, text in TWO.items())
        joined = f"{name}@4{JOIN}{other}"
        on = {asked(app, each) for each in (f"{name}@3", joined, f"{other}{JOIN}{name}", f"synthetic{JOIN}{name}@7")}
        on.add(asked(app, joined, masked=0.5))
        apart = asked(app, other)
        folders = {each.partition("/")[0] for each in _there(settings)}
        assert folders == {"layouts", "overlaps", "platforms", "corpora-by-checksum"}
        assert {run.run_id for run in app.queries.runs_of(name)} == on
        assert {run.run_id for run in app.queries.runs_of(other)} > {apart}
        theirs = [corpus.resolve(each, settings).checksum[:16] for each in (other, "synthetic")]
        app.corpora.delete(name)
        left = _there(settings)
        assert {each.partition("/")[0] for each in left} == folders - {"platforms"}
        assert [each for each in left if not any(checksum in each for checksum in theirs)] == []
        assert [run.run_id for run in app.queries.runs_of()] == [apart]

    def test_nothing_remains_of_a_split_that_a_worker_trained_on(self, kept, trained_settings):
        app, name, _ = kept
        checksum = corpus.resolve(f"{name}@3", trained_settings).checksum[:16]
        known = (done(app, f"{name}@3"), checksum)
        assert len({Path(path).parent.name for path in _named(trained_settings.home, known)}) > 3
        app.corpora.delete(name)
        assert _named(trained_settings.home, known) == []

    def test_nothing_remains_where_what_it_was_joined_with_is_gone(self, settings):
        app = Application(settings)
        (name, _), (other, _) = (app.corpora.add(f"{title}.conll", text.encode()) for title, text in TWO.items())
        asked(app, f"{name}@4{JOIN}{other}")
        (settings.home / "corpora" / f"{other}.conll").unlink()
        assert len(list((settings.home / "platforms").iterdir())) == 1
        app.corpora.delete(name)
        assert list((settings.home / "platforms").iterdir()) == []

    def test_a_run_takes_its_audit_along(self, kept, trained_settings):
        app, name, identity = kept
        audit = Audit(
            run_id=identity,
            config=app.queries.get(identity).config,
            created="",
            machine="",
            command="",
            engine_version="",
        )
        for number, end in enumerate((lambda: app.runs.delete(identity), lambda: app.corpora.delete(name))):
            if number:
                assert done(app, name) == identity
            app.audits.save(audit)
            assert app.audits.all() == {identity: audit}
            end()
            assert app.audits.all() == {}
            assert _named(trained_settings.home, (identity,)) == []

    @pytest.mark.parametrize("called", ["{}@3", "{}@3 + synthetic", "synthetic + {}@3"])
    def test_a_name_stays_while_runs_on_a_split_are_called_by_it(self, called, settings):
        app = Application(settings)
        name, _ = app.corpora.add("notes.conll", SENTENCES.encode())
        identity = asked(app, called.format(name))
        with pytest.raises(InvalidConfig, match=r"\bhas 1 runs\b"):
            app.corpora.rename(name, "Letters")
        app.runs.delete(identity)
        assert app.corpora.rename(name, "Letters") == "my-letters"

    def test_a_name_stays_while_runs_are_called_by_it(self, kept):
        app, name, identity = kept
        with pytest.raises(InvalidConfig, match=r"\bhas 1 runs\b"):
            app.corpora.rename(name, "Letters")
        app.runs.delete(identity)
        assert app.corpora.rename(name, "Letters of 1904") == "my-letters-of-1904"
        assert app.corpora.train_sentences("my-letters-of-1904") == 48

    def test_a_name_that_is_taken_is_refused_and_only_own_corpora_end(self, kept):
        app, name, identity = kept
        app.runs.delete(identity)
        app.corpora.add("other.conll", SENTENCES.encode())
        with pytest.raises(CorpusError, match="other exists"):
            app.corpora.rename(name, "Other!")
        for strange in ("synthetic", "btc", "my-nothing", "../x", f"{name}@3"):
            with pytest.raises(CorpusError):
                app.corpora.delete(strange)
            with pytest.raises(CorpusError):
                app.corpora.rename(strange, "mine")
        public = asked(app, "synthetic")
        with pytest.raises(CorpusError, match="corpus='synthetic' is none"):
            app.corpora.delete("synthetic")
        assert [run.run_id for run in app.queries.runs_of()] == [public]


def _named(home: Path, words: tuple[str, ...]) -> list[str]:
    """All that lies below and is called by one of these; links are followed: encoded corpora are shared by tests."""
    every = [Path(folder, name) for folder, below, files in os.walk(home, followlinks=True) for name in below + files]
    return [str(path) for path in every if any(word in path.name for word in words)]


def _there(settings: Settings) -> list[str]:
    """All that was worked out from sentences, here and where runs share their files, by folder and name."""
    folders = ("characters", "corpora-by-checksum", "encoded", "layouts", "overlaps", "platforms")
    shared = [each.removeprefix("/ends/") for each in fsspec.filesystem("memory").find("/ends")]
    here = settings.artefacts.folder
    every = [*shared, *(str(path.relative_to(here)) for path in here.glob("*/*"))]
    return [each for each in every if each.partition("/")[0] in folders]
