"""The process that tags texts for pages: answers, missing models, abandoned requests, and its end."""

import shutil
from dataclasses import replace

import pytest

from engine.errors import InvalidConfig, TrainingFailed
from engine.service import MOST_CHARACTERS, Application
from engine.service import tagging_client as desks
from engine.settings import REPOSITORY, Settings
from engine.store import paths
from engine.tagging import published_taggers

PUBLISHED = REPOSITORY / "cached_results"


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    """Return an application with the published taggers; its process takes seconds to start."""
    home = tmp_path_factory.mktemp("home")
    opened = Application(
        Settings(home=home, data_dir=None, store_url=f"sqlite:///{home / 'runs.sqlite'}", published=PUBLISHED)
    )
    yield opened
    process = opened._client._process
    opened.close()
    assert process is None or process.poll() is not None


@pytest.fixture(scope="module")
def paper_model(app):
    """Return the run of the tagger that needs no language model."""
    return next(
        offer.run.run_id for offer in app.tagging.available_models() if offer.epsilon == published_taggers.PAPER
    )


@pytest.mark.repeats(area="processes")
def test_tagging_process_is_reused(app, paper_model):
    said: list[str] = []
    app.close()
    text = "Germany beat France in Paris."
    (tagged,) = app.tagging.tag(text, [paper_model], said.append).tagged.values()
    assert said[0] == "starting the taggers"
    assert [text[start:end] for start, end in tagged.spans] == ["Germany", "beat", "France", "in", "Paris", "."]
    first = tagged.entities[0]
    assert (text[first.start : first.end], first.type) == ("Germany", "LOC")
    process = app._client._process
    assert app.tagging.tag("\ud800\x00 <b>", [paper_model]).tagged[paper_model].tags
    assert app._client._process is process


@pytest.mark.repeats(area="processes")
def test_abandoned_request_is_skipped(app, paper_model, monkeypatch):
    class LeftError(Exception):
        pass

    def leave(process):
        raise LeftError

    app.tagging.tag("Warm.", [paper_model])
    with monkeypatch.context() as here:
        here.setattr(app._client, "_line", leave)
        for text in ("Germany.", "France."):
            with pytest.raises(LeftError):
                app.tagging.tag(text, [paper_model])
    assert len(app.tagging.tag("One two three four.", [paper_model]).tagged[paper_model].spans) == 5


@pytest.mark.repeats(area="processes")
def test_process_ends_with_its_parent(app, paper_model):
    app.tagging.tag("Warm.", [paper_model])
    process = app._client._process
    process.stdin.close()
    assert process.wait(30) == 0
    assert app.tagging.tag("One two.", [paper_model]).tagged[paper_model].spans == ((0, 3), (4, 7), (7, 8))


@pytest.mark.repeats(area="processes")
def test_ended_process_is_restarted(app, paper_model):
    app.tagging.tag("Warm.", [paper_model])
    app._client._process.kill()
    app._client._process.wait()
    assert app.tagging.tag("One two.", [paper_model]).tagged[paper_model].spans == ((0, 3), (4, 7), (7, 8))


def test_repeated_crash_raises_training_failed(app, paper_model, monkeypatch):
    app.close()
    monkeypatch.setattr(desks.sys, "executable", "/bin/false")
    with pytest.raises(TrainingFailed, match=r"process .*broke down"):
        app.tagging.tag("One.", [paper_model])


@pytest.mark.repeats(area="processes")
def test_changed_model_is_refused_and_others_answer(trained_settings, tmp_path, paper_model):
    folder = tmp_path / "copy"
    folder.mkdir()
    shutil.copytree(PUBLISHED / "models", folder / "models")
    for path in PUBLISHED.glob("conll2003-*.json"):
        shutil.copy(path, folder)
    opened = Application(replace(trained_settings, published=folder))
    other = next(offer.run.run_id for offer in opened.tagging.available_models() if offer.epsilon == "1")
    path = folder / paths.model_name(other)
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    answer = opened.tagging.tag("Germany.", [other, paper_model])
    opened.close()
    assert list(answer.tagged) == [paper_model]
    assert all(part in answer.missing[other] for part in ("refused", "changed"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [("", "is empty"), (" \n\t", "is empty"), ("x" * (MOST_CHARACTERS + 1), "has 20,001 characters, expected at most")],
)
def test_invalid_text_is_refused(app, paper_model, text, reason):
    with pytest.raises(InvalidConfig, match=reason):
        app.tagging.tag(text, [paper_model])


@pytest.mark.repeats(area="processes")
def test_own_models_follow_published_models(trained_settings):
    from engine.cluster.worker import compute
    from engine.store.run_store import RunStore
    from tests.engine.factories import SMALL

    app = Application(replace(trained_settings, published=PUBLISHED))
    identity = app.queries.identity(SMALL)
    RunStore(trained_settings.store_url).submit(identity, SMALL, app.queries.corpus(SMALL).checksum)
    assert identity not in [offer.run.run_id for offer in app.tagging.available_models()]
    compute(identity, trained_settings, "here")
    *published, own = app.tagging.available_models()
    assert [offer.epsilon for offer in published] == ["inf", "8", "3", "1", "0.76"]
    assert (own.run.run_id, own.epsilon) == (identity, None)
    assert own.run.final.test
    assert set(app.tagging.tag("Dear Ann,", [identity]).tagged) == {identity}
    app.close()
