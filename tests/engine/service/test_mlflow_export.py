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
    runs, store = Application(settings), RunStore(settings.store_url)
    identity = runs.identity(SMALL)
    store.submit(identity, SMALL, runs.corpus(SMALL).checksum)
    claim = store.claim(identity, "here")
    store.append(claim, record(0))
    yield runs, store, claim, runs.find(SMALL)
    store.close()
    runs.close()


def test_one_look_serves_all_until_it_is_old(followed, clock, monkeypatch):
    runs, store, claim, run = followed
    asked = []
    status = runs._store.status
    monkeypatch.setattr(runs._store, "status", lambda identity: asked.append(identity) or status(identity))
    store.append(claim, record(1))
    assert [len(runs.refresh(run).records) for _ in range(100)] == [2] * 100
    assert len(asked) == 1
    store.append(claim, record(2))
    clock[0] += 1.0
    assert runs.refresh(run).records == (record(0), record(1), record(2))
    assert len(asked) == 2


def test_who_has_seen_more_than_the_last_look_keeps_it(followed, clock):
    runs, store, claim, run = followed
    runs.refresh(run)
    store.append(claim, record(1))
    further = runs.get(run.run_id)
    assert len(runs.refresh(further).records) == 2


def test_who_cancels_sees_it_at_once(followed, clock):
    runs, _, _, run = followed
    assert runs.refresh(run).status.state == RunState.RUNNING
    runs.cancel(run.run_id)
    assert runs.refresh(run).status.state == RunState.CANCELLED


def test_a_database_that_does_not_answer_is_asked_once_for_all(followed, clock, monkeypatch):
    runs, store, claim, run = followed
    asked = []

    def away(identity):
        asked.append(identity)
        raise StoreUnavailable("The database is away.")

    with monkeypatch.context() as patch:
        patch.setattr(runs._store, "status", away)
        for _ in range(50):
            with pytest.raises(StoreUnavailable, match="is away"):
                runs.refresh(run)
    assert len(asked) == 1
    store.append(claim, record(1))
    clock[0] += 1.0
    assert len(runs.refresh(run).records) == 2
