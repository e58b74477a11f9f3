"""Records survive JSON, and their averages equal those of the tables."""

import dataclasses
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.records import (
    Counts,
    EntityScores,
    LayerNoise,
    NoiseCheck,
    PrivacySpent,
    RoundRecord,
    SidedCounts,
    macro,
    micro,
    weighted,
)
from engine.seeds import Seeds
from tests.engine.factories import check, record


def test_record_survives_json():
    for number in (0, 2):
        text = json.dumps(record(number).to_dict(), allow_nan=False)
        assert RoundRecord.from_dict(json.loads(text)) == record(number)


def test_infinite_epsilon_is_null_in_json():
    spent = PrivacySpent(epsilon=math.inf, delta=1e-5)
    assert spent.to_dict()["epsilon"] is None
    assert PrivacySpent.from_dict(json.loads(json.dumps(spent.to_dict()))) == spent


def test_old_shuffled_records_report_unamplified_epsilon():
    """Until engine version 5 the main value was the amplified one, with the other in a separate field. Old records must
    not claim more than current ones."""
    old = PrivacySpent(epsilon=0.7, delta=1e-5, rdp_epsilon=1.0, assumptions=("a",)).to_dict()
    del old["poisson_epsilon"]
    read = PrivacySpent.from_dict(old | {"unamplified_epsilon": 17.9})
    assert (read.epsilon, read.rdp_epsilon, read.poisson_epsilon) == (17.9, 17.9, 0.7)
    read = PrivacySpent.from_dict(old | {"unamplified_epsilon": None})
    assert (read.epsilon, read.rdp_epsilon, read.poisson_epsilon) == (0.7, 1.0, None)
    assert PrivacySpent.from_dict(json.loads(json.dumps(read.to_dict()))) == read


def test_old_and_new_noise_checks_read_back():
    new = dataclasses.replace(
        check(),
        layers=(LayerNoise("LSTM", 1.01, 0.02), LayerNoise("CRF", 0.99, 0.2)),
        looks=6,
        largest_gap=1e-6,
    )
    assert NoiseCheck.from_dict(json.loads(json.dumps(new.to_dict()))) == new
    later = {
        "layers",
        "least_visits",
        "shape_distance",
        "along",
        "along_spread",
        "looks",
        "looks_counted",
        "largest_gap",
    }
    old = {name: value for name, value in new.to_dict().items() if name not in later}
    read = NoiseCheck.from_dict(old)
    assert read.passed
    assert (read.layers, read.looks) == ((), 0)


def test_noise_check_without_noise_std_is_not_passed():
    assert check().passed
    assert not check(noise_std=None).passed
    assert not check(noise_std=None).failed
    assert not check("It is off.").passed


def test_averages_equal_manual_values():
    counts = [Counts(correct=6, predicted=8, gold=10), Counts(correct=1, predicted=5, gold=2)]
    assert micro(counts).precision == pytest.approx(7 / 13)
    assert micro(counts).recall == pytest.approx(7 / 12)
    assert micro(counts).f1 == pytest.approx(14 / 25)
    assert macro(counts).f1 == pytest.approx((12 / 18 + 2 / 7) / 2)
    assert weighted(counts).f1 == pytest.approx((10 * 12 / 18 + 2 * 2 / 7) / 12)


def test_weighted_f1_may_be_below_precision_and_recall():
    """As in the paper's Table 6, whose triples were therefore identified as weighted averages."""
    counts = [Counts(correct=1, predicted=1, gold=10), Counts(correct=9, predicted=90, gold=10)]
    average = weighted(counts)
    assert average.f1 < min(average.precision, average.recall)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)), max_size=6))
def test_ratios_stay_between_0_and_1(triples):
    counts = [Counts(min(a, b, c), b, c) for a, b, c in triples]
    for average in (micro(counts), macro(counts), weighted(counts)):
        for value in (average.precision, average.recall, average.f1):
            assert 0 <= value <= 1


def test_scores_of_nothing_are_zero():
    empty = EntityScores(strict={}, relaxed={}, token={})
    assert (empty.precision, empty.recall, empty.f1) == (0, 0, 0)


def test_sided_counts_equal_manual_values():
    counts = [SidedCounts(right=6, predicted=8, found=4, gold=10), SidedCounts(right=1, predicted=4, found=2, gold=2)]
    precision, recall = 7 / 12, 6 / 12
    assert micro(counts).precision == pytest.approx(precision)
    assert micro(counts).recall == pytest.approx(recall)
    assert micro(counts).f1 == pytest.approx(2 / (1 / precision + 1 / recall))
    first, second = 2 / (8 / 6 + 10 / 4), 2 / (4 / 1 + 2 / 2)
    assert macro(counts).f1 == pytest.approx((first + second) / 2)
    assert weighted(counts).f1 == pytest.approx((10 * first + 2 * second) / 12)


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))
def test_sided_counts_with_equal_numerators_equal_counts(a, b, c):
    one, sided = Counts(min(a, b, c), b, c).ratios, SidedCounts(min(a, b, c), b, min(a, b, c), c).ratios
    assert dataclasses.astuple(sided) == pytest.approx(dataclasses.astuple(one))


COUNTS, SIDED = {"PER": Counts(1, 2, 3)}, {"PER": SidedCounts(2, 2, 1, 3)}


class TestManyToMany:
    def test_survives_json(self):
        for sided in (SIDED, {}):
            scores = EntityScores(COUNTS, COUNTS, {}, many_to_many=sided)
            assert EntityScores.from_dict(json.loads(json.dumps(scores.to_dict()))).many_to_many == sided

    def test_older_records_have_none_and_stay_unchanged(self):
        older = {"strict": {"PER": [1, 2, 3]}, "relaxed": {"PER": [1, 2, 3]}, "token": {}, "sentences": [3, 1, 4, 21]}
        read = EntityScores.from_dict(older)
        assert read.many_to_many is None
        assert read.many_to_many_ratios is None
        assert read.to_dict() == older

    def test_is_ignored_in_comparisons(self):
        assert EntityScores(COUNTS, {}, {}) == EntityScores(COUNTS, {}, {}, many_to_many=SIDED)

    def test_pooled_over_clients(self):
        one = EntityScores(COUNTS, COUNTS, {}, many_to_many=SIDED)
        other = EntityScores({}, {}, {}, many_to_many={"PER": SidedCounts(5, 6, 3, 4)})
        together = EntityScores.together({"a": one, "b": other})
        assert together.many_to_many == {"a: PER": SidedCounts(2, 2, 1, 3), "b: PER": SidedCounts(5, 6, 3, 4)}
        assert together.many_to_many_ratios.precision == 7 / 8
        assert together.many_to_many_ratios.recall == 4 / 7
        older = EntityScores(COUNTS, COUNTS, {})
        assert EntityScores.together({"a": one, "b": older}).many_to_many is None


def test_streams_depend_on_name_and_keys_only():
    seeds = Seeds(3)
    seeds.stream("noise", step=1).standard_normal(100)
    again = Seeds(3).stream("noise", step=1).standard_normal(5)
    assert (again == seeds.stream("noise", step=1).standard_normal(5)).all()
    others = [
        Seeds(4).stream("noise", step=1),
        seeds.stream("noise", step=2),
        seeds.stream("sampling", step=1),
        seeds.stream("noise"),
    ]
    assert all((each.standard_normal(5) != again).all() for each in others)


def test_faults_of_system_noise_quote_no_private_value():
    """A fault can name a sampled sentence, the norm of its gradient, or the noise along the sum."""
    faults = (
        "At step 3 the sample lacks sentence 1,017, against the draw of its key (steps with this fault: 2).",
        "A sentence contributed a gradient of norm 3.141, longer than the clip norm 1.5.",
        "At step 12 the noise lies +11.25 standard deviations along the clipped sum.",
        "Of 12,800 draws of noise 91 lie beyond 4.5 standard deviations, where 0 are expected.",
        "The noise on the weights has 3.2e-05 % of the planned standard deviation.",
    )
    public = check(*faults).without_private_values()
    assert len(public.faults) == len(faults)
    assert public.failed
    assert not any(character.isdigit() for fault in public.faults for character in fault)
    assert "the sample lacks sentence …, against the draw" in public.faults[0]
    assert public.without_private_values() == public
