"""PostgreSQL is killed with SIGKILL during runs, which continue once it is available again."""

import dataclasses
import logging
import os
import random
import threading
import time

import pytest

from engine.cluster import supervisor
from engine.cluster.worker import compute
from engine.errors import StoreUnavailable
from engine.records import RunState
from engine.service import Application
from engine.store.run_store import RunStore
from tests import postgresql
from tests.engine.reliability.disturbed import CONFIGS, App, Watch, alone, comparable


@pytest.fixture(scope="module")
def server(postgresql_server):
    """Run a server of its own, which tests may kill; ``postgresql_server`` skips the tests where there is none."""
    with postgresql.running() as own_server:
        yield own_server


@pytest.fixture
def settings(settings, server):
    return dataclasses.replace(settings, store_url=server.fresh())


@pytest.fixture(scope="module")
def undisturbed(encoded, tmp_path_factory):
    return alone(CONFIGS, tmp_path_factory.mktemp("undisturbed"), encoded)


@pytest.mark.repeats(area="processes")
def test_run_waits_for_the_database_and_continues(trained_settings, server, undisturbed, caplog):
    config, app, store = CONFIGS[0], Application(trained_settings), RunStore(trained_settings.store_url)
    identity = app.queries.identity(config)
    store.submit(identity, config, app.queries.corpus(config).checksum)
    worker = threading.Thread(target=compute, args=(identity, trained_settings, "here"))
    caplog.set_level(logging.WARNING, "epsilon.worker")
    worker.start()
    while not (shown := store.records(identity)):
        time.sleep(0.02)
    server.kill()
    try:
        with pytest.raises(StoreUnavailable, match=r"no server listens|closed the connection"):
            store.records(identity)
        while "Retrying until it succeeds" not in caplog.text:
            assert worker.is_alive(), "the run ended while the database was unavailable"
            time.sleep(0.02)
    finally:
        server.start()
    worker.join()
    stored = store.get(identity)
    assert stored.status.state == RunState.DONE
    assert stored.records[: len(shown)] == shown
    assert comparable(stored.records) == undisturbed[config.seed]
    store.close()
    app.close()


@pytest.mark.nightly
@pytest.mark.parametrize("moment", range(20))
def test_cluster_runs_survive_database_crashes(trained_settings, server, undisturbed, moment):
    draws = random.Random(moment)
    app, watch = App(trained_settings, CONFIGS), Watch(trained_settings, CONFIGS)
    try:
        for _ in range(2):
            watch.until(draws.randrange(0, 30))
            time.sleep(draws.random() / 5)
            server.kill()
            try:
                time.sleep(draws.choice((0.0, 1.0, 8.0)))
            finally:
                server.start()
        watch.to_the_end(undisturbed)
        assert {watch.runs.queries.status(identity).state for identity in watch.identities} == {RunState.DONE}
    finally:
        app.end()
        watch.close()
        supervisor.stop_cluster(trained_settings, os.getpid())
