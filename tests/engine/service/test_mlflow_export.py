"""Sessions that follow one run share its database queries."""

import pytest

from engine.errors import StoreUnavailable
from engine.records import RunState
from engine.service import Application, run_queries
from engine.store.run_store import RunStore
from tests.engine.factories import SMALL, record


@pytest.fixture
def clock(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(run_queries.time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def followed(settings):
    """Return the application, the store with a worker's claim, and the first state of the run."""
    settings.home.mkdir()
    app, store = Application(settings), RunStore(settings.store_url)
    identity = app.queries.identity(SMALL)
    store.submit(identity, SMALL, app.queries.corpus(SMALL).checksum)
    claim = store.claim(identity, "here")
    store.append(claim, record(0))
    yield app, store, claim, app.queries.find(SMALL)
    store.close()
    app.close()


def test_refresh_queries_the_store_once_per_second(followed, clock, monkeypatch):
    app, store, claim, run = followed
    queries = []
    status = app._context.store.status
    monkeypatch.setattr(app._context.store, "status", lambda identity: queries.append(identity) or status(identity))
    store.append(claim, record(1))
    assert [len(app.queries.refresh(run).records) for _ in range(100)] == [2] * 100
    assert len(queries) == 1
    store.append(claim, record(2))
    clock[0] += 1.0
    assert app.queries.refresh(run).records == (record(0), record(1), record(2))
    assert len(queries) == 2


def test_refresh_keeps_newer_records(followed, clock):
    app, store, claim, run = followed
    app.queries.refresh(run)
    store.append(claim, record(1))
    further = app.queries.get(run.run_id)
    assert len(app.queries.refresh(further).records) == 2


def test_cancel_invalidates_the_cached_status(followed, clock):
    app, _, _, run = followed
    assert app.queries.refresh(run).status.state == RunState.RUNNING
    app.runs.cancel(run.run_id)
    assert app.queries.refresh(run).status.state == RunState.CANCELLED


def test_unavailable_store_is_queried_once_per_second(followed, clock, monkeypatch):
    app, store, claim, run = followed
    queries = []

    def away(identity):
        queries.append(identity)
        raise StoreUnavailable("The database is away.")

    with monkeypatch.context() as patch:
        patch.setattr(app._context.store, "status", away)
        for _ in range(50):
            with pytest.raises(StoreUnavailable, match="is away"):
                app.queries.refresh(run)
    assert len(queries) == 1
    store.append(claim, record(1))
    clock[0] += 1.0
    assert len(app.queries.refresh(run).records) == 2
