"""`budget`: totals that are set, shown and enforced before a training."""

import json

import pytest

RUN = ("train", "--corpus", "synthetic", "--tagger", "linear-crf", "--features", "vectors", "--epochs", "0.1")


def test_budget_is_set_and_shown(shell):
    code, out, _ = shell("budget", "show", "synthetic")
    assert code == 0
    assert "no budget" in out
    assert json.loads(shell("budget", "show", "synthetic", "--json")[1])["budget"] is None
    code, out, _ = shell("budget", "set", "synthetic", "--epsilon", "2", "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["budget"]["epsilon"], found["budget"]["unit"], found["booked"]) == (2, "sentence", 0)
    assert {"title", "share", "times"} <= set(found["possible"][0])
    code, out, _ = shell("budget", "show", "synthetic")
    assert code == 0
    assert "ε = 2 at δ = 1e-5" in out


def test_budget_refuses_a_run_that_is_too_large_and_books_one_that_fits(shell, service):
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
    (booking,) = json.loads(out)["bookings"]
    assert 0 < booking["booked"] < 1
    assert booking["open"] == 0, "a training of the shell is booked whole"


def test_tune_refuses_a_corpus_with_a_budget(shell):
    assert shell("budget", "set", "synthetic", "--epsilon", "2")[0] == 0
    command = ("tune", "--epsilon", "1", "--corpus", "synthetic", "--public-corpus", "synthetic", "--trials", "1")
    code, _, err = shell(*command)
    assert code == 2
    assert "corpus='synthetic'" in err
    assert "budget" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nowhere", "--epsilon", "1"), "nowhere"),
        (("synthetic", "--epsilon", "-1"), "epsilon=-1"),
        (("synthetic", "--epsilon", "1", "--unit", "word"), "unit='word'"),
    ],
)
def test_budget_refuses_bad_input_with_exit_code_2(shell, arguments, said):
    code, out, err = shell("budget", "set", *arguments)
    assert (code, out) == (2, "")
    assert said in err
