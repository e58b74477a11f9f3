"""Page Privacy budget: without a budget, with charges, and with a modified ledger."""

import sqlite3
from dataclasses import replace

import pytest

from engine.cluster import supervisor
from engine.config import PrivacyConfig, SimulationConfig
from engine.service import Application
from pages.budget import charts, messages
from pages.shared import address

CONFIG = SimulationConfig.from_flat(
    {"tagger": "linear-crf", "noise_multiplier": 6.0, "batch_size": 1024, "epochs": 10.0, "features": "vectors"}
)


@pytest.fixture
def spent(settings, monkeypatch):
    """Yield an application with a budget, a charge and an unprotected access."""
    monkeypatch.setattr(supervisor, "ensure_cluster", lambda *_: None)
    app = Application(settings)
    app.budgets.set_total("synthetic", 2.0)
    app.runs.submit(CONFIG)
    app.runs.submit(replace(CONFIG, privacy=PrivacyConfig(noise_multiplier=0.0)), unprotected=True)
    yield app
    app.close()


def test_budget_can_be_set(open_page):
    page = open_page("budget")
    assert not page.exception
    assert page.markdown[0].value == "### This corpus has no budget yet."
    page.number_input[0].set_value(4.0)
    page.button[0].click().run()
    assert not page.exception
    assert page.markdown[0].value == (
        "### ε = 4 at δ = 1e-5 for each sentence (adjacency: that of the charged runs): nothing spent."
    )
    assert any("Affordable runs" in each.value for each in page.markdown)


def test_charges_are_listed(open_page, spent):
    page = open_page("budget")
    assert not page.exception
    state = spent.budgets.state("synthetic")
    assert "The total no longer holds" in page.markdown[0].value
    assert "1 unprotected access" in page.markdown[0].value
    assert messages.BROKEN in [each.value for each in page.warning]
    assert state.share > 0
    frames = [frame.value for frame in page.dataframe]
    assert frames[0]["what"].tolist() == ["linear-crf, σ = 6, dp-sgd"]
    assert frames[0]["adjacency"].tolist() == [state.adjacency] == ["add or remove one"]
    assert frames[1]["what"].tolist() == ["linear-crf, σ = 0, dp-sgd, without a privacy guarantee"]
    assert frames[2]["times"].iloc[-1] == 0
    page.number_input[0].set_value(0.1)
    page.button[0].click().run()
    assert "epsilon=0" in page.error[0].value


def test_modified_ledger_shows_an_error(open_page, spent, settings):
    with sqlite3.connect(settings.home / "runs.sqlite") as connection:
        connection.execute("UPDATE bookings SET entry = replace(entry, 'sigma', 'x') WHERE number = 1")
        connection.execute("UPDATE bookings SET seal = 'x' WHERE number = 1")
    connection.close()
    page = open_page("budget")
    assert "modified from outside at entry 1" in page.error[0].value


def test_bar_pieces_sum_to_one(spent):
    state = spent.budgets.state("synthetic")
    figure = charts.bar(state, key="a")
    assert sum(bar.x[0] for bar in figure.data) == pytest.approx(1)
    assert figure.data[0].marker.pattern.shape == "/", "running"
    assert messages.charges(state)[0]["status"] == "running"


def test_explore_shows_the_budget_share_of_a_run(open_page, spent):
    page = open_page("explore", **dict(address.write(replace(CONFIG, seed=3))))
    assert not page.exception
    assert any("of the budget of Letters and notes" in each.value for each in page.caption)
