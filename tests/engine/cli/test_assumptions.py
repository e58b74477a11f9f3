"""`assumptions`: its options, and its output as text and JSON."""

import json
import math
from dataclasses import asdict, replace
from unittest.mock import create_autospec

import pytest

from engine.cli import assumptions
from engine.privacy.assumptions import Training, rows
from engine.reports.numbers import epsilon_text

SIZES = ("assumptions", "--examples", "400", "--batch-size", "40", "--epochs", "1")
ASSUMPTIONS = (*SIZES, "--noise-multiplier", "2")
TRAINING = Training(examples=400, batch_size=40, epochs=1.0, noise_multiplier=2.0)


def finite(epsilon):
    return None if epsilon is None or math.isinf(epsilon) else epsilon


def test_assumptions_prints_each_assumption_with_its_epsilon(shell):
    code, out, _ = shell(*ASSUMPTIONS, "--json")
    printed = json.loads(out)
    expected = rows(TRAINING)
    assert code == 0
    for row, each in zip(printed["rows"], expected, strict=True):
        known = each.epsilon is not None
        assert row == asdict(each) | {"epsilon": finite(each.epsilon), "known": known}
    assert any(math.isinf(each.epsilon) for each in expected)
    assert any(each.at_least for each in expected)
    assert printed["noise_multiplier"] == 2.0
    (claimed,) = {each.epsilon for each in expected if each.claimed}
    assert printed["waterfall"][-1]["epsilon"] == claimed
    code, out, _ = shell(*ASSUMPTIONS)
    lines = out.splitlines()
    assert code == 0
    assert f"ε = {epsilon_text(claimed)} at δ = 1e-5" in out
    for each in expected:
        message = each.choice if each.claimed else f"{each.choice}: ε = {epsilon_text(each.epsilon)}"
        assert any(message in line for line in lines), message


def test_assumptions_names_an_incomplete_epoch_beside_lower_bounds(shell):
    command = ("assumptions", "--examples", "400", "--batch-size", "40", "--noise-multiplier", "2", "--epochs")
    whole, part = (shell(*command, epochs)[1] for epochs in ("1", "1.5"))
    assert "last epoch is incomplete" in part
    assert "incomplete" not in whole


def test_assumptions_ends_with_the_epsilon_of_the_chosen_accountant(shell):
    (rdp,) = (row.epsilon for row in rows(TRAINING) if row.choice == "Rényi, improved conversion")
    code, out, _ = shell(*ASSUMPTIONS, "--accountant", "rdp", "--json")
    assert code == 0
    assert json.loads(out)["waterfall"][-1]["epsilon"] == rdp
    assert shell(*ASSUMPTIONS, "--accountant", "rdp")[1].splitlines()[-1].endswith(f"ε = {epsilon_text(rdp)}")


@pytest.fixture
def rows_mock(monkeypatch):
    """Replace the slow computation of the rows by a mock that returns the first row of ``TRAINING``."""
    mock = create_autospec(rows, return_value=rows(TRAINING)[:1])
    monkeypatch.setattr(assumptions, "rows", mock)
    return mock


@pytest.mark.parametrize(
    ("options", "changes"),
    [
        ((), {}),
        (("--clients", "4"), {"clients": 4}),
        (("--shuffled",), {"shuffled": True}),
        (("--delta", "1e-6"), {"delta": 1e-6}),
    ],
)
def test_options_describe_the_training(shell, rows_mock, options, changes):
    assert shell(*ASSUMPTIONS, *options)[0] == 0
    rows_mock.assert_called_once_with(replace(TRAINING, **changes))


def test_target_epsilon_and_group_size_agree_with_the_epsilon_command(shell, rows_mock):
    code, out, _ = shell(*SIZES, "--target-epsilon", "1", "--group-size", "2", "--json")
    printed = json.loads(out)
    sigma, last = printed["noise_multiplier"], printed["waterfall"][-1]
    assert code == 0
    rows_mock.assert_called_once_with(replace(TRAINING, noise_multiplier=sigma))
    _, out, _ = shell("epsilon", *SIZES[1:], "--noise-multiplier", sigma, "--group-size", "2", "--json")
    expected = json.loads(out)
    assert expected["epsilon"] == pytest.approx(1, abs=0.002)
    assert last["epsilon"] == pytest.approx(expected["group_epsilon"], abs=0.02)
    assert "2 sentences" in last["choice"]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("assumptions",), "examples … batch_size … epochs … run=ID"),
        (SIZES, "noise_multiplier … target_epsilon"),
        ((*ASSUMPTIONS, "--target-epsilon", "3"), "noise_multiplier … target_epsilon"),
        ((*SIZES, "--target-epsilon", "3", "--shuffled"), "target_epsilon"),
        ((*ASSUMPTIONS, "--accountant", "exact"), "accountant='exact'"),
        ((*ASSUMPTIONS, "--group-size", "0"), "group_size=0"),
        ((*ASSUMPTIONS, "--clients", "100"), "batch_size=40"),
        ((*ASSUMPTIONS, "--delta", "2"), "delta=2"),
        (("assumptions", "--run", "0123456789abcdef"), "0123456789abcdef"),
    ],
)
def test_assumptions_refuses_bad_input_with_exit_code_2(shell, command, message):
    code, out, err = shell(*command)
    assert (code, out) == (2, "")
    assert all(part in err for part in message.split(" … ")), err
