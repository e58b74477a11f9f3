"""Metrics of the program in Prometheus format."""

import sqlite3
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from engine.config import PrivacyConfig
from engine.records import RunState
from engine.service import Application, prometheus_metrics
from tests.engine.factories import SMALL

BOTH_STORES = pytest.mark.parametrize("settings", ["SQLite", "PostgreSQL"], indirect=True)


def read(runs: Application) -> dict[tuple[str, ...], float]:
    """Return each value by its name and labels."""
    families = text_string_to_metric_families(prometheus_metrics.text(runs).decode())
    return {(each.name, *each.labels.values()): each.value for family in families for each in family.samples}


@BOTH_STORES
def test_metrics_include_queue_states_and_budgets(settings):
    app = Application(settings)
    app.budgets.set_total("synthetic", 3.0)
    store = app._context.store
    for number in range(3):
        store.submit(f"{number:016}", SMALL, "checksum")
    store.claim(f"{0:016}", "here/1")
    store.fail(f"{1:016}", "It failed.")
    found = read(app)
    states = {str(state): found["epsilon_runs", str(state)] for state in RunState}
    assert states == {"queued": 1, "running": 1, "done": 0, "failed": 1, "cancelled": 0}
    assert 0 < found["epsilon_queue_seconds",] < 600
    assert 0 <= found["epsilon_silent_seconds",] < 600
    assert found["epsilon_store_up",] == 1
    assert found["epsilon_cluster_up",] == found["epsilon_workers",] == 0
    assert found["epsilon_budget", "synthetic", "1e-05", "sentence"] == 3
    assert found["epsilon_budget_booked", "synthetic", "1e-05", "sentence"] == 0
    assert found["epsilon_budget_holds", "synthetic", "1e-05", "sentence"] == 1
    plain = replace(SMALL, privacy=PrivacyConfig(noise_multiplier=0.0))
    app.budgets.charge(app.budgets.unprotected_accesses("a" * 16, plain, "an audit", unprotected=True))
    assert read(app)["epsilon_budget_holds", "synthetic", "1e-05", "sentence"] == 0
    app.close()


def test_empty_store_gives_zeros(settings):
    found = read(Application(settings))
    assert found["epsilon_queue_seconds",] == found["epsilon_silent_seconds",] == 0
    assert found["epsilon_runs", "queued"] == 0
    assert found["epsilon_memory_bytes", "server"] > 1e6
    assert found["epsilon_disk_free_bytes",] > 0


def test_unreadable_store_gives_store_up_zero(settings):
    settings.home.mkdir()
    (settings.home / "runs.sqlite").write_bytes(b"no database" * 100)
    found = read(Application(settings))
    assert found["epsilon_store_up",] == 0
    assert ("epsilon_runs", "queued") not in found


def test_corrupted_ledger_gives_store_up_zero(settings):
    app = Application(settings)
    app.budgets.set_total("synthetic", 3.0)
    with sqlite3.connect(settings.home / "runs.sqlite") as connection:
        connection.execute("UPDATE bookings SET entry = replace(entry, '3.0', '9.0')")
    assert read(app)["epsilon_store_up",] == 0
