"""`epsilon`: ε of a noise multiplier, and the noise multiplier of an ε."""

import json

import pytest

EPSILON = ("epsilon", "--examples", "14041", "--batch-size", "32", "--epochs", "10")


@pytest.mark.parametrize(("accountant", "expected"), [("pld", 0.734), ("rdp", 1.032), ("rdp-classic", 1.367)])
def test_epsilon_of_a_noise_multiplier(shell, accountant, expected):
    code, out, _ = shell(
        *("epsilon", "--examples", "14987", "--batch-size", "32", "--epochs", "10", "--noise-multiplier", "1"),
        *("--delta", "1e-5", "--accountant", accountant, "--json"),
    )
    fields = json.loads(out)
    assert code == 0
    assert fields["epsilon"] == pytest.approx(expected, abs=0.003)
    assert (fields["delta"], fields["noise_multiplier"], fields["accountant"]) == (1e-5, 1.0, accountant)
    assert fields["steps"] == 4683


def test_epsilon_finds_the_noise_multiplier_of_a_target(shell):
    options = ("--delta", "1e-5", "--accountant", "rdp", "--json")
    _, out, _ = shell(*EPSILON, "--target-epsilon", "1", *options)
    sigma = json.loads(out)["noise_multiplier"]
    _, out, _ = shell(*EPSILON, "--noise-multiplier", sigma, *options)
    assert json.loads(out)["epsilon"] == pytest.approx(1, abs=0.01)


def test_group_size_gives_the_epsilon_of_several_sentences(shell):
    command = (*EPSILON, "--noise-multiplier", "1")
    code, out, _ = shell(*command, "--group-size", "10", "--json")
    fields = json.loads(out)
    assert code == 0
    assert fields["group_size"] == 10
    assert fields["epsilon"] == pytest.approx(0.762, abs=1e-3)
    assert fields["group_epsilon"] == pytest.approx(10.47, abs=0.01)
    _, out, _ = shell(*command, "--group-size", "10")
    first, second = out.splitlines()
    assert "σ = 1 " in first
    assert f"ε = {fields['epsilon']:.4g} " in first
    assert "10 of the sentences" in second
    assert f"ε = {fields['group_epsilon']:.4g}" in second
    _, out, _ = shell(*command, "--json")
    assert "group_epsilon" not in json.loads(out)
