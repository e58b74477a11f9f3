"""The privacy ledger of a client."""

import dataclasses
import json
import math
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier, BrokenBarrierError

import pytest

from engine.config.mechanism_registry import ADD_OR_REMOVE, NOT_RECORDED, ZERO_OUT
from engine.errors import BudgetExceeded, StoreError
from federation.ledger import Entry, Ledger

SENTENCE = "one labelled sentence"
FIRST = Entry(run="a", name="try", round=1, epsilon=1.0, delta=1e-5, unit=SENTENCE, at="2026-11-23T10:00:00+00:00")


def test_total_is_the_last_round_of_each_run_summed_over_runs(tmp_path):
    ledger = Ledger(tmp_path)
    for entry in (
        FIRST,
        dataclasses.replace(FIRST, round=2, epsilon=1.25),
        dataclasses.replace(FIRST, run="b", epsilon=0.5, delta=2e-5),
    ):
        ledger.charge(entry)
    assert ledger.total(SENTENCE) == pytest.approx((1.75, 3e-5))
    assert [entry.round for entry in Ledger(tmp_path).entries()] == [1, 2, 1]


@pytest.mark.parametrize(
    ("second", "expected"), [(ADD_OR_REMOVE, ADD_OR_REMOVE), (ZERO_OUT, ZERO_OUT), ("", NOT_RECORDED)]
)
def test_total_holds_for_the_adjacency_of_all_runs(tmp_path, second, expected):
    ledger = Ledger(tmp_path)
    ledger.charge(dataclasses.replace(FIRST, neighbouring=ADD_OR_REMOVE))
    ledger.charge(dataclasses.replace(FIRST, run="b", neighbouring=second))
    assert Ledger(tmp_path).adjacency() == expected


def test_lines_of_earlier_versions_have_no_adjacency(tmp_path):
    line = dataclasses.asdict(FIRST)
    del line["neighbouring"]
    (tmp_path / "ledger.jsonl").write_text(json.dumps(line) + "\n")
    assert Ledger(tmp_path).entries() == [FIRST]
    assert Ledger(tmp_path).adjacency() == NOT_RECORDED


def test_second_charge_of_a_round_raises_budget_exceeded(tmp_path):
    ledger = Ledger(tmp_path)
    ledger.charge(FIRST)
    with pytest.raises(BudgetExceeded, match="trained only once"):
        ledger.charge(dataclasses.replace(FIRST, epsilon=0.1))
    assert ledger.total(SENTENCE)[0] == 1.0


def test_one_of_two_concurrent_charges_raises_budget_exceeded(tmp_path, monkeypatch):
    both_have_read, read = Barrier(2), Ledger._read

    def read_and_wait(ledger, file):
        entries = read(ledger, file)
        with suppress(BrokenBarrierError):  # the lock keeps the other thread from reading during the wait
            both_have_read.wait(0.5)
        return entries

    with monkeypatch.context() as patch, ThreadPoolExecutor(2) as pool:
        patch.setattr(Ledger, "_read", read_and_wait)
        errors = [charge.exception() for charge in [pool.submit(Ledger(tmp_path).charge, FIRST) for _ in range(2)]]
    assert [type(error) for error in errors if error] == [BudgetExceeded]
    assert Ledger(tmp_path).entries() == [FIRST]


def test_total_is_infinite_without_noise_or_for_another_unit(tmp_path):
    ledger = Ledger(tmp_path)
    ledger.charge(FIRST)
    assert ledger.total("one client, with all its sentences")[0] == math.inf
    ledger.charge(dataclasses.replace(FIRST, run="b", epsilon=math.inf))
    assert ledger.total(SENTENCE)[0] == math.inf


@pytest.mark.parametrize("line", ["{", '{"run": "a"}', "[]", '{"epsilon": -1, "delta": 0, "round": 1}'])
def test_damaged_ledger_raises_and_accepts_no_charge(tmp_path, line):
    ledger = Ledger(tmp_path)
    ledger.charge(FIRST)
    path = tmp_path / "ledger.jsonl"
    path.write_text(path.read_text() + line + "\n")
    before = path.read_bytes()
    with pytest.raises(StoreError, match="Line 2"):
        ledger.total(SENTENCE)
    with pytest.raises(StoreError, match="Line 2"):
        ledger.charge(dataclasses.replace(FIRST, round=2))
    assert path.read_bytes() == before


def test_ledger_file_is_owner_only(tmp_path):
    Ledger(tmp_path).charge(FIRST)
    assert stat.S_IMODE((tmp_path / "ledger.jsonl").stat().st_mode) == 0o600
