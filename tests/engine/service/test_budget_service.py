"""Privacy budgets in the service: runs are charged by the content of their corpora, regardless of corpus names."""

import re
from dataclasses import replace

import pytest

from engine.cluster import supervisor
from engine.config import MINILM, PrivacyConfig, SimulationConfig, TrainingConfig
from engine.config.mechanism_registry import ADD_OR_REMOVE, ZERO_OUT
from engine.embeddings.contamination import Overlap
from engine.errors import BudgetExceeded, InvalidConfig
from engine.federated import accounting
from engine.records import Run, RunState, RunStatus
from engine.reports.budgets import account_fields, account_text, headline
from engine.reports.labels import corpus_title
from engine.service import Application, budget_service, budget_totals
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
    with pytest.raises(BudgetExceeded, match=rf"{re.escape(corpus_title('synthetic'))} is ε = 2\b.*Rényi"):
        app.runs.submit(replace(CONFIG, privacy=PrivacyConfig(noise_multiplier=0.5)))
    app.runs.delete(booking.run)
    assert app.budgets.state("synthetic").share == 0, "it had not started"


PLAIN = replace(CONFIG, privacy=PrivacyConfig(noise_multiplier=0.0))


def test_run_without_noise_is_refused_unless_accepted(app):
    app.budgets.set_total("synthetic", 2.0)
    for submit in (app.runs.submit, lambda config: app.runs.submit_all([CONFIG, config])):
        with pytest.raises(BudgetExceeded, match=r"no privacy guarantee for a sentence.*--unprotected"):
            submit(PLAIN)
    assert app.queries.find(PLAIN) is None
    assert app.budgets.state("synthetic").holds
    app.runs.submit(PLAIN, unprotected=True)
    now = app.budgets.state("synthetic")
    assert all(part in now.looks[0].what for part in ("linear-crf, σ = 0,", "dp-sgd", "without a privacy guarantee"))
    assert not now.holds
    assert headline(now).startswith("The total no longer holds: 1 unprotected access.")
    assert "ε = 2 at δ = 1e-5 for each sentence" in headline(now)
    assert not account_fields(now, [])["holds"]
    assert "no longer holds" in account_text(now, []).splitlines()[0]


def test_budget_states_the_weakest_adjacency_of_its_runs(app):
    assert app.budgets.set_total("synthetic", 20.0).adjacency == "that of the charged runs"
    assert account_fields(app.budgets.state("synthetic"), [])["neighbouring"] is None
    stated = []
    for changed in ({}, {"clients": 2, "partition": "random"}):
        app.runs.submit(SimulationConfig.from_flat(CONFIG.flat() | {"batch_size": 64} | changed))
        now = app.budgets.state("synthetic")
        assert f"(adjacency: {now.adjacency})" in headline(now)
        assert f"(adjacency: {now.adjacency})" in account_text(now, []).splitlines()[0]
        stated.append(account_fields(now, [])["neighbouring"])
    assert stated == [ADD_OR_REMOVE, ZERO_OUT]
    assert [each["neighbouring"] for each in account_fields(now, [])["bookings"]] == stated
    with pytest.raises(BudgetExceeded, match=rf"adjacency: {ZERO_OUT}"):
        app.runs.submit(replace(CONFIG, privacy=PrivacyConfig(noise_multiplier=0.3)))


def test_runs_before_the_budget_have_their_adjacency(app):
    app.runs.submit(SimulationConfig.from_flat(CONFIG.flat() | {"batch_size": 64, "clients": 2, "partition": "random"}))
    assert app.budgets.set_total("synthetic", 20.0).adjacency == ZERO_OUT


def accepted(app) -> str:
    """Return the identity of a queued run without noise that a user accepted."""
    return app.runs.submit(PLAIN, unprotected=True).run_id


@pytest.mark.parametrize("end", ["cancel", "delete"])
def test_accepted_run_that_never_began_leaves_the_total(app, end):
    app.budgets.set_total("synthetic", 2.0)
    identity = accepted(app)
    assert not app.budgets.state("synthetic").holds
    getattr(app.runs, end)(identity)
    now = app.budgets.state("synthetic")
    assert now.holds
    assert now.looks == ()
    assert app.budgets.state("synthetic").chain_hash == now.chain_hash, "it is withdrawn once"


@pytest.mark.parametrize("records", [0, 1])
def test_accepted_run_that_began_ends_the_total(app, records):
    app.budgets.set_total("synthetic", 2.0)
    identity = accepted(app)
    store = app._context.store
    claim = store.claim(identity, "here")
    for number in range(records):
        store.append(claim, record(number))
    app.runs.cancel(identity)
    assert not app.budgets.state("synthetic").holds
    assert accepted(app) == identity  # queued again, without a start
    app.runs.cancel(identity)
    now = app.budgets.state("synthetic")
    assert not now.holds
    assert all(access.run == identity for access in now.looks)


def test_foreground_access_outlives_a_cancelled_queued_run(app):
    app.budgets.set_total("synthetic", 2.0)
    identity = accepted(app)
    requests = app.budgets.unprotected_accesses(identity, PLAIN, "in the foreground", unprotected=True)
    app.budgets.charge(requests)
    app.runs.cancel(identity)
    (access,) = app.budgets.state("synthetic").looks
    assert access.what == "in the foreground"


def test_resubmitted_run_is_charged_for_its_earlier_records(app):
    """A run that is queued again has no start, but what it released before the budget was set counts."""
    identity = app.runs.submit(CONFIG).run_id
    store = app._context.store
    store.append(store.claim(identity, "here"), replace(record(0), step=5, steps_total=50))
    app.runs.cancel(identity)
    app.runs.submit(CONFIG)
    app.runs.cancel(identity)
    assert app.budgets.set_total("synthetic", 3.0).share > 0


def test_features_fitted_on_the_sentences_are_refused(app, monkeypatch):
    """They make ε infinite, with any noise."""
    app.budgets.set_total("synthetic", 2.0)
    monkeypatch.setattr(app.queries, "overlap", lambda config: Overlap(shared=(1, 0, 0)))
    with pytest.raises(BudgetExceeded, match="no privacy guarantee"):
        app.runs.submit(CONFIG)


def test_refused_rerun_keeps_the_earlier_one(app):
    def finish(identity):
        store = app._context.store
        claim, plan = store.claim(identity, "here"), app.previews.plan(PLAIN)
        store.append(claim, replace(record(2), step=plan.steps, steps_total=plan.steps))
        store.finish(claim, provenance(app.queries.corpus(PLAIN).checksum))

    finish(app.runs.submit(PLAIN).run_id)
    again = app.runs.resubmit(PLAIN).run_id
    finish(again)
    app.budgets.set_total("synthetic", 2.0)
    with pytest.raises(BudgetExceeded):
        app.runs.resubmit(PLAIN)
    assert app.queries.status(again).state == RunState.DONE
    assert app.runs.resubmit(PLAIN, unprotected=True).state == RunState.QUEUED


LETTERS = "".join(f"Anna B-PER\nwrites O\nletter O\nnumber O\nw{number} O\n\n" for number in range(60))
ONE_MORE = LETTERS + "Eve B-PER\nreads O\nall O\nof O\nthem O\n\n"
SHORT = replace(CONFIG, training=TrainingConfig(batch_size=8, epochs=2.0))


def letters(app, title: str, text: str) -> str:
    return app.corpora.add(f"{title}.conll", text.encode(), types="PER")[0]


class TestSharedSentences:
    def test_one_more_sentence_is_told_and_draws_on_the_same_budget(self, app):
        first, other = letters(app, "one", LETTERS), letters(app, "two", ONE_MORE)
        app.budgets.set_total(first, 30.0)
        (account,) = app.budgets.accounts.sharing(other)
        assert (account.name, account.shared, account.shared_by) == (first, 60, other)
        assert "two shares 60 sentences with one" in app.budgets.preview(replace(SHORT, corpus=other)).text
        app.runs.submit(replace(SHORT, corpus=other))
        (charge,) = app.budgets.state(first).bookings
        assert charge.what.endswith(", on my-two")
        assert app.budgets.state(other).budget is None
        loud = replace(SHORT, corpus=other, privacy=PrivacyConfig(noise_multiplier=0.3))
        with pytest.raises(BudgetExceeded, match="two shares 60 sentences with one"):
            app.runs.submit(loud)
        for each in (other, f"{other}@3", f"synthetic + {other}"):
            plain = replace(SHORT, corpus=each, privacy=PrivacyConfig(noise_multiplier=0.0))
            with pytest.raises(BudgetExceeded, match="--unprotected"):
                app.runs.submit(plain)
        assert app.budgets.state(first).holds
        app.runs.submit(loud, unprotected=True)
        assert not app.budgets.state(first).holds

    def test_run_is_charged_to_its_own_budget_and_to_the_shared_one(self, app):
        first, other = letters(app, "one", LETTERS), letters(app, "two", ONE_MORE)
        for name in (first, other):
            app.budgets.set_total(name, 30.0)
        app.runs.submit(replace(SHORT, corpus=other))
        shares = [app.budgets.state(name).share for name in (first, other)]
        assert shares[0] == pytest.approx(shares[1], rel=0.05)
        assert shares[0] > 0

    @pytest.mark.repeats(area="processes")
    def test_new_budget_counts_earlier_runs_on_shared_sentences(self, app):
        first, other = letters(app, "one", LETTERS), letters(app, "two", ONE_MORE)
        app.runs.submit(replace(SHORT, corpus=other))
        (charge,) = app.budgets.set_total(first, 30.0).bookings
        assert "on my-two, before there was a budget" in charge.what

    @pytest.mark.repeats(area="processes")
    def test_other_declaration_of_the_same_sentences_draws_on_the_same_budget(self, app):
        first = letters(app, "one", LETTERS)
        app.budgets.set_total(first, 30.0)
        again, _ = app.corpora.add("one.conll", LETTERS.encode(), types="LOC PER")
        assert [account.shared for account in app.budgets.accounts.sharing(again)] == [60]

    def test_short_sentences_count_if_they_are_many(self, app):
        short = LETTERS.replace("letter O\nnumber O\n", "")
        first, other = letters(app, "one", short), letters(app, "two", short + "Eve B-PER\nreads O\n\n")
        app.budgets.set_total(first, 30.0)
        assert [account.shared for account in app.budgets.accounts.sharing(other)] == [60]

    def test_unrelated_corpus_shares_nothing(self, app):
        app.budgets.set_total("synthetic", 2.0)
        assert app.budgets.accounts.sharing(letters(app, "one", LETTERS)) == []


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
    assert all(part in look.what for part in ("2 published runs", "not charged"))
    assert [each.what for each in app.budgets.state("synthetic").looks] == [look.what]


@pytest.mark.repeats(area="processes")
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


@pytest.mark.repeats(area="processes")
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
    assert "earlier charges" in app.budgets.preview(other).text
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


def test_affordable_runs_can_be_trained_here(app, monkeypatch):
    monkeypatch.setattr(budget_totals, "has_mpnet", lambda: True)
    now = app.budgets.set_total("synthetic", 3.0)
    (config,) = (
        each.config for each in app.budgets.affordable_runs(now) if each.title == "recommended settings, ε = 1"
    )
    assert config.tagger.pretrained
    monkeypatch.setattr(budget_totals, "has_mpnet", lambda: False)
    found = {each.title: each.config for each in app.budgets.affordable_runs(now)}
    assert found["recommended settings with MiniLM, ε = 1"].language_model == MINILM


@pytest.mark.repeats(area="processes")
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
    assert app.budgets.preview(CONFIG).text == ""
    app.budgets.set_total("synthetic", 2.0)
    effect = app.budgets.preview(CONFIG)
    assert all(part in effect.text for part in ("budget of Letters and notes", " 0% is spent so far."))
    assert effect.unprotected == ()
    loud = app.budgets.preview(replace(CONFIG, privacy=PrivacyConfig(noise_multiplier=0.5)))
    assert "more than ten times" in loud.text
    assert loud.unprotected == ()
    plain = app.budgets.preview(PLAIN)
    assert "accept an unprotected access" in plain.text
    assert plain.unprotected == ("synthetic",)
    app.runs.submit(PLAIN, unprotected=True)
    assert "no longer holds" in app.budgets.preview(CONFIG).text


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


def test_failed_run_is_charged_in_full(app):
    """That the weights diverged at a step is a result of this step, which no record contains."""
    app.budgets.set_total("synthetic", 8.0)
    identity, plan = app.runs.submit(CONFIG).run_id, app.previews.plan(CONFIG)
    store = app._context.store
    claim = store.claim(identity, "here")
    store.append(claim, replace(record(0), step=5, steps_total=plan.steps))
    store.give_up(claim, "The weights are no longer finite after step 9 of 50.")
    now = app.budgets.state("synthetic")
    assert now.booked == pytest.approx(accounting.divergence(plan, "sentence", now.budget.order))
