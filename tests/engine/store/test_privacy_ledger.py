"""The book of budgets: the sum never passes the total, nothing that was spent is lost, changes by hand are found."""

import multiprocessing
import os
import random
import signal
import time
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as checked
from hypothesis import strategies as st
from sqlalchemy import create_engine, text

from engine.errors import BudgetExceeded, RunNotFound, StoreError
from engine.privacy.budget import Budget, BudgetState, ChargeRequest
from engine.records import PlatformRecord
from engine.store import privacy_ledger
from engine.store.run_store import RunStore
from tests.engine.factories import SMALL, provenance, record

CORPUS = "c" * 64
TOTAL = Budget(epsilon=3.0, delta=1e-5, unit="sentence", order=8.0, set_at="2026-01-01T00:00:00+00:00")
ALLOWED = TOTAL.filter.capacity


def wish(run: str, share: float, **more) -> ChargeRequest:
    fields = {"corpus": CORPUS, "name": "corpus", "stream": run, "run": run, "what": "a run", "looks": False}
    fields |= {"again": False, "even": True, "steps": 100, "cost": lambda budget: share * budget.filter.capacity}
    return ChargeRequest(**{**fields, **more})


def submit(store: RunStore, run: str, share: float, **more) -> None:
    store.submit(run, SMALL, CORPUS, wishes=[wish(run, share, **more)])


def set_total(store: RunStore, total: Budget) -> None:
    with store.exclusive() as connection:
        privacy_ledger.set_total(connection, CORPUS, "corpus", total, ())


def account_of(store: RunStore, corpus: str = CORPUS) -> BudgetState:
    with store.exclusive() as connection:
        return privacy_ledger.account(connection, corpus)


def by_hand(address: str, statement: str) -> None:
    engine = create_engine(address)
    with engine.begin() as connection:
        connection.execute(text(statement))
    engine.dispose()


@pytest.fixture
def store(store_address):
    made = RunStore(store_address)
    set_total(made, TOTAL)
    yield made
    made.close()


def ended(store: RunStore, run: str, step: int | None, how: str) -> None:
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


def test_a_run_that_does_not_fit_is_refused_with_the_sum_and_not_stored(store):
    submit(store, "a", 0.6)
    with pytest.raises(BudgetExceeded, match=r"\b60% .*\bused\b.* 110%"):
        submit(store, "b", 0.5)
    with pytest.raises(RunNotFound):
        store.status("b")
    submit(store, "b", 0.4)
    assert account_of(store).share == pytest.approx(1)


def test_what_promises_nothing_to_the_unit_is_refused(store):
    with pytest.raises(BudgetExceeded, match="no privacy guarantee for a sentence"):
        submit(store, "a", float("inf"))


@pytest.mark.parametrize(
    ("how", "step", "even", "share"),
    [
        ("done", 100, True, 0.4),
        ("cancelled", 50, True, 0.2),
        ("failed", 25, True, 0.1),
        ("cancelled", 50, False, 0.4),
        ("cancelled", None, True, 0.0),
    ],
)
def test_what_ended_counts_what_it_spent(store, how, step, even, share):
    submit(store, "a", 0.4, even=even)
    assert account_of(store).bookings[0].pending
    ended(store, "a", step, how)
    account = account_of(store)
    assert account.share == pytest.approx(share)
    assert not account.bookings[0].pending


@pytest.mark.parametrize("how", ["done", "cancelled"])
@pytest.mark.parametrize("whose", ["run", "platform"])
def test_a_run_whose_noise_check_failed_is_a_look_too(store, how, whose):
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


def test_a_run_that_passed_is_no_look(store):
    submit(store, "a", 0.4)
    ended(store, "a", 100, "done")
    assert not account_of(store).looks


def test_a_run_that_goes_on_with_the_same_noise_counts_once(store):
    submit(store, "a", 0.4)
    ended(store, "a", 50, "cancelled")
    assert account_of(store).share == pytest.approx(0.2)
    submit(store, "a", 0.4)
    assert account_of(store).share == pytest.approx(0.4)
    submit(store, "a", 0.4)  # joins the one that waits
    ended(store, "a", 75, "cancelled")
    assert account_of(store).share == pytest.approx(0.3)


def test_new_noise_counts_anew(store):
    submit(store, "a", 0.4, again=True)
    ended(store, "a", 50, "cancelled")
    submit(store, "a", 0.4, again=True)
    assert account_of(store).share == pytest.approx(0.6)
    ended(store, "a", 75, "failed")
    assert account_of(store).share == pytest.approx(0.5), "whether it went on or began anew is not known here"
    with pytest.raises(BudgetExceeded, match=r"\b50% .*\bused\b.* 110%"):
        submit(store, "b", 0.6)
    submit(store, "a", 0.4, again=True)
    ended(store, "a", 100, "done")
    with pytest.raises(BudgetExceeded, match=r"\b90% .*\bused\b.* 130%"):
        submit(store, "b", 0.4)


def test_a_repetition_with_the_noise_of_the_first_counts_once(store):
    submit(store, "a", 0.4)
    ended(store, "a", 100, "done")
    submit(store, "b", 0.4, stream="a")
    assert account_of(store).share == pytest.approx(0.4)


@pytest.mark.parametrize("step", [None, 50])
def test_what_is_deleted_stays_booked(store, step):
    submit(store, "a", 0.4)
    if step:
        store.append(store.claim("a", "here"), replace(record(0), step=step, steps_total=100))
    store.delete("a")
    account = account_of(store)
    assert account.share == pytest.approx(0.2 if step else 0.0)
    assert not account.bookings[0].pending


def test_what_was_taken_out_of_the_database_by_hand_stays_booked_whole(store, store_address):
    submit(store, "a", 0.4)
    by_hand(store_address, "DELETE FROM runs")
    assert account_of(store).share == pytest.approx(0.4)


def test_looks_are_listed_and_cost_nothing(store):
    submit(store, "a", float("inf"), looks=True)
    account = account_of(store)
    assert (account.share, [each.run for each in account.looks]) == (0, ["a"])


def test_a_corpus_without_a_budget_has_no_book(store):
    store.submit("a", SMALL, CORPUS, wishes=[wish("a", 9.0, corpus="d" * 64)])
    assert account_of(store, "d" * 64).bookings == ()


def test_a_total_below_what_is_spent_is_refused(store):
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
def test_a_change_by_hand_is_found_and_nothing_is_booked_on_top(store, store_address, change):
    submit(store, "a", 0.1)
    submit(store, "b", 0.1)
    by_hand(store_address, change)
    with pytest.raises(StoreError, match="from outside at entry"):
        account_of(store)
    with pytest.raises(StoreError, match="from outside at entry"):
        submit(store, "c", 0.1)
    with pytest.raises(RunNotFound):
        store.status("c")


def test_who_keeps_a_seal_sees_that_the_end_was_cut_off(store, store_address):
    submit(store, "a", 0.1)
    kept = account_of(store).chain_hash
    by_hand(store_address, "DELETE FROM bookings WHERE number = 2")
    assert account_of(store).chain_hash != kept


def _book(address: str, name: str, number: int) -> None:
    store = RunStore(address)
    for each in range(number):
        try:
            submit(store, f"{name}{each}", 0.1)
        except BudgetExceeded:
            pass
        except StoreError:
            pass  # locked for longer than is waited for
    store.close()


def test_processes_that_book_at_once_never_pass_the_total(store, store_address):
    store.close()
    processes = [
        multiprocessing.get_context("spawn").Process(target=_book, args=(store_address, name, 15)) for name in "abcd"
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    account = account_of(store)
    assert len(account.bookings) == 10
    assert account.share == pytest.approx(1)


def _book_for_ever(address: str) -> None:
    store = RunStore(address)
    number = 0
    while True:
        run = f"{os.getpid()}-{number}"
        submit(store, run, 0.0001)
        if number % 3 == 0:
            ended(store, run, 50, "cancelled")
        elif number % 3 == 1:
            store.delete(run)
        number += 1


@pytest.mark.parametrize("moment", [0, 1, *(pytest.param(each, marks=pytest.mark.nightly) for each in range(2, 25))])
def test_a_kill_at_any_moment_loses_and_doubles_nothing(store, store_address, moment):
    store.close()
    process = multiprocessing.get_context("spawn").Process(target=_book_for_ever, args=(store_address,))
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
        st.tuples(st.sampled_from("abcd"), st.floats(0.05, 0.7), st.sampled_from(["done", "failed", "delete", "wait"])),
        max_size=12,
    )
)
def test_any_story_adds_up(tmp_path_factory, story):
    """Against a sum by hand: what each stream took at most, as long as all fit."""
    store = RunStore(f"sqlite:///{tmp_path_factory.mktemp('story') / 'runs.sqlite'}")
    set_total(store, TOTAL)
    spent: dict[str, float] = {}
    waiting: dict[str, float] = {}
    done: set[str] = set()
    costs: dict[str, float] = {}
    for run, drawn, how in story:
        share = costs.setdefault(run, drawn)  # of a run it is always the same
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
            ended(store, run, 100, "done")
            spent[run] = whole
            done.add(run)
        elif how == "failed":
            ended(store, run, 50, "failed")
            spent[run] = max(before, own / 2)
        else:
            store.delete(run)
            spent[run] = before
        expected = sum(spent.values()) + sum(waiting.values()) - sum(spent.get(each, 0.0) for each in waiting)
        assert account_of(store).share == pytest.approx(expected)
    store.close()
