import dataclasses
import math
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from engine.errors import BudgetExceeded, EpsilonError, StoreError
from federation.ledger import Entry, Ledger

SENTENCE = "one labelled sentence"
FIRST = Entry(run="a", name="try", round=1, epsilon=1.0, delta=1e-5, unit=SENTENCE, at="2026-11-23T10:00:00+00:00")


def test_rounds_of_a_run_are_priced_together_and_runs_add_up(tmp_path):
    ledger = Ledger(tmp_path)
    for entry in (
        FIRST,
        dataclasses.replace(FIRST, round=2, epsilon=1.25),
        dataclasses.replace(FIRST, run="b", epsilon=0.5, delta=2e-5),
    ):
        ledger.book(entry)
    assert ledger.total(SENTENCE) == pytest.approx((1.75, 3e-5))
    assert [entry.round for entry in Ledger(tmp_path).entries()] == [1, 2, 1]


def test_a_round_is_done_once(tmp_path):
    ledger = Ledger(tmp_path)
    ledger.book(FIRST)
    with pytest.raises(BudgetExceeded, match="done once"):
        ledger.book(dataclasses.replace(FIRST, epsilon=0.1))
    assert ledger.total(SENTENCE)[0] == 1.0


def test_of_many_who_book_a_round_at_once_one_does(tmp_path):
    def book(_):
        try:
            Ledger(tmp_path).book(FIRST)
        except EpsilonError:
            return 0
        return 1

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(book, range(40))) == 1
    assert len(Ledger(tmp_path).entries()) == 1


def test_without_noise_or_for_another_unit_nothing_is_promised(tmp_path):
    ledger = Ledger(tmp_path)
    ledger.book(FIRST)
    assert ledger.total("one client, with all its sentences")[0] == math.inf
    ledger.book(dataclasses.replace(FIRST, run="b", epsilon=math.inf))
    assert ledger.total(SENTENCE)[0] == math.inf


@pytest.mark.parametrize("line", ["{", '{"run": "a"}', "[]", '{"epsilon": -1, "delta": 0, "round": 1}'])
def test_what_is_damaged_counts_as_unknown_and_nothing_is_booked_on_top(tmp_path, line):
    ledger = Ledger(tmp_path)
    ledger.book(FIRST)
    path = tmp_path / "ledger.jsonl"
    path.write_text(path.read_text() + line + "\n")
    before = path.read_bytes()
    with pytest.raises(StoreError, match="Line 2"):
        ledger.total(SENTENCE)
    with pytest.raises(StoreError, match="Line 2"):
        ledger.book(dataclasses.replace(FIRST, round=2))
    assert path.read_bytes() == before


def test_nobody_else_may_read_it(tmp_path):
    Ledger(tmp_path).book(FIRST)
    assert stat.S_IMODE((tmp_path / "ledger.jsonl").stat().st_mode) == 0o600
