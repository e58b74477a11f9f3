"""`budget`: set and show a total, and enforce it before a training."""

import json

import pytest

from tests.engine.cli.test_audit import fake_audit

RUN = ("train", "--corpus", "synthetic", "--tagger", "linear-crf", "--features", "vectors", "--epochs", "0.1")


def test_budget_is_set_and_shown(shell):
    code, out, _ = shell("budget", "show", "synthetic")
    assert code == 0
    assert "no budget" in out
    assert json.loads(shell("budget", "show", "synthetic", "--json")[1])["budget"] is None
    code, out, _ = shell("budget", "set", "synthetic", "--epsilon", "2", "--json")
    printed = json.loads(out)
    assert code == 0
    assert (printed["budget"]["epsilon"], printed["budget"]["unit"], printed["booked"]) == (2, "sentence", 0)
    assert {"title", "share", "times"} <= set(printed["possible"][0])
    code, out, _ = shell("budget", "show", "synthetic")
    assert code == 0
    assert "ε = 2 at δ = 1e-5 for each sentence (adjacency: " in out


def test_train_charges_a_run_that_fits_and_refuses_one_that_does_not(shell, service):
    assert shell("budget", "set", "synthetic", "--epsilon", "2")[0] == 0
    code, _, err = shell(*RUN, "--noise-multiplier", "0.4")
    assert code == 2
    assert "synthetic" in err
    assert "ε = 2 at δ = 1e-05" in err
    assert "0% of it is used" in err
    assert service.trained == []
    code, _, _ = shell(*RUN, "--noise-multiplier", "5")
    assert code == 0
    assert [config.privacy.noise_multiplier for config in service.trained] == [5.0]
    code, out, _ = shell("budget", "show", "synthetic", "--json")
    (charge,) = json.loads(out)["bookings"]
    assert 0 < charge["booked"] < 1
    assert charge["neighbouring"] == json.loads(out)["neighbouring"] == "add or remove one"
    assert "(adjacency: add or remove one)" in shell("budget", "show", "synthetic")[1]
    assert charge["open"] == 0, "a training in the foreground is charged in full"


@pytest.mark.parametrize("command", ["train", "submit", "crosscheck", "audit"])
def test_access_without_privacy_is_refused_unless_accepted(shell, service, command):
    service.second_opinions.return_value = []
    service.audit.side_effect = fake_audit
    assert shell("budget", "set", "synthetic", "--epsilon", "2")[0] == 0
    run = (command, *RUN[1:], "--noise-multiplier", "5" if command in ("audit", "crosscheck") else "0")
    code, _, err = shell(*run)
    assert code == 2
    assert "--unprotected" in err
    assert service.trained == []
    assert service.second_opinions.call_args is service.audit.call_args is None
    assert json.loads(shell("budget", "show", "synthetic", "--json")[1])["holds"]
    assert shell(*run, "--unprotected")[0] == 0
    printed = json.loads(shell("budget", "show", "synthetic", "--json")[1])
    assert not printed["holds"]
    assert len(printed["looks"]) == 1
    assert "no longer holds" in shell("budget", "show", "synthetic")[1].splitlines()[0]


def test_tune_refuses_a_corpus_with_a_budget(shell):
    assert shell("budget", "set", "synthetic", "--epsilon", "2")[0] == 0
    command = ("tune", "--epsilon", "1", "--corpus", "synthetic", "--public-corpus", "synthetic", "--trials", "1")
    code, _, err = shell(*command)
    assert code == 2
    assert "corpus='synthetic'" in err
    assert "budget" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere", "--epsilon", "1"), "nowhere"),
        (("synthetic", "--epsilon", "-1"), "epsilon=-1"),
        (("synthetic", "--epsilon", "1", "--unit", "word"), "unit='word'"),
    ],
)
def test_budget_refuses_bad_input_with_exit_code_2(shell, arguments, message):
    code, out, err = shell("budget", "set", *arguments)
    assert (code, out) == (2, "")
    assert message in err
