"""Budgets at the door: runs are booked on what their corpora hold, whatever these are called."""

from dataclasses import replace

import pytest

from engine.cluster import dispatch
from engine.config import PrivacyConfig, SimulationConfig, TrainingConfig
from engine.errors import BudgetExceeded, InvalidConfig
from engine.federated import accounting
from engine.runs import Runs, budgets

CONFIG = SimulationConfig.from_flat(
    {"tagger": "linear-crf", "noise_multiplier": 6.0, "batch_size": 1024, "epochs": 10.0, "features": "vectors"}
)


@pytest.fixture
def runs(settings, monkeypatch):
    """Runs that wait: nobody computes them."""
    monkeypatch.setattr(dispatch, "ensure_cluster", lambda *_: None)
    made = Runs(settings)
    yield made
    made.close()


def test_a_run_is_booked_before_its_first_step_and_another_is_refused(runs):
    now = budgets.set_total(runs, "synthetic", 2.0)
    assert (now.share, now.budget.unit, now.budget.delta) == (0, "sentence", 1e-5)
    runs.submit(CONFIG)
    now = budgets.account(runs, "synthetic")
    cost = accounting.divergence(runs.plan(CONFIG), "sentence", now.budget.order)
    assert now.share == pytest.approx(cost / now.budget.filter.allowance)
    (booking,) = now.bookings
    assert booking.open
    assert "linear-crf, σ = 6" in booking.what
    with pytest.raises(BudgetExceeded, match="The budget of synthetic is ε = 2"):
        runs.submit(replace(CONFIG, privacy=PrivacyConfig(noise_multiplier=0.5)))
    runs.delete(booking.run)
    assert budgets.account(runs, "synthetic").share == 0, "nobody had begun"


def test_runs_without_noise_are_listed(runs):
    budgets.set_total(runs, "synthetic", 2.0)
    runs.submit(replace(CONFIG, privacy=PrivacyConfig(noise_multiplier=0.0)))
    now = budgets.account(runs, "synthetic")
    assert now.share == 0
    assert now.looks[0].what == "linear-crf, σ = 0, dp-sgd, without any promise"


def test_what_ran_before_counts_when_a_budget_is_set(runs):
    runs.submit(CONFIG)
    runs.submit(replace(CONFIG, privacy=PrivacyConfig(noise_multiplier=0.0)))
    now = budgets.set_total(runs, "synthetic", 3.0)
    assert now.share > 0
    assert now.bookings[0].what.endswith("before there was a budget")
    assert len(now.looks) == 1
    before = now.share
    assert budgets.set_total(runs, "synthetic", 6.0).share < before
    assert [each.epsilon for each in budgets.account(runs, "synthetic").totals] == [3.0, 6.0]
    with pytest.raises(InvalidConfig, match=r"epsilon=0\.5"):
        budgets.set_total(runs, "synthetic", 0.5)
    assert budgets.account(runs, "synthetic").budget.epsilon == 6.0
    with pytest.raises(InvalidConfig, match="unit='client', expected 'sentence'"):
        budgets.set_total(runs, "synthetic", 6.0, unit="client")


def test_splits_of_a_corpus_and_other_names_share_its_budget(runs, data_dir):
    runs = Runs(replace(runs.settings, data_dir=data_dir))
    budgets.set_total(runs, "ade", 3.0)
    config = replace(CONFIG, training=TrainingConfig(batch_size=1024, epochs=5, learning_rate=0.1))
    runs.submit(replace(config, corpus="ade@0"))
    runs.submit(replace(config, corpus="ade@1"))
    assert len(budgets.account(runs, "ade@2").bookings) == 2
    text = b"".join(f"Anna B-PER\nsees O\nw{number} O\n\n".encode() for number in range(60))
    first, _ = runs.add_corpus("one.conll", text)
    budgets.set_total(runs, first, 3.0)
    renamed = runs.rename_corpus(first, "other")
    assert budgets.account(runs, renamed).budget.epsilon == 3.0
    again, _ = runs.add_corpus("again.conll", text)
    assert budgets.account(runs, again).budget.epsilon == 3.0
    runs.close()


def test_of_a_budget_of_clients_sentences_are_refused(runs):
    budgets.set_total(runs, "synthetic", 8.0, unit="client")
    with pytest.raises(BudgetExceeded, match="promises nothing to a client"):
        runs.submit(CONFIG)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"epsilon": 0.0}, "epsilon=0.0, expected a number in"),
        ({"epsilon": 0.003}, "epsilon=0.003: at delta=1e-05 nothing can be admitted"),
        ({"epsilon": 1.0, "delta": 1.0}, "delta=1.0"),
        ({"epsilon": 1.0, "unit": "person"}, "unit='person', expected one of sentence, client"),
    ],
)
def test_totals_that_cannot_be_are_named(runs, values, words):
    with pytest.raises(InvalidConfig, match=words):
        budgets.set_total(runs, "synthetic", **values)
    assert budgets.account(runs, "synthetic").budget is None


def test_what_could_still_be_run_shrinks(runs):
    now = budgets.set_total(runs, "synthetic", 3.0)
    before = {each.title: each.times for each in budgets.possible(runs, now)}
    assert before["good practice, ε = 1"] >= 2
    assert before["good practice, ε = 8"] == 0
    runs.submit(CONFIG)
    after = {each.title: each.times for each in budgets.possible(runs, budgets.account(runs, "synthetic"))}
    assert after["good practice, ε = 1"] < before["good practice, ε = 1"]


def test_whose_rounds_are_drawn_anew_is_booked_for_all_of_them(runs):
    """With noise from the operating system the draw of the plan is not that of the run."""
    budgets.set_total(runs, "synthetic", 100.0)
    config = SimulationConfig.from_flat(
        {"tagger": "linear-crf", "features": "vectors", "clients": 5, "rounds": 4, "participants": 1, "epochs": 1.0}
    )
    shares = {}
    for source in ("seeded", "system"):
        privacy = PrivacyConfig(noise_multiplier=4.0, noise_source=source)
        runs.submit(replace(config, privacy=privacy))
        now = budgets.account(runs, "synthetic")
        shares[source] = now.share - sum(shares.values())
    plan = runs.plan(replace(config, privacy=privacy, federation=replace(config.federation, participants=None)))
    cost = accounting.divergence(plan, "sentence", now.budget.order)
    assert shares["system"] == pytest.approx(cost / now.budget.filter.allowance)
    assert shares["seeded"] < shares["system"]


def test_what_a_run_would_take_is_told_before_it_is_asked_for(runs):
    assert budgets.outlook(runs, CONFIG) == ""
    budgets.set_total(runs, "synthetic", 2.0)
    assert budgets.outlook(runs, CONFIG).endswith("of the budget of synthetic; 0% is booked.")
    loud = replace(CONFIG, privacy=PrivacyConfig(noise_multiplier=0.5))
    assert "more than ten times all of it" in budgets.outlook(runs, loud)
    plain = replace(CONFIG, privacy=PrivacyConfig(noise_multiplier=0.0))
    assert "listed as a look" in budgets.outlook(runs, plain)
