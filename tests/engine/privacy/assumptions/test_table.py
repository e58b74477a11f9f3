"""The table of assumptions: reference values, closed forms, other accountants, and no value where none is known."""

import itertools
import math
from dataclasses import replace

import dp_accounting
import pytest
from dp_accounting.pld import privacy_loss_distribution
from dp_accounting.rdp import RdpAccountant
from scipy.stats import norm

from engine.errors import InvalidConfig
from engine.experiments.papers import jana_biemann_2021
from engine.privacy import assumptions
from engine.privacy.accounting import gaussian_epsilon
from engine.privacy.assumptions import AS_PRINTED, Choices, Part, Training, printed_row

TRAINING = Training(examples=14_041, batch_size=256, epochs=10, noise_multiplier=1.0)


@pytest.mark.parametrize(
    ("choices", "expected"),
    [
        ({}, 2.62),
        ({"accountant": "rdp"}, 2.98),
        ({"sampling": "none", "neighbours": "zero-out"}, 17.9),
    ],
)
def test_reference_values(choices, expected):
    assert assumptions.epsilon(TRAINING, Choices(**choices)) == pytest.approx(
        expected, abs=0.05 if expected > 10 else 0.005
    )


@pytest.mark.parametrize(
    ("training", "expected"),
    [
        ({"batch_size": 32, "noise_multiplier": 1.0}, 0.7623),
        ({"batch_size": 32, "noise_multiplier": 0.5}, 7.2936),
        ({"batch_size": 32, "noise_multiplier": 5.0}, 0.0937),
        ({"examples": 14_040, "clients": 5, "batch_size": 32, "noise_multiplier": 1.0}, 1.9783),
        ({"batch_size": 1024, "epochs": 40, "noise_multiplier": 3.39}, 2.1043),
        ({"examples": 5000, "batch_size": 64, "epochs": 7, "noise_multiplier": 0.8, "delta": 1e-6}, 3.7292),
    ],
)
def test_epsilon_equals_prv_accountant(training, expected):
    """Gopi, Lee and Wutschitz 2021: computed once with the authors' program, to four decimals."""
    made = replace(TRAINING, **training)
    assert assumptions.epsilon(made, made.promised) == pytest.approx(expected, rel=2e-3)


def test_epsilon_equals_dp_accounting():
    library = RdpAccountant().compose(
        dp_accounting.PoissonSampledDpEvent(256 / 14_041, dp_accounting.GaussianDpEvent(1.0)), 548
    )
    assert assumptions.epsilon(TRAINING, Choices(accountant="rdp")) == pytest.approx(
        library.get_epsilon(1e-5), rel=1e-6
    )
    five = privacy_loss_distribution.from_gaussian_mechanism(
        1.0, sampling_prob=256 / 14_041, value_discretization_interval=1e-3
    ).self_compose(5 * 548)
    assert assumptions.epsilon(TRAINING, Choices(trainings=5)) == pytest.approx(
        five.get_epsilon_for_delta(1e-5), rel=5e-3
    )


@pytest.mark.parametrize(("neighbours", "moved"), [("zero-out", 1), ("replace", 2), ("add-or-remove", math.sqrt(5))])
@pytest.mark.parametrize("trainings", [1, 3])
def test_shuffled_batches_are_one_gaussian_mechanism_per_epoch(neighbours, moved, trainings):
    """δ(ε) in closed form (Balle and Wang 2018, theorem 8)."""
    found = assumptions.epsilon(TRAINING, Choices(sampling="none", neighbours=neighbours, trainings=trainings))
    mu = moved * math.sqrt(10 * trainings)
    delta = norm.cdf(mu / 2 - found / mu) - math.exp(found) * norm.cdf(-mu / 2 - found / mu)
    assert delta == pytest.approx(1e-5, rel=1e-4)


def test_group_in_one_batch_scales_sensitivity():
    found = assumptions.epsilon(TRAINING, Choices(sampling="none", neighbours="zero-out", sentences=3))
    assert found == pytest.approx(gaussian_epsilon(3 * math.sqrt(10), 1e-5))


def test_replace_one_is_between_removal_and_two_changes():
    """Closed form of a full-batch step: one Gaussian mechanism of sensitivity 2."""
    one = assumptions.epsilon(TRAINING, Choices())
    assert one < assumptions.epsilon(TRAINING, Choices(neighbours="replace")) < 3 * one
    everybody = Training(examples=100, batch_size=100, epochs=1, noise_multiplier=4.0)
    exchanged = assumptions.epsilon(everybody, Choices(neighbours="replace"))
    assert gaussian_epsilon(2 / 4, 1e-5) <= exchanged < 2 * gaussian_epsilon(2 / 4, 1e-5)


def test_waterfall_explains_reported_epsilon():
    reported = printed_row(1.0)
    steps = assumptions.waterfall(reported, AS_PRINTED, reported.promised)
    assert [step.assumption for step in steps] == ["", "data", "batch", "accountant", "sampling"]
    assert steps[0].epsilon == pytest.approx(0.688, abs=5e-4), "as it is reported"
    assert steps[3].epsilon == pytest.approx(0.7623, abs=5e-4)
    assert steps[-1].epsilon == assumptions.epsilon(reported, reported.promised) > 50
    for row in jana_biemann_2021.published()["tables"]["table2"]:
        found = assumptions.epsilon(printed_row(row["noise_multiplier"]), AS_PRINTED)
        assert found == pytest.approx(row["epsilon"], abs=0.005 if row["epsilon"] > 1 else 0.002)


def test_lower_bound_exceeds_reported_epsilon():
    """A known attack gives more than the reported 0.688."""
    reported = printed_row(1.0)
    assert 5 < assumptions.at_least(reported, replace(reported.promised, neighbours="zero-out")) < 6.5


@pytest.mark.repeats(after=2)
@pytest.mark.parametrize(
    "training",
    [
        TRAINING,
        replace(TRAINING, shuffled=True),
        replace(TRAINING, clients=4),
        replace(TRAINING, clients=2, parts=(Part(9000, 256, 300), Part(5041, 256, 200)), longest_document=30),
        Training(examples=100, batch_size=20, epochs=6, noise_multiplier=2.0, unit="client"),
        Training(examples=9, batch_size=9, epochs=6, noise_multiplier=9.0, unit="client", messages=True),
    ],
)
def test_each_row_changes_one_assumption(training):
    rows = assumptions.rows(training)
    assert {row.assumption for row in rows} == set(assumptions.TITLES)
    claimed = [row for row in rows if row.claimed]
    assert [row.assumption for row in claimed] == list(assumptions.TITLES), "one of each"
    assert {row.epsilon for row in claimed} == {assumptions.epsilon(training, training.promised)}
    for name, every in assumptions.alternatives(training).items():
        for choices in every[1:]:
            (found, *_) = [
                one
                for one, fields in assumptions.FIELDS.items()
                if any(getattr(choices, field) != getattr(training.promised, field) for field in fields)
            ]
            assert found == name, "emptied without chance too: sampling comes first"
    assert all(row.why.endswith(".") for row in rows)


def test_pooled_clients_give_smaller_epsilon():
    made = replace(TRAINING, clients=4)
    alone, together = (assumptions.epsilon(made, replace(made.promised, pooled=pooled)) for pooled in (False, True))
    assert together < alone
    assert together == assumptions.epsilon(TRAINING, TRAINING.promised)


def test_no_noise_or_known_seed_gives_infinite_epsilon():
    assert math.isinf(assumptions.epsilon(replace(TRAINING, noise_multiplier=0.0), Choices()))
    assert math.isinf(assumptions.epsilon(TRAINING, Choices(seed_known=True)))


@pytest.mark.parametrize(
    "choices",
    [
        {"sentences": 2, "sampling": "none"},
        {"sentences": 2, "neighbours": "replace"},
        {"sentences": 2, "accountant": "rdp"},
    ],
)
def test_unknown_combination_has_no_epsilon(choices):
    assert assumptions.epsilon(TRAINING, Choices(**choices)) is None


def test_epsilon_is_positive_or_none():
    small = Training(examples=400, batch_size=40, epochs=2, noise_multiplier=2.0, clients=2)
    for accountant, sampling, neighbours, sentences in itertools.product(
        assumptions.ACCOUNTANTS, assumptions.SAMPLINGS, assumptions.NEIGHBOURS, (1, 2)
    ):
        found = assumptions.epsilon(
            small, Choices(accountant=accountant, sampling=sampling, neighbours=neighbours, sentences=sentences)
        )
        assert found is None or 0 < found < math.inf


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"examples": 0}, "examples=0"),
        ({"batch_size": 20_000}, "batch_size=20,000"),
        ({"clients": 100}, "batch_size=256, expected at most the 140 sentences of a client"),
        ({"epochs": 0}, "epochs=0"),
        ({"epochs": math.nan}, "epochs=nan"),
        ({"noise_multiplier": -1}, "noise_multiplier=-1"),
        ({"delta": 1}, "delta=1"),
    ],
)
def test_invalid_training_is_named(wrong, words):
    with pytest.raises(InvalidConfig, match=words):
        replace(TRAINING, **wrong)


@pytest.mark.parametrize(
    "wrong",
    [{"accountant": "x"}, {"sampling": "x"}, {"neighbours": "x"}, {"sentences": 0}, {"trainings": 0}, {"delta": 0}],
)
def test_invalid_choice_is_named(wrong):
    with pytest.raises(InvalidConfig, match=next(iter(wrong)).replace("sentences", "group_size")):
        Choices(**wrong)


def test_epsilon_is_that_of_worst_part():
    small, large = Part(2000, 256, 80), Part(12_041, 256, 400)
    both = replace(TRAINING, clients=2, parts=(small, large))
    found = {part: assumptions.epsilon(replace(TRAINING, parts=(part,)), Choices()) for part in (small, large)}
    assert assumptions.epsilon(both, Choices()) == max(found.values()) == found[small] > found[large]
    exchanged = assumptions.epsilon(both, Choices(neighbours="replace"))
    assert exchanged == pytest.approx(
        assumptions.epsilon(replace(TRAINING, parts=(small,)), Choices(neighbours="replace")), rel=1e-3
    )


def test_client_level_equals_sentence_level_formula():
    """DP-FedAvg: a round is a step, a client an example (McMahan et al. 2018)."""
    clients = Training(examples=100, batch_size=20, epochs=6, noise_multiplier=2.0, unit="client")
    same = replace(clients, unit="sentence")
    assert assumptions.epsilon(clients, clients.promised) == assumptions.epsilon(same, same.promised)
    every_round = replace(clients.promised, sampling="none")
    assert assumptions.epsilon(clients, every_round) == pytest.approx(gaussian_epsilon(math.sqrt(30) / 2, 1e-5))
    assert all("sentence" not in row.choice for row in assumptions.rows(clients))


def test_each_message_is_charged():
    part = Part(9, 9, 6)
    sent = Training(
        examples=9, batch_size=9, epochs=6, parts=(part,), noise_multiplier=9.0, unit="client", messages=True
    )
    assert assumptions.epsilon(sent, sent.promised) == pytest.approx(gaussian_epsilon(2 * math.sqrt(6) / 9, 1e-5))
    assert {row.assumption for row in assumptions.rows(sent)} == set(assumptions.TITLES)


def test_sentence_level_gives_no_client_guarantee():
    federated = replace(TRAINING, clients=4)
    (row,) = (row for row in assumptions.rows(federated) if "one client, with all" in row.choice)
    assert math.isinf(row.epsilon)


def test_moved_sentences_have_zero_out_adjacency_and_no_row_for_another_sentence():
    """ε is the same: zero-out and add-or-remove give the same two distributions of a step."""
    free = replace(TRAINING, clients=5, batch_size=32)
    fixed = replace(free, moves_sentences=True)
    assert (free.promised.neighbours, fixed.promised.neighbours) == ("add-or-remove", "zero-out")
    assert fixed.printed.neighbours == "zero-out"
    assert assumptions.epsilon(fixed, fixed.promised) == assumptions.epsilon(free, free.promised)
    choices = [row.choice for row in assumptions.rows(fixed) if row.assumption == "neighbours"]
    assert choices == ["zero out one sentence", "replace one sentence"]


@pytest.mark.repeats
def test_moved_sentences_in_shuffled_batches_state_zero_out_adjacency_with_the_epsilon_of_an_addition():
    free = replace(TRAINING, clients=5, batch_size=32, shuffled=True)
    fixed = replace(free, moves_sentences=True)
    first, *others = (row for row in assumptions.rows(fixed) if row.assumption == "neighbours")
    assert first.claimed
    assert first.choice.startswith("zero out one sentence (upper bound")
    assert [row.choice for row in others] == ["zero out one sentence", "replace one sentence"]
    assert first.epsilon == assumptions.epsilon(free, free.promised) > others[0].epsilon
    # A lower bound for adding a sentence would be none for zeroing one out.
    assert first.at_least == others[0].at_least != assumptions.at_least(free, free.promised)
    assert "add or remove one sentence" in {row.choice for row in assumptions.rows(free)}


@pytest.mark.parametrize("moves", [False, True])
@pytest.mark.parametrize("shuffled", [False, True])
def test_no_row_is_repeated(moves, shuffled):
    training = replace(TRAINING, clients=5, batch_size=32, moves_sentences=moves, shuffled=shuffled)
    found = [(row.assumption, row.choice) for row in assumptions.rows(training)]
    assert len(found) == len(set(found))
