"""Uploaded corpora: read in a separate process, renamed, and deleted with everything derived from them."""

import dataclasses
import os
from pathlib import Path

import fsspec
import pytest

from engine import corpus
from engine.cluster.worker import compute
from engine.config import JOIN, FederationConfig, with_noise
from engine.config.feature_registry import MOST_FITTED
from engine.embeddings.contamination import overlap
from engine.errors import CorpusError, InvalidConfig
from engine.records import Audit, RunState
from engine.service import Application, corpus_import
from engine.settings import Settings
from engine.store.run_store import RunStore
from tests.engine.factories import SMALL

SENTENCES = "# entity types: LOC PER\n" + "".join(
    f"{name} B-PER\nlives O\nin O\nNew B-LOC\nUlm I-LOC\n\n" for name in ("Rosa", "Ada", "Max") * 20
)


TWO = {"notes": SENTENCES, "other": SENTENCES.replace("lives", "sings")}
"""Two corpora with shared entities."""


def test_upload_reports_progress_and_fills_caches(settings, monkeypatch):
    app, progress = Application(settings), []
    name, found = app.corpora.add("Case notes.conll", SENTENCES.encode(), progress.append)
    assert name == "my-case-notes"
    assert found.sentences == (48, 6, 6)
    assert found.names == {"PER": 60, "LOC": 60}
    assert found.first == "[Rosa PER] lives in [New Ulm LOC]"
    assert all(
        part in stage for part, stage in zip(("sentences and tags", "entities", "fitted on"), progress, strict=True)
    )
    monkeypatch.setattr(corpus.CorpusHandle, "load", lambda self: pytest.fail("it was read"))
    config = dataclasses.replace(SMALL, corpus=name, features="contextual")
    assert app.corpora.train_sentences(name) == 48
    assert app.queries.overlap(config).sentences == (48, 6, 6)
    assert app.queries.corpus(config).layout.types == ("LOC", "PER")


@pytest.mark.parametrize("data", [b"", b"\x80\x00", b"a O\n" * 20, b"a B-PER extra\nb O\n"])
def test_bad_file_is_named_and_not_saved(settings, data):
    with pytest.raises(CorpusError) as refused:
        Application(settings).corpora.add("bad & odd.conll", data)
    assert str(refused.value).startswith("bad & odd.conll")
    assert str(settings.home) not in str(refused.value)
    assert not list((settings.home / "corpora").iterdir())


def test_import_memory_is_limited(settings, monkeypatch):
    program = "import sys; from engine.service import corpus_import as c; c.BYTES = 500_000_000; sys.exit(c.main())"
    honest = corpus_import.subprocess.Popen

    def small(command, **more):
        return honest([command[0], "-c", program, command[-1]], **more)

    monkeypatch.setattr(corpus_import.subprocess, "Popen", small)
    many = "".join(f"w{number} B-PER\nx O\n\n" for number in range(1_200_000)).encode()
    with pytest.raises(CorpusError, match=r"not be read: .* 10 minutes .* memory"):
        Application(settings).corpora.add("notes.conll", many)


@pytest.mark.parametrize(("large", "minutes"), [(True, "10"), (False, "2")])
def test_import_time_is_limited(settings, monkeypatch, large, minutes):
    if large:
        monkeypatch.setattr(corpus_import, "LARGE", len(SENTENCES))
    timer = corpus_import.threading.Timer
    monkeypatch.setattr(corpus_import.threading, "Timer", lambda seconds, kill: timer(seconds / 60_000, kill))
    with pytest.raises(CorpusError, match=f"notes.conll could not be read: .* {minutes} minutes"):
        Application(settings).corpora.add("notes.conll", SENTENCES.encode())


def queue_run(app: Application, name: str, masked: float = 0.0) -> str:
    """Queue a run on a corpus, and compute the files that pages compute beforehand."""
    config = dataclasses.replace(SMALL, corpus=name, data_fraction=1.0)
    if masked:
        config = dataclasses.replace(with_noise(config, 0.0), federation=FederationConfig(masked=masked))
    identity, on = app.queries.identity(config), app.queries.corpus(config)
    on.share()
    RunStore(app.settings.store_url).submit(identity, config, on.checksum)
    assert len(app.previews.plan(config).shards) == len(on.parts)
    assert len(on.layout) == on.train_sentences
    overlap(on, MOST_FITTED.name)
    return identity


def finish_run(app: Application, name: str) -> str:
    identity = queue_run(app, name)
    compute(identity, app.settings, "here")
    assert app.queries.status(identity).state == RunState.DONE
    return identity


class TestDeletion:
    @pytest.fixture
    def kept(self, trained_settings):
        """Return a corpus with a run on it."""
        app = Application(trained_settings)
        name, _ = app.corpora.add("notes.conll", SENTENCES.encode())
        return app, name, finish_run(app, name)

    def test_delete_removes_all_derived_files(self, kept, trained_settings):
        app, name, identity = kept
        checksum = app.queries.corpus(app.queries.get(identity).config).checksum[:16]
        known = (checksum, identity, name)
        assert len(_named(trained_settings.home, known)) > 4
        app.corpora.delete(name)
        assert _named(trained_settings.home, known) == []
        assert app.queries.runs_of(name) == []
        assert name not in {info.name for info in app.corpora.all()}

    @pytest.mark.repeats(area="processes")
    def test_delete_removes_files_of_splits_and_joined_corpora(self, settings):
        settings = dataclasses.replace(settings, shared="memory://ends")
        app = Application(settings)
        (name, _), (other, _) = (app.corpora.add(f"{title}.conll", text.encode()) for title, text in TWO.items())
        joined = f"{name}@4{JOIN}{other}"
        on = {
            queue_run(app, each) for each in (f"{name}@3", joined, f"{other}{JOIN}{name}", f"synthetic{JOIN}{name}@7")
        }
        on.add(queue_run(app, joined, masked=0.5))
        apart = queue_run(app, other)
        folders = {each.partition("/")[0] for each in _derived_files(settings)}
        assert folders == {"layouts", "overlaps", "platforms", "corpora-by-checksum"}
        assert {run.run_id for run in app.queries.runs_of(name)} == on
        assert {run.run_id for run in app.queries.runs_of(other)} > {apart}
        theirs = [corpus.resolve(each, settings).checksum[:16] for each in (other, "synthetic")]
        app.corpora.delete(name)
        left = _derived_files(settings)
        assert {each.partition("/")[0] for each in left} == folders - {"platforms"}
        assert [each for each in left if not any(checksum in each for checksum in theirs)] == []
        assert [run.run_id for run in app.queries.runs_of()] == [apart]

    @pytest.mark.repeats(area="processes")
    def test_delete_removes_files_of_trained_split(self, kept, trained_settings):
        app, name, _ = kept
        checksum = corpus.resolve(f"{name}@3", trained_settings).checksum[:16]
        known = (finish_run(app, f"{name}@3"), checksum)
        assert len({Path(path).parent.name for path in _named(trained_settings.home, known)}) > 3
        app.corpora.delete(name)
        assert _named(trained_settings.home, known) == []

    def test_delete_removes_joined_files_without_the_other_corpus(self, settings):
        app = Application(settings)
        (name, _), (other, _) = (app.corpora.add(f"{title}.conll", text.encode()) for title, text in TWO.items())
        queue_run(app, f"{name}@4{JOIN}{other}")
        (settings.home / "corpora" / f"{other}.conll").unlink()
        assert len(list((settings.home / "platforms").iterdir())) == 1
        app.corpora.delete(name)
        assert list((settings.home / "platforms").iterdir()) == []

    @pytest.mark.repeats(area="processes")
    def test_deleted_run_deletes_its_audit(self, kept, trained_settings):
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
                assert finish_run(app, name) == identity
            app.audits.save(audit)
            assert app.audits.all() == {identity: audit}
            end()
            assert app.audits.all() == {}
            assert _named(trained_settings.home, (identity,)) == []

    @pytest.mark.parametrize("called", ["{}@3", "{}@3 + synthetic", "synthetic + {}@3"])
    def test_rename_is_refused_while_split_has_runs(self, called, settings):
        app = Application(settings)
        name, _ = app.corpora.add("notes.conll", SENTENCES.encode())
        identity = queue_run(app, called.format(name))
        with pytest.raises(InvalidConfig, match=r"\bhas 1 runs\b"):
            app.corpora.rename(name, "Letters")
        app.runs.delete(identity)
        assert app.corpora.rename(name, "Letters") == "my-letters"

    @pytest.mark.repeats(area="processes")
    def test_rename_is_refused_while_corpus_has_runs(self, kept):
        app, name, identity = kept
        with pytest.raises(InvalidConfig, match=r"\bhas 1 runs\b"):
            app.corpora.rename(name, "Letters")
        app.runs.delete(identity)
        assert app.corpora.rename(name, "Letters of 1904") == "my-letters-of-1904"
        assert app.corpora.train_sentences("my-letters-of-1904") == 48

    def test_rename_to_taken_name_and_delete_of_public_corpus_are_refused(self, kept):
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
        public = queue_run(app, "synthetic")
        with pytest.raises(CorpusError, match="'synthetic' is not one of your corpora"):
            app.corpora.delete("synthetic")
        assert [run.run_id for run in app.queries.runs_of()] == [public]


def _named(home: Path, words: tuple[str, ...]) -> list[str]:
    """Return the paths below with one of these words in the name; links are followed, since tests share encoded
    corpora."""
    every = [Path(folder, name) for folder, below, files in os.walk(home, followlinks=True) for name in below + files]
    return [str(path) for path in every if any(word in path.name for word in words)]


def _derived_files(settings: Settings) -> list[str]:
    """Return the files derived from sentences, local and shared, by folder and name."""
    folders = ("characters", "corpora-by-checksum", "encoded", "layouts", "overlaps", "platforms")
    shared = [each.removeprefix("/ends/") for each in fsspec.filesystem("memory").find("/ends")]
    here = settings.artefacts.folder
    every = [*shared, *(str(path.relative_to(here)) for path in here.glob("*/*"))]
    return [each for each in every if each.partition("/")[0] in folders]
