"""Budgets at the door: runs are booked on what their corpora hold, whatever these are called."""

from dataclasses import replace

import pytest

from engine.cluster import supervisor
from engine.config import PrivacyConfig, SimulationConfig, TrainingConfig
from engine.errors import BudgetExceeded, InvalidConfig
from engine.federated import accounting
from engine.records import Run, RunState, RunStatus
from engine.service import Application, budget_service
from tests.engine.factories import provenance, record

CONFIG = SimulationConfig.from_flat(
    {"tagger": "linear-crf", "noise_multiplier": 6.0, "batch_size": 1024, "epochs": 10.0, "features": "vectors"}
)


@pytest.fixture
def runs(settings, monkeypatch):
    """Runs that wait: nobody computes them."""
    monkeypatch.setattr(supervisor, "ensure_cluster", lambda *_: None)
    made = Application(settings)
    yield made
    made.close()


def test_a_run_is_booked_before_its_first_step_and_another_is_refused(runs):
    now = budget_service.set_total(runs, "synthetic", 2.0)
    assert (now.share, now.budget.unit, now.budget.delta) == (0, "sentence", 1e-5)
    runs.submit(CONFIG)
    now = budget_service.account(runs, "synthetic")
    cost = accounting.divergence(runs.plan(CONFIG), "sentence", now.budget.order)
    assert now.share == pytest.approx(cost / now.budget.filter.capacity)
    (booking,) = now.bookings
    assert booking.pending
    assert "linear-crf, σ = 6" in booking.what
    with pytest.raises(BudgetExceeded, match=r"synthetic is ε = 2\b"):
        runs.submit(replace(CONFIG, privacy=PrivacyConfig(noise_multiplier=0.5)))
    runs.delete(booking.run)
    assert budget_service.account(runs, "synthetic").share == 0, "nobody had begun"


def test_runs_without_noise_are_listed(runs):
    budget_service.set_total(runs, "synthetic", 2.0)
    runs.submit(replace(CONFIG, privacy=PrivacyConfig(noise_multiplier=0.0)))
    now = budget_service.account(runs, "synthetic")
    assert now.share == 0
    assert all(part in now.looks[0].what for part in ("linear-crf, σ = 0,", "dp-sgd", "without any promise"))


def test_what_ran_before_counts_when_a_budget_is_set(runs):
    runs.submit(CONFIG)
    runs.submit(replace(CONFIG, privacy=PrivacyConfig(noise_multiplier=0.0)))
    now = budget_service.set_total(runs, "synthetic", 3.0)
    assert now.share > 0
    assert "before there was" in now.bookings[0].what
    assert len(now.looks) == 1
    before = now.share
    assert budget_service.set_total(runs, "synthetic", 6.0).share < before
    assert [each.epsilon for each in budget_service.account(runs, "synthetic").totals] == [3.0, 6.0]
    with pytest.raises(InvalidConfig, match=r"epsilon=0\.5"):
        budget_service.set_total(runs, "synthetic", 0.5)
    assert budget_service.account(runs, "synthetic").budget.epsilon == 6.0
    with pytest.raises(InvalidConfig, match="unit='client', expected 'sentence'"):
        budget_service.set_total(runs, "synthetic", 6.0, unit="client")


def test_a_run_that_failed_its_check_before_there_was_a_budget_is_a_look_too(runs):
    identity = runs.submit(CONFIG).run_id
    claim = runs._store.claim(identity, "here")
    runs._store.append(claim, replace(record(0, faults=("It cheats.",)), step=5, steps_total=50))
    runs.cancel(identity)
    now = budget_service.set_total(runs, "synthetic", 3.0)
    assert now.share > 0
    (look,) = now.looks
    assert look.run == identity
    assert all(part in look.what for part in ("before there was", "failed its noise check", "nothing is promised"))


def test_an_audit_from_before_a_budget_is_a_look_and_leaves_its_run_booked(runs):
    identity = runs.submit(CONFIG).run_id
    store = runs._store
    claim = store.claim(identity, "here")
    plan = runs.plan(CONFIG)
    store.append(claim, replace(record(2), step=plan.steps, steps_total=plan.steps))
    store.finish(claim, provenance(runs.corpus(CONFIG).checksum))
    runs.submit_audit("a" + identity[1:], runs.get(identity), None)
    now = budget_service.set_total(runs, "synthetic", 3.0)
    (look,) = now.looks
    assert all(part in look.what for part in (budget_service.AUDIT, "before there was"))
    runs.cancel("a" + identity[1:])
    assert budget_service.account(runs, "synthetic").share == now.share > 0


def test_published_runs_are_listed_once(runs, monkeypatch):
    shown = Run(run_id="p", config=CONFIG, status=RunStatus(run_id="p", state=RunState.DONE), published=True)
    elsewhere = replace(shown, config=replace(CONFIG, corpus="ade"))
    monkeypatch.setattr(runs, "published", lambda: [shown, shown, elsewhere])
    now = budget_service.set_total(runs, "synthetic", 3.0)
    assert now.share == 0
    (look,) = now.looks
    assert all(part in look.what for part in ("published runs", " 2 ", "none is booked"))
    assert [each.what for each in budget_service.account(runs, "synthetic").looks] == [look.what]


def test_splits_of_a_corpus_and_other_names_share_its_budget(runs, data_dir):
    runs = Application(replace(runs.settings, data_dir=data_dir))
    budget_service.set_total(runs, "ade", 3.0)
    config = replace(CONFIG, training=TrainingConfig(batch_size=1024, epochs=5, learning_rate=0.1))
    runs.submit(replace(config, corpus="ade@0"))
    runs.submit(replace(config, corpus="ade@1"))
    assert len(budget_service.account(runs, "ade@2").bookings) == 2
    text = b"".join(f"Anna B-PER\nsees O\nw{number} O\n\n".encode() for number in range(60))
    first, _ = runs.add_corpus("one.conll", text)
    budget_service.set_total(runs, first, 3.0)
    renamed = runs.rename_corpus(first, "other")
    assert budget_service.account(runs, renamed).budget.epsilon == 3.0
    again, _ = runs.add_corpus("again.conll", text)
    assert budget_service.account(runs, again).budget.epsilon == 3.0
    runs.close()


def test_what_ran_before_counts_whatever_the_corpus_was_called(runs):
    text = b"".join(f"Anna B-PER\nsees O\nw{number} O\n\n".encode() for number in range(60))
    first, _ = runs.add_corpus("one.conll", text)
    other, _ = runs.add_corpus("other.conll", text.replace(b"Anna", b"Ada"))
    for name in (first, other):
        runs.submit(replace(CONFIG, corpus=name, training=TrainingConfig(batch_size=8, epochs=2.0)))
    again, _ = runs.add_corpus("again.conll", text)
    (booking,) = budget_service.set_total(runs, again, 30.0).bookings
    assert booking.run == runs.runs_of(first)[0].run_id


def test_of_a_budget_of_clients_sentences_are_refused(runs):
    budget_service.set_total(runs, "synthetic", 8.0, unit="client")
    with pytest.raises(BudgetExceeded, match="nothing to a client"):
        runs.submit(CONFIG)


WHOLE = {"clients": 5, "rounds": 2, "mechanism": "dp-fedavg", "noise_multiplier": 20.0, "epochs": 1.0}


@pytest.mark.parametrize("changes", [{"seed": 1}, {"clients": 6}, {"partition": "unequal"}, {"data_fraction": 0.9}])
def test_of_a_budget_of_clients_other_clients_are_refused(runs, changes):
    """Each of theirs has sentences of several of the first ones: it is a group of clients to the run before."""
    first = SimulationConfig.from_flat({"tagger": "linear-crf", "features": "vectors", **WHOLE})
    other = SimulationConfig.from_flat(first.flat() | changes)
    budget_service.set_total(runs, "synthetic", 60.0, unit="client")
    runs.submit(first)
    before = budget_service.account(runs, "synthetic").booked
    assert "does not admit it" in budget_service.budget_preview(runs, other)
    with pytest.raises(BudgetExceeded, match=r"booked .*other clients"):
        runs.submit(other)
    runs.submit(SimulationConfig.from_flat(first.flat() | {"rounds": 3}))
    assert budget_service.account(runs, "synthetic").booked == pytest.approx(2.5 * before)


def test_what_different_clients_lost_before_has_no_sum(runs):
    for seed in (0, 1):
        runs.submit(SimulationConfig.from_flat({"tagger": "linear-crf", "features": "vectors", "seed": seed, **WHOLE}))
    with pytest.raises(InvalidConfig, match="different clients"):
        budget_service.set_total(runs, "synthetic", 60.0, unit="client")
    assert len(budget_service.set_total(runs, "synthetic", 60.0).bookings) == 2


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
        budget_service.set_total(runs, "synthetic", **values)
    assert budget_service.account(runs, "synthetic").budget is None


def test_what_could_still_be_run_shrinks(runs):
    now = budget_service.set_total(runs, "synthetic", 3.0)
    before = {each.title: each.times for each in budget_service.affordable_runs(runs, now)}
    assert before["good practice, ε = 1"] >= 2
    assert before["good practice, ε = 8"] == 0
    runs.submit(CONFIG)
    after = {
        each.title: each.times
        for each in budget_service.affordable_runs(runs, budget_service.account(runs, "synthetic"))
    }
    assert after["good practice, ε = 1"] < before["good practice, ε = 1"]


def test_whose_rounds_are_drawn_anew_is_booked_for_all_of_them(runs):
    """With noise from the operating system the draw of the plan is not that of the run."""
    budget_service.set_total(runs, "synthetic", 100.0)
    config = SimulationConfig.from_flat(
        {"tagger": "linear-crf", "features": "vectors", "clients": 5, "rounds": 4, "participants": 1, "epochs": 1.0}
    )
    shares = {}
    for source in ("seeded", "system"):
        privacy = PrivacyConfig(noise_multiplier=4.0, noise_source=source)
        runs.submit(replace(config, privacy=privacy))
        now = budget_service.account(runs, "synthetic")
        shares[source] = now.share - sum(shares.values())
    plan = runs.plan(replace(config, privacy=privacy, federation=replace(config.federation, participants=None)))
    cost = accounting.divergence(plan, "sentence", now.budget.order)
    assert shares["system"] == pytest.approx(cost / now.budget.filter.capacity)
    assert shares["seeded"] < shares["system"]


def test_what_a_run_would_take_is_told_before_it_is_asked_for(runs):
    assert budget_service.budget_preview(runs, CONFIG) == ""
    budget_service.set_total(runs, "synthetic", 2.0)
    assert all(
        part in budget_service.budget_preview(runs, CONFIG) for part in ("budget of synthetic", " 0% is booked.")
    )
    loud = replace(CONFIG, privacy=PrivacyConfig(noise_multiplier=0.5))
    assert "more than ten times" in budget_service.budget_preview(runs, loud)
    plain = replace(CONFIG, privacy=PrivacyConfig(noise_multiplier=0.0))
    assert "listed as a look" in budget_service.budget_preview(runs, plain)


@pytest.mark.parametrize(
    ("values", "whole"),
    [
        ({"epochs": 1.0}, False),
        ({"epochs": 1.0, "rounds": 10}, False),
        ({"epochs": 1.0, "rounds": 10, "schedule": "incremental", "batch_size": 32}, True),
        ({"epochs": 1.0, "sampling": "shuffle", "batch_size": 440}, True),
    ],
)
def test_a_run_that_was_stopped_counts_what_it_cost_whom_it_cost_most(runs, values, whole):
    """Who is in the first piece, or in the first of an epoch's fixed batches, has paid all after a tenth of the
    steps."""
    budget_service.set_total(runs, "synthetic", 8.0)
    config = SimulationConfig.from_flat(CONFIG.flat() | {"noise_multiplier": 40.0} | values)
    identity, plan = runs.submit(config).run_id, runs.plan(config)
    store = runs._store
    claim = store.claim(identity, "here")
    taken = round(plan.steps / 10)
    store.append(claim, replace(record(0), step=taken, steps_total=plan.steps))
    runs.cancel(identity)
    now = budget_service.account(runs, "synthetic")
    cost = accounting.divergence(plan, "sentence", now.budget.order)
    assert now.booked == pytest.approx(cost if whole else cost * taken / plan.steps)
    spent = [accounting.privacy_spent(plan, steps, 0).epsilon for steps in (taken, plan.steps)]
    assert (spent[0] == pytest.approx(spent[1])) == whole, "what ε says of it"
