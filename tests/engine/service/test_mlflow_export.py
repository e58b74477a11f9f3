"""Many sessions that follow one run ask the database once for all of them."""

import pytest

from engine.errors import StoreUnavailable
from engine.records import RunState
from engine.service import Application, run_queries
from engine.store.run_store import RunStore
from tests.engine.factories import SMALL, record


@pytest.fixture
def clock(monkeypatch):
    hand = [1000.0]
    monkeypatch.setattr(run_queries.time, "monotonic", lambda: hand[0])
    return hand


@pytest.fixture
def followed(settings):
    """The door, what a worker may write, and the run as it is found first."""
    settings.home.mkdir()
    app, store = Application(settings), RunStore(settings.store_url)
    identity = app.queries.identity(SMALL)
    store.submit(identity, SMALL, app.queries.corpus(SMALL).checksum)
    claim = store.claim(identity, "here")
    store.append(claim, record(0))
    yield app, store, claim, app.queries.find(SMALL)
    store.close()
    app.close()


def test_one_look_serves_all_until_it_is_old(followed, clock, monkeypatch):
    app, store, claim, run = followed
    asked = []
    status = app._context.store.status
    monkeypatch.setattr(app._context.store, "status", lambda identity: asked.append(identity) or status(identity))
    store.append(claim, record(1))
    assert [len(app.queries.refresh(run).records) for _ in range(100)] == [2] * 100
    assert len(asked) == 1
    store.append(claim, record(2))
    clock[0] += 1.0
    assert app.queries.refresh(run).records == (record(0), record(1), record(2))
    assert len(asked) == 2


def test_who_has_seen_more_than_the_last_look_keeps_it(followed, clock):
    app, store, claim, run = followed
    app.queries.refresh(run)
    store.append(claim, record(1))
    further = app.queries.get(run.run_id)
    assert len(app.queries.refresh(further).records) == 2


def test_who_cancels_sees_it_at_once(followed, clock):
    app, _, _, run = followed
    assert app.queries.refresh(run).status.state == RunState.RUNNING
    app.runs.cancel(run.run_id)
    assert app.queries.refresh(run).status.state == RunState.CANCELLED


def test_a_database_that_does_not_answer_is_asked_once_for_all(followed, clock, monkeypatch):
    app, store, claim, run = followed
    asked = []

    def away(identity):
        asked.append(identity)
        raise StoreUnavailable("The database is away.")

    with monkeypatch.context() as patch:
        patch.setattr(app._context.store, "status", away)
        for _ in range(50):
            with pytest.raises(StoreUnavailable, match="is away"):
                app.queries.refresh(run)
    assert len(asked) == 1
    store.append(claim, record(1))
    clock[0] += 1.0
    assert len(app.queries.refresh(run).records) == 2
