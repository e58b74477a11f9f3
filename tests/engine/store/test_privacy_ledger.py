"""The privacy ledger: charges never exceed the total, none is lost, and changes from outside are detected."""

import multiprocessing
import os
import random
import signal
import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as checked
from hypothesis import strategies as st
from sqlalchemy import create_engine, text

from engine.config.mechanism_registry import ADD_OR_REMOVE, LOCAL, NOT_RECORDED, ZERO_OUT
from engine.errors import BudgetExceeded, RunNotFound, StoreError
from engine.privacy.budget import LOOK, SPENT, Budget, BudgetState, ChargeRequest
from engine.records import PlatformRecord
from engine.store import privacy_ledger
from engine.store.run_store import RunStore
from tests.engine.factories import SMALL, provenance, record

CORPUS = "c" * 64
TOTAL = Budget(epsilon=3.0, delta=1e-5, unit="sentence", order=8.0, set_at="2026-01-01T00:00:00+00:00")
ALLOWED = TOTAL.filter.capacity


def charge_request(run: str, share: float, **more) -> ChargeRequest:
    fields: dict[str, Any] = {"corpus": CORPUS, "name": "corpus", "stream": run, "run": run, "what": "a run"}
    fields |= {"again": False, "even": True, "steps": 100, "cost": lambda budget: share * budget.filter.capacity}
    return ChargeRequest(**{**fields, **more})


def submit(store: RunStore, run: str, share: float, **more) -> None:
    store.submit(run, SMALL, CORPUS, wishes=[charge_request(run, share, **more)])


def set_total(store: RunStore, total: Budget) -> None:
    with store.exclusive() as connection:
        privacy_ledger.set_total(connection, CORPUS, "corpus", total, ())


def account_of(store: RunStore, corpus: str = CORPUS) -> BudgetState:
    with store.exclusive() as connection:
        return privacy_ledger.account(connection, corpus)


def execute_sql(address: str, statement: str) -> None:
    engine = create_engine(address)
    with engine.begin() as connection:
        connection.execute(text(statement))
    engine.dispose()


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ([ADD_OR_REMOVE], ADD_OR_REMOVE),
        ([ADD_OR_REMOVE, ZERO_OUT], ZERO_OUT),
        ([ZERO_OUT, ""], NOT_RECORDED),
        ([ADD_OR_REMOVE, LOCAL.neighbours], f"none for all ({ADD_OR_REMOVE}; {LOCAL.neighbours})"),
    ],
)
def test_total_holds_for_the_adjacency_of_all_charges(store, stored, expected):
    """It stays that of the pending charge when a run ends."""
    for number, name in enumerate(stored):
        submit(store, f"run-{number}", 0.1, neighbouring=lambda budget, name=name: name)
        end_run(store, f"run-{number}", 100, "done")
    now = account_of(store)
    assert [charge.neighbouring for charge in now.bookings] == stored
    assert not any(charge.pending for charge in now.bookings)
    assert now.adjacency == expected


def test_entries_of_earlier_versions_have_no_recorded_adjacency(store):
    """Their hash chain stays valid."""
    with store.exclusive() as connection:
        entry = {"corpus": CORPUS, "name": "corpus", "run": "a", "what": "a run", "stream": "a", "cost": 0.1}
        privacy_ledger._append(connection, entry | {"kind": SPENT})
    assert account_of(store).adjacency == NOT_RECORDED


@pytest.fixture
def store(store_address):
    made = RunStore(store_address)
    set_total(made, TOTAL)
    yield made
    made.close()


def end_run(store: RunStore, run: str, step: int | None, how: str) -> None:
    claim = store.claim(run, "here")
    if step is not None:
        rounds = len(store.records(run))
        store.append(claim, replace(record(rounds), round=rounds, step=step, steps_total=100))
    if how == "done":
        store.finish(claim, provenance())
    elif how == "failed":
        store.give_up(claim, "It failed.")
    else:
        store.cancel(run)


def test_run_beyond_the_budget_is_refused_and_not_stored(store):
    submit(store, "a", 0.6)
    with pytest.raises(BudgetExceeded, match=r"\b60% .*\bused\b.* 110%"):
        submit(store, "b", 0.5)
    with pytest.raises(RunNotFound):
        store.status("b")
    submit(store, "b", 0.4)
    assert account_of(store).share == pytest.approx(1)


def test_run_without_guarantee_for_the_unit_is_refused(store):
    with pytest.raises(BudgetExceeded, match="no privacy guarantee for a sentence"):
        submit(store, "a", float("inf"))


@pytest.mark.parametrize(
    ("how", "step", "even", "share"),
    [
        ("done", 100, True, 0.4),
        ("cancelled", 50, True, 0.2),
        ("failed", 25, True, 0.4),
        ("cancelled", 50, False, 0.4),
        ("cancelled", None, True, 0.0),
    ],
)
def test_ended_run_is_charged_for_its_steps(store, how, step, even, share):
    submit(store, "a", 0.4, even=even)
    assert account_of(store).bookings[0].pending
    end_run(store, "a", step, how)
    account = account_of(store)
    assert account.share == pytest.approx(share)
    assert not account.bookings[0].pending


@pytest.mark.parametrize("how", ["done", "cancelled"])
@pytest.mark.parametrize("whose", ["run", "platform"])
def test_failed_noise_check_adds_unprotected_access(store, how, whose):
    submit(store, "a", 0.4)
    claim = store.claim("a", "here")
    bad = replace(record(0, faults=("It cheats.",)), step=100, steps_total=100)
    if whose == "platform":
        own = PlatformRecord(name="b", privacy=bad.privacy, scores=bad.scores, noise_check=bad.noise_check)
        bad = replace(bad, noise_check=record(0).noise_check, platforms=(own,))
    store.append(claim, bad)
    store.append(claim, replace(record(1), step=100, steps_total=100))
    store.finish(claim, provenance()) if how == "done" else store.cancel("a")
    account = account_of(store)
    assert account.share == pytest.approx(0.4)
    (look,) = account.looks
    assert look.run == "a"
    assert all(part in look.what for part in ("failed its noise check", "no privacy guarantee"))
    assert account_of(store).looks == account.looks, "once"
    store.delete("a")
    assert account_of(store).looks == account.looks


def test_passed_noise_check_adds_no_unprotected_access(store):
    submit(store, "a", 0.4)
    end_run(store, "a", 100, "done")
    assert not account_of(store).looks


def test_resumed_run_with_equal_noise_is_charged_once(store):
    submit(store, "a", 0.4)
    end_run(store, "a", 50, "cancelled")
    assert account_of(store).share == pytest.approx(0.2)
    submit(store, "a", 0.4)
    assert account_of(store).share == pytest.approx(0.4)
    submit(store, "a", 0.4)  # joins the queued one
    end_run(store, "a", 75, "cancelled")
    assert account_of(store).share == pytest.approx(0.3)


def test_new_noise_is_charged_again(store):
    submit(store, "a", 0.4, again=True)
    end_run(store, "a", 50, "cancelled")
    submit(store, "a", 0.4, again=True)
    assert account_of(store).share == pytest.approx(0.6)
    end_run(store, "a", 75, "cancelled")
    assert account_of(store).share == pytest.approx(0.5), "the ledger cannot know whether it resumed or restarted"
    with pytest.raises(BudgetExceeded, match=r"\b50% .*\bused\b.* 110%"):
        submit(store, "b", 0.6)
    submit(store, "a", 0.4, again=True)
    end_run(store, "a", 100, "done")
    with pytest.raises(BudgetExceeded, match=r"\b90% .*\bused\b.* 130%"):
        submit(store, "b", 0.4)


def test_rerun_with_equal_noise_is_charged_once(store):
    submit(store, "a", 0.4)
    end_run(store, "a", 100, "done")
    submit(store, "b", 0.4, stream="a")
    assert account_of(store).share == pytest.approx(0.4)


@pytest.mark.parametrize("step", [None, 50])
def test_deleted_run_stays_charged(store, step):
    submit(store, "a", 0.4)
    if step:
        store.append(store.claim("a", "here"), replace(record(0), step=step, steps_total=100))
    store.delete("a")
    account = account_of(store)
    assert account.share == pytest.approx(0.2 if step else 0.0)
    assert not account.bookings[0].pending


def test_run_removed_by_sql_stays_charged_in_full(store, store_address):
    submit(store, "a", 0.4)
    execute_sql(store_address, "DELETE FROM runs")
    assert account_of(store).share == pytest.approx(0.4)


def test_accepted_unprotected_access_is_listed_without_charge_and_ends_the_total(store):
    submit(store, "a", 0.5)
    assert account_of(store).holds
    submit(store, "b", float("inf"), unprotected=True)
    account = account_of(store)
    assert (account.share, [each.run for each in account.looks]) == (pytest.approx(0.5), ["b"])
    assert not account.holds


def test_finite_cost_beyond_the_budget_cannot_be_accepted_as_unprotected(store):
    with pytest.raises(BudgetExceeded):
        submit(store, "a", 1.5, unprotected=True)
    with pytest.raises(BudgetExceeded, match=r"notes shares 3 sentences with c: .*--unprotected"):
        submit(store, "a", 1.5, shared="notes shares 3 sentences with c: ")
    submit(store, "a", 1.5, shared="notes shares 3 sentences with c: ", unprotected=True)
    assert not account_of(store).holds


def test_published_runs_do_not_end_the_total(store_address):
    store = RunStore(store_address)
    with store.exclusive() as connection:
        entry = {"run": "", "what": "published runs, 3 of them: none is charged", "kind": LOOK}
        privacy_ledger.set_total(connection, CORPUS, "corpus", TOTAL, [entry])
    account = account_of(store)
    assert (account.holds, [each.published for each in account.looks]) == (True, [True])
    store.close()


def test_corpus_without_budget_has_no_charges(store):
    store.submit("a", SMALL, CORPUS, wishes=[charge_request("a", 9.0, corpus="d" * 64)])
    assert account_of(store, "d" * 64).bookings == ()


def test_total_below_spent_is_refused(store):
    submit(store, "a", 0.9)
    less = replace(TOTAL, epsilon=2.0)
    with pytest.raises(BudgetExceeded, match=r"epsilon=2: .* corpus .* \d+%"):
        set_total(store, less)
    assert account_of(store).totals == (TOTAL,)
    more = replace(TOTAL, epsilon=4.0)
    set_total(store, more)
    account = account_of(store)
    assert account.totals == (TOTAL, more)
    assert account.share == pytest.approx(0.9 * ALLOWED / more.filter.capacity)


@pytest.mark.parametrize(
    "change",
    [
        """UPDATE bookings SET entry = replace(entry, '"cost": ', '"cost": 0.0') WHERE number = 2""",
        "DELETE FROM bookings WHERE number = 2",
        "UPDATE bookings SET number = 9 WHERE number = 3",
        "UPDATE bookings SET entry = 'x' WHERE number = 2",
        "INSERT INTO bookings SELECT 4, entry, seal FROM bookings WHERE number = 3",
    ],
)
def test_change_from_outside_is_detected_and_blocks_charges(store, store_address, change):
    submit(store, "a", 0.1)
    submit(store, "b", 0.1)
    execute_sql(store_address, change)
    with pytest.raises(StoreError, match="from outside at entry"):
        account_of(store)
    with pytest.raises(StoreError, match="from outside at entry"):
        submit(store, "c", 0.1)
    with pytest.raises(RunNotFound):
        store.status("c")


def test_chain_hash_detects_truncation(store, store_address):
    submit(store, "a", 0.1)
    kept = account_of(store).chain_hash
    execute_sql(store_address, "DELETE FROM bookings WHERE number = 2")
    assert account_of(store).chain_hash != kept


def _submit_many(address: str, name: str, number: int) -> None:
    store = RunStore(address)
    for each in range(number):
        try:
            submit(store, f"{name}{each}", 0.1)
        except BudgetExceeded:
            pass
        except StoreError:
            pass  # locked for longer than the timeout
    store.close()


@pytest.mark.repeats(area="processes")
def test_concurrent_charges_never_exceed_the_total(store, store_address):
    store.close()
    processes = [
        multiprocessing.get_context("spawn").Process(target=_submit_many, args=(store_address, name, 15))
        for name in "abcd"
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    account = account_of(store)
    assert len(account.bookings) == 10
    assert account.share == pytest.approx(1)


def _submit_forever(address: str) -> None:
    store = RunStore(address)
    number = 0
    while True:
        run = f"{os.getpid()}-{number}"
        submit(store, run, 0.0001)
        if number % 3 == 0:
            end_run(store, run, 50, "cancelled")
        elif number % 3 == 1:
            store.delete(run)
        number += 1


@pytest.mark.parametrize("moment", [0, 1, *(pytest.param(each, marks=pytest.mark.nightly) for each in range(2, 25))])
def test_kill_at_any_moment_keeps_ledger_consistent(store, store_address, moment):
    store.close()
    process = multiprocessing.get_context("spawn").Process(target=_submit_forever, args=(store_address,))
    process.start()
    while not account_of(store).bookings:
        assert process.is_alive()
        time.sleep(0.05)
    time.sleep(random.Random(moment).random() / 2)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    account = account_of(store)
    runs = {each.run_id for each in store.newest(100_000)[0]}
    booked = {each.run: each for each in account.bookings}
    assert runs <= booked.keys(), "each run that is stored was booked"
    assert len(booked) == len(account.bookings)
    gone = booked.keys() - runs
    assert all(int(run.split("-")[1]) % 3 == 1 for run in gone), "and only what was deleted is not there"
    whole = 0.0001 * ALLOWED
    assert all(0 <= each.rdp <= whole * (1 + 1e-9) for each in account.bookings)
    assert all(each.rdp == pytest.approx(whole) for each in account.bookings if each.pending)


@checked(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            st.sampled_from("abcd"),
            st.floats(0.05, 0.7),
            st.sampled_from(["done", "failed", "cancelled", "delete", "wait"]),
        ),
        max_size=12,
    )
)
def test_ledger_equals_manual_sum(tmp_path_factory, story):
    """Compare with a manual sum of the maximum per stream, as long as all charges fit."""
    store = RunStore(f"sqlite:///{tmp_path_factory.mktemp('story') / 'runs.sqlite'}")
    set_total(store, TOTAL)
    spent: dict[str, float] = {}
    waiting: dict[str, float] = {}
    done: set[str] = set()
    costs: dict[str, float] = {}
    for run, drawn, how in story:
        share = costs.setdefault(run, drawn)  # constant per run
        if run not in done and run not in waiting:
            before = spent.get(run, 0.0)
            fits = sum(spent.values()) + sum(waiting.values()) - sum(spent.get(each, 0.0) for each in waiting)
            if fits - before + max(before, share) <= 1 + 1e-12:
                submit(store, run, share)
                waiting[run] = max(before, share)
            else:
                with pytest.raises(BudgetExceeded):
                    submit(store, run, share)
                continue
            own = share
        elif run in waiting:
            own = None
        else:
            continue
        if how == "wait" or own is None:
            continue
        whole = waiting.pop(run)
        if how == "done":
            end_run(store, run, 100, "done")
            spent[run] = whole
            done.add(run)
        elif how == "failed":
            end_run(store, run, 50, "failed")
            spent[run] = whole
        elif how == "cancelled":
            end_run(store, run, 50, "cancelled")
            spent[run] = max(before, own / 2)
        else:
            store.delete(run)
            spent[run] = before
        expected = sum(spent.values()) + sum(waiting.values()) - sum(spent.get(each, 0.0) for each in waiting)
        assert account_of(store).share == pytest.approx(expected)
    store.close()
