"""Privacy budgets in the service: runs are charged by the content of their corpora, regardless of corpus names."""

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
def app(settings, monkeypatch):
    """Return an application whose runs stay queued."""
    monkeypatch.setattr(supervisor, "ensure_cluster", lambda *_: None)
    made = Application(settings)
    yield made
    made.close()


def test_run_is_charged_on_submit_and_excess_is_refused(app):
    now = app.budgets.set_total("synthetic", 2.0)
    assert (now.share, now.budget.unit, now.budget.delta) == (0, "sentence", 1e-5)
    app.runs.submit(CONFIG)
    now = app.budgets.state("synthetic")
    cost = accounting.divergence(app.previews.plan(CONFIG), "sentence", now.budget.order)
    assert now.share == pytest.approx(cost / now.budget.filter.capacity)
    (booking,) = now.bookings
    assert booking.pending
    assert "linear-crf, σ = 6" in booking.what
    with pytest.raises(BudgetExceeded, match=r"synthetic is ε = 2\b"):
        app.runs.submit(replace(CONFIG, privacy=PrivacyConfig(noise_multiplier=0.5)))
    app.runs.delete(booking.run)
    assert app.budgets.state("synthetic").share == 0, "it had not started"


def test_runs_without_noise_are_unprotected_accesses(app):
    app.budgets.set_total("synthetic", 2.0)
    app.runs.submit(replace(CONFIG, privacy=PrivacyConfig(noise_multiplier=0.0)))
    now = app.budgets.state("synthetic")
    assert now.share == 0
    assert all(part in now.looks[0].what for part in ("linear-crf, σ = 0,", "dp-sgd", "without a privacy guarantee"))


def test_new_budget_counts_earlier_runs(app):
    app.runs.submit(CONFIG)
    app.runs.submit(replace(CONFIG, privacy=PrivacyConfig(noise_multiplier=0.0)))
    now = app.budgets.set_total("synthetic", 3.0)
    assert now.share > 0
    assert "before there was" in now.bookings[0].what
    assert len(now.looks) == 1
    before = now.share
    assert app.budgets.set_total("synthetic", 6.0).share < before
    assert [each.epsilon for each in app.budgets.state("synthetic").totals] == [3.0, 6.0]
    with pytest.raises(InvalidConfig, match=r"epsilon=0\.5"):
        app.budgets.set_total("synthetic", 0.5)
    assert app.budgets.state("synthetic").budget.epsilon == 6.0
    with pytest.raises(InvalidConfig, match="unit='client', expected 'sentence'"):
        app.budgets.set_total("synthetic", 6.0, unit="client")


def test_earlier_run_with_failed_check_is_unprotected_access(app):
    identity = app.runs.submit(CONFIG).run_id
    claim = app._context.store.claim(identity, "here")
    app._context.store.append(claim, replace(record(0, faults=("It cheats.",)), step=5, steps_total=50))
    app.runs.cancel(identity)
    now = app.budgets.set_total("synthetic", 3.0)
    assert now.share > 0
    (look,) = now.looks
    assert look.run == identity
    assert all(part in look.what for part in ("before there was", "failed its noise check", "no privacy guarantee"))


def test_earlier_audit_is_unprotected_access_and_run_stays_charged(app):
    identity = app.runs.submit(CONFIG).run_id
    store = app._context.store
    claim = store.claim(identity, "here")
    plan = app.previews.plan(CONFIG)
    store.append(claim, replace(record(2), step=plan.steps, steps_total=plan.steps))
    store.finish(claim, provenance(app.queries.corpus(CONFIG).checksum))
    app.runs.submit_audit("a" + identity[1:], app.queries.get(identity), None)
    now = app.budgets.set_total("synthetic", 3.0)
    (look,) = now.looks
    assert all(part in look.what for part in (budget_service.AUDIT, "before there was"))
    app.runs.cancel("a" + identity[1:])
    assert app.budgets.state("synthetic").share == now.share > 0


def test_published_runs_are_one_unprotected_access(app, monkeypatch):
    shown = Run(run_id="p", config=CONFIG, status=RunStatus(run_id="p", state=RunState.DONE), published=True)
    elsewhere = replace(shown, config=replace(CONFIG, corpus="ade"))
    monkeypatch.setattr(app.queries, "published", lambda: [shown, shown, elsewhere])
    now = app.budgets.set_total("synthetic", 3.0)
    assert now.share == 0
    (look,) = now.looks
    assert all(part in look.what for part in ("published runs", " 2 ", "none is charged"))
    assert [each.what for each in app.budgets.state("synthetic").looks] == [look.what]


def test_splits_and_renamed_corpora_share_one_budget(app, data_dir):
    app = Application(replace(app.settings, data_dir=data_dir))
    app.budgets.set_total("ade", 3.0)
    config = replace(CONFIG, training=TrainingConfig(batch_size=1024, epochs=5, learning_rate=0.1))
    app.runs.submit(replace(config, corpus="ade@0"))
    app.runs.submit(replace(config, corpus="ade@1"))
    assert len(app.budgets.state("ade@2").bookings) == 2
    text = b"# entity types: PER\n" + b"".join(f"Anna B-PER\nsees O\nw{number} O\n\n".encode() for number in range(60))
    first, _ = app.corpora.add("one.conll", text)
    app.budgets.set_total(first, 3.0)
    renamed = app.corpora.rename(first, "other")
    assert app.budgets.state(renamed).budget.epsilon == 3.0
    again, _ = app.corpora.add("again.conll", text)
    assert app.budgets.state(again).budget.epsilon == 3.0
    app.close()


def test_earlier_runs_count_by_corpus_content(app):
    text = b"# entity types: PER\n" + b"".join(f"Anna B-PER\nsees O\nw{number} O\n\n".encode() for number in range(60))
    first, _ = app.corpora.add("one.conll", text)
    other, _ = app.corpora.add("other.conll", text.replace(b"Anna", b"Ada"))
    for name in (first, other):
        app.runs.submit(replace(CONFIG, corpus=name, training=TrainingConfig(batch_size=8, epochs=2.0)))
    again, _ = app.corpora.add("again.conll", text)
    (booking,) = app.budgets.set_total(again, 30.0).bookings
    assert booking.run == app.queries.runs_of(first)[0].run_id


def test_client_budget_refuses_sentence_level_runs(app):
    app.budgets.set_total("synthetic", 8.0, unit="client")
    with pytest.raises(BudgetExceeded, match="no privacy guarantee for a client"):
        app.runs.submit(CONFIG)


WHOLE = {"clients": 5, "rounds": 2, "mechanism": "dp-fedavg", "noise_multiplier": 20.0, "epochs": 1.0}


@pytest.mark.parametrize("changes", [{"seed": 1}, {"clients": 6}, {"partition": "unequal"}, {"data_fraction": 0.9}])
def test_client_budget_refuses_other_partitions(app, changes):
    """Each other client has sentences of several of the first clients, so it is a group of clients to the earlier
    run."""
    first = SimulationConfig.from_flat({"tagger": "linear-crf", "features": "vectors", **WHOLE})
    other = SimulationConfig.from_flat(first.flat() | changes)
    app.budgets.set_total("synthetic", 60.0, unit="client")
    app.runs.submit(first)
    before = app.budgets.state("synthetic").booked
    assert "does not admit it" in app.budgets.preview(other)
    with pytest.raises(BudgetExceeded, match=r"earlier charges .*other clients"):
        app.runs.submit(other)
    app.runs.submit(SimulationConfig.from_flat(first.flat() | {"rounds": 3}))
    assert app.budgets.state("synthetic").booked == pytest.approx(2.5 * before)


def test_client_budget_is_refused_after_runs_with_different_clients(app):
    for seed in (0, 1):
        app.runs.submit(
            SimulationConfig.from_flat({"tagger": "linear-crf", "features": "vectors", "seed": seed, **WHOLE})
        )
    with pytest.raises(InvalidConfig, match="different clients"):
        app.budgets.set_total("synthetic", 60.0, unit="client")
    assert len(app.budgets.set_total("synthetic", 60.0).bookings) == 2


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"epsilon": 0.0}, "epsilon=0.0, expected a number in"),
        ({"epsilon": 0.003}, "epsilon=0.003: at delta=1e-05 no run fits"),
        ({"epsilon": 1.0, "delta": 1.0}, "delta=1.0"),
        ({"epsilon": 1.0, "unit": "person"}, "unit='person', expected one of sentence, client"),
    ],
)
def test_invalid_total_is_rejected(app, values, words):
    with pytest.raises(InvalidConfig, match=words):
        app.budgets.set_total("synthetic", **values)
    assert app.budgets.state("synthetic").budget is None


def test_affordable_runs_decrease_after_a_charge(app):
    now = app.budgets.set_total("synthetic", 3.0)
    before = {each.title: each.times for each in app.budgets.affordable_runs(now)}
    assert before["recommended settings, ε = 1"] >= 2
    assert before["recommended settings, ε = 8"] == 0
    app.runs.submit(CONFIG)
    after = {each.title: each.times for each in app.budgets.affordable_runs(app.budgets.state("synthetic"))}
    assert after["recommended settings, ε = 1"] < before["recommended settings, ε = 1"]


def test_system_noise_is_charged_for_all_rounds(app):
    """With noise from the operating system, the run draws other rounds than the plan."""
    app.budgets.set_total("synthetic", 100.0)
    config = SimulationConfig.from_flat(
        {"tagger": "linear-crf", "features": "vectors", "clients": 5, "rounds": 4, "participants": 1, "epochs": 1.0}
    )
    shares = {}
    for source in ("seeded", "system"):
        privacy = PrivacyConfig(noise_multiplier=4.0, noise_source=source)
        app.runs.submit(replace(config, privacy=privacy))
        now = app.budgets.state("synthetic")
        shares[source] = now.share - sum(shares.values())
    plan = app.previews.plan(replace(config, privacy=privacy, federation=replace(config.federation, participants=None)))
    cost = accounting.divergence(plan, "sentence", now.budget.order)
    assert shares["system"] == pytest.approx(cost / now.budget.filter.capacity)
    assert shares["seeded"] < shares["system"]


def test_preview_states_the_charge(app):
    assert app.budgets.preview(CONFIG) == ""
    app.budgets.set_total("synthetic", 2.0)
    assert all(part in app.budgets.preview(CONFIG) for part in ("budget of synthetic", " 0% is spent."))
    loud = replace(CONFIG, privacy=PrivacyConfig(noise_multiplier=0.5))
    assert "more than ten times" in app.budgets.preview(loud)
    plain = replace(CONFIG, privacy=PrivacyConfig(noise_multiplier=0.0))
    assert "listed as an unprotected access" in app.budgets.preview(plain)


@pytest.mark.parametrize(
    ("values", "whole"),
    [
        ({"epochs": 1.0}, False),
        ({"epochs": 1.0, "rounds": 10}, False),
        ({"epochs": 1.0, "rounds": 10, "schedule": "incremental", "batch_size": 32}, True),
        ({"epochs": 1.0, "sampling": "shuffle", "batch_size": 440}, True),
    ],
)
def test_stopped_run_is_charged_at_worst_case(app, values, whole):
    """A sentence in the first piece, or in the first fixed batch of an epoch, has its full cost after a tenth of the
    steps."""
    app.budgets.set_total("synthetic", 8.0)
    config = SimulationConfig.from_flat(CONFIG.flat() | {"noise_multiplier": 40.0} | values)
    identity, plan = app.runs.submit(config).run_id, app.previews.plan(config)
    store = app._context.store
    claim = store.claim(identity, "here")
    taken = round(plan.steps / 10)
    store.append(claim, replace(record(0), step=taken, steps_total=plan.steps))
    app.runs.cancel(identity)
    now = app.budgets.state("synthetic")
    cost = accounting.divergence(plan, "sentence", now.budget.order)
    assert now.booked == pytest.approx(cost if whole else cost * taken / plan.steps)
    spent = [accounting.privacy_spent(plan, steps, 0).epsilon for steps in (taken, plan.steps)]
    assert (spent[0] == pytest.approx(spent[1])) == whole, "what ε says of it"
