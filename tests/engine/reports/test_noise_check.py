"""The noise check as text."""

from dataclasses import replace

import pytest

from engine.records import LayerNoise
from engine.reports.noise_check import WITHHELD, check_lines, check_rows
from tests.engine.factories import record


@pytest.mark.parametrize(("unit", "where"), [("sentence", "step"), ("client", "round")])
def test_a_withheld_number_of_clients_is_a_mean_beside_the_planned_one(unit, where):
    check = replace(record(0).noise_check, unit=unit, batch_planned=3.0, batch_std_planned=None)
    row = check_rows(check, samples=False)[-1]
    assert row == (f"Mean number of {unit}s in a {where}", WITHHELD, "3")
    (line,) = (line for line in check_lines(check) if row[0] in line)
    assert line.endswith("planned: 3")


def test_values_of_a_diverged_run_are_not_finite():
    layers = (LayerNoise("LSTM", float("nan"), 0.004), LayerNoise("CRF", 1.0, 0.004))
    rows = check_rows(replace(record(0).noise_check, noise_std=float("nan"), layers=layers))
    assert [row[1] for row in rows[:3]] == ["not finite", "not finite", "100.00 %"]
    assert not any("nan" in text for row in rows for text in row)
