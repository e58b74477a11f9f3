"""The planner against brute force, an independent isotonic regression, and simulations with known truth."""

import math
import statistics
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as trials
from hypothesis import strategies as st
from scipy import stats

from engine.config import SimulationConfig
from engine.config.mechanism_registry import ADD_OR_REMOVE, ZERO_OUT
from engine.errors import InvalidConfig
from engine.experiments.planner import evidence as known
from engine.experiments.planner.curve import Curve, Point, families, fit, fit_error, highest, two_digits_up
from engine.experiments.planner.evidence import Evidence
from engine.experiments.planner.next_runs import (
    AT_LIMIT,
    BEYOND,
    FROM_CURVE,
    MORE_SEEDS,
    candidates,
    seeds_needed,
)
from engine.experiments.planner.ranking import EvidenceLevel, Ranking, answer, two_digits
from engine.experiments.planner.targets import Measure, Target, Threshold, read
from engine.records import (
    Counts,
    EntityScores,
    NoiseCheck,
    PlatformRecord,
    RoundRecord,
    Run,
    RunKind,
    RunState,
    RunStatus,
)
from tests.engine.factories import check, provenance, record

NAMES = 1000
"""Entities of each type in made-up test sets. As many are predicted, so precision, recall and F1 are equal."""


def scored(per: float, loc: float) -> EntityScores:
    counts = {kind: Counts(round(NAMES * value), NAMES, NAMES) for kind, value in (("PER", per), ("LOC", loc))}
    return EntityScores(strict=counts, relaxed=counts, token={})


def made(
    per: float,
    loc: float | None = None,
    *,
    epsilon: float = 1.0,
    seconds: float = 10.0,
    seed: int = 0,
    checksum: str = "0" * 64,
    noise_check: NoiseCheck | None = None,
    delta: float = 1e-5,
    **fields: object,
) -> tuple[Run, RoundRecord]:
    """Return a finished run and its last record, with a given ε and σ = 1 ÷ ε by default."""
    private = not math.isinf(epsilon)
    fields = {"noise_multiplier": 1 / epsilon if private else 0.0, "delta": delta, "seed": seed} | fields
    config = SimulationConfig.from_flat(fields)
    last = record(2)
    last = replace(
        last,
        privacy=replace(
            last.privacy,
            epsilon=epsilon,
            delta=delta,
            neighbouring=ZERO_OUT if config.moves_sentences else ADD_OR_REMOVE,
        ),
        test=scored(per, per if loc is None else loc),
        noise_check=(noise_check or check()) if config.privacy.private else None,
    )
    made = replace(provenance(checksum), wall_seconds=seconds, train_sentences=4400)
    identity = f"{abs(hash((config, checksum))):016x}"[:16]
    status = RunStatus(run_id=identity, state=RunState.DONE)
    return Run(run_id=identity, config=config, status=status, records=(last,), provenance=made), last


def target(**fields: object) -> Target:
    return Target(**({"corpus": "synthetic"} | fields))


def f1(at_least: float) -> tuple[Threshold, ...]:
    return (Threshold(Measure(), at_least),)


def evidence(found: list[tuple[Run, RoundRecord]], wanted: Target) -> Evidence:
    return known.evidence(known.done(found, wanted.corpus), wanted)


def answered(found: list[tuple[Run, RoundRecord]], **fields: object) -> Ranking:
    wanted = target(**fields)
    return answer(wanted, evidence(found, wanted))


# Brute force


VALUE = st.integers(300, 700).map(lambda each: each / NAMES)
SETTING = st.tuples(
    st.sampled_from((0.5, 1.0, 2.0, 4.0, math.inf)),
    st.integers(1, 60),
    st.lists(st.tuples(VALUE, VALUE), min_size=1, max_size=4),
)


def grade_by_hand(values: list[float], at_least: float) -> EvidenceLevel:
    """Return the evidence level by SciPy's interval."""
    mean = statistics.fmean(values)
    if len(values) == 1:
        return EvidenceLevel.SINGLE_RUN if mean >= at_least else EvidenceLevel.BELOW
    error = statistics.stdev(values) / math.sqrt(len(values))
    low, high = stats.t.interval(0.95, len(values) - 1, mean, error) if error else (mean, mean)
    if mean >= at_least:
        return EvidenceLevel.SIGNIFICANT if low >= at_least else EvidenceLevel.MEAN_ABOVE
    return EvidenceLevel.POSSIBLE if high >= at_least else EvidenceLevel.BELOW


@trials(max_examples=60, deadline=None)
@given(
    st.lists(SETTING, max_size=9),
    st.floats(0.3, 0.7),
    st.floats(0.3, 0.7),
    st.sampled_from((None, 1.0, 2.0)),
    st.sampled_from((None, 20.0)),
)
def test_answer_equals_a_brute_force_filter(drawn, per, every, epsilon, seconds) -> None:
    found, by_hand = [], {}
    for number, (spent, took, scores) in enumerate(drawn):
        for seed, (one, other) in enumerate(scores):
            found.append(made(one, other, epsilon=spent, seconds=took, seed=seed, epochs=1.0 + number))
        grades = (
            grade_by_hand([(one + other) / 2 for one, other in scores], every),
            grade_by_hand([one for one, _ in scores], per),
        )
        mine = (two_digits(spent), two_digits(took), min(grades))
        if (
            spent < math.inf
            and min(grades) >= EvidenceLevel.SINGLE_RUN
            and spent <= (epsilon or 9)
            and took <= (seconds or 99)
        ):
            by_hand[1.0 + number] = mine
    wanted = (Threshold(Measure(), every), Threshold(Measure("recall", "PER"), per))
    said = answered(found, thresholds=wanted, epsilon=epsilon, seconds=seconds)
    assert said.reached == len(by_hand)
    unbeaten = {
        mine
        for mine in by_hand.values()
        if not any(o != mine and o[0] <= mine[0] and o[1] <= mine[1] and o[2] >= mine[2] for o in by_hand.values())
    }
    prices = [(two_digits(each.setting.epsilon), two_digits(each.setting.seconds), each.grade) for each in said.best]
    assert sorted(prices) == sorted(unbeaten)
    assert all(each.setting.config.training.epochs in by_hand for each in said.best)
    assert [each.setting.epsilon for each in said.best] == sorted(each.setting.epsilon for each in said.best)
    assert (said.nearest is None) == (bool(by_hand) or not said.within)


def test_evidence_levels() -> None:
    found = [made(value, epsilon=1.0, seed=seed) for seed, value in enumerate((0.79, 0.81, 0.82))]
    for at_least, grade in (
        (0.70, EvidenceLevel.SIGNIFICANT),
        (0.80, EvidenceLevel.MEAN_ABOVE),
        (0.81, EvidenceLevel.POSSIBLE),
        (0.90, EvidenceLevel.BELOW),
    ):
        (judged,) = answered(found, thresholds=f1(at_least)).compared
        assert judged.grade == grade
    assert answered(found[:1], thresholds=f1(0.79)).best[0].grade == EvidenceLevel.SINGLE_RUN
    (judged,) = answered(found, thresholds=f1(0.81)).compared
    assert judged.hits == 2
    assert judged.margin == pytest.approx((0.79 + 0.81 + 0.82) / 3 - 0.81)


def test_answer_without_thresholds_ranks_by_score_within_limits() -> None:
    found = [
        made(0.8, epsilon=2.0, seconds=50),
        made(0.7, epsilon=1.0, seconds=5),
        made(0.6, epsilon=1.5, seconds=9),  # slower and worse than the one before
        made(0.9, epsilon=4.0, seconds=1),
    ]
    said = answered(found, epsilon=3.0)
    assert [each.setting.epsilon for each in said.best] == [2.0, 1.0]
    assert [each.setting.epsilon for each in answered(found, seconds=9.0).best] == [4.0, 1.0]


# Compared runs


def test_runs_with_other_guarantees_are_left_out_and_counted() -> None:
    found = [
        made(0.8, epsilon=1.0),
        made(0.9, epsilon=1.0, epochs=2.0, noise_check=check("The noise is not there.")),
        made(0.9, epsilon=1.0, epochs=3.0, noise_check=check(noise_std=None)),
        made(0.9, epsilon=1.0, clients=3, mechanism="local"),
        made(0.9, epsilon=1.0, sampling="shuffle"),
        made(0.9, epsilon=1.0, delta=1e-6),
        made(0.9, epsilon=math.inf, noise_multiplier=1.0),
        made(0.95, epsilon=math.inf),
        made(0.9, epsilon=1.0, corpus="conll2003"),
    ]
    wanted = target(thresholds=f1(0.5))
    done = known.done([*found, made(0.9, epsilon=1.0, epochs=4.0, checksum="1" * 64)], "synthetic")
    said = known.evidence(done, wanted, "0" * 64)
    assert {each.private for each in said.settings} == {True, False}
    assert said.runs == 2
    assert said.left_out == dict.fromkeys(
        (
            known.FAILED,
            known.UNMEASURED,
            known.WHOLE_CLIENTS,
            known.SHUFFLED,
            known.OTHER_DELTA,
            known.FITTED,
            known.OTHER_CONTENT,
        ),
        1,
    )
    other = known.evidence(done, replace(wanted, delta=1e-6), "0" * 64)
    assert other.left_out[known.OTHER_DELTA] == 1
    assert known.deltas(done)[0] == 1e-5
    assert known.evidence(done, replace(wanted, clients=7), "0" * 64).left_out[known.OTHER_CLIENTS] == 8


def test_without_the_corpus_the_most_common_content_counts() -> None:
    found = [made(0.5, seed=seed, checksum="1" * 64) for seed in range(2)] + [made(0.9, seed=5)]
    said = evidence(found, target(thresholds=f1(0.4)))
    assert (said.runs, said.left_out) == (2, {known.OTHER_CONTENT: 1})


def test_a_seed_counts_once_with_the_newest_engine() -> None:
    first, last = made(0.5)
    older = replace(first, provenance=replace(first.provenance, engine_version="5"), run_id="older")
    today = replace(first, provenance=replace(first.provenance, engine_version="6"), run_id="today")
    said = evidence([(older, last), (today, last)], target(thresholds=f1(0.4)))
    assert [each.run.run_id for each in said.settings[0].done] == ["today"]
    assert said.left_out == {known.TWICE: 1}
    repeat = replace(first, kind=RunKind.REPEAT)
    assert known.done([(repeat, last)], "synthetic") == []


def test_an_unknown_entity_type_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidConfig, match=r"type='DRUG',.*: LOC, PER"):
        answered([made(0.5)], thresholds=(Threshold(Measure("recall", "DRUG"), 0.5),))


def test_a_measure_may_name_a_silo() -> None:
    run, last = made(0.5)
    platform = PlatformRecord(name="ade", privacy=last.privacy, scores=last.scores, test=scored(0.7, 0.3))
    said = answered(
        [(run, replace(last, platforms=(platform,)))], thresholds=(Threshold(Measure("recall", "ade"), 0.45),)
    )
    assert said.best[0].readings[0].spread.mean == pytest.approx(0.5)


def test_answers_without_runs_with_one_run_and_without_noise() -> None:
    none = answered([], thresholds=f1(0.5))
    assert (none.best, none.nearest, none.ceiling) == ((), None, None)
    one = answered([made(0.4)], thresholds=f1(0.5))
    assert one.nearest is not None
    assert one.nearest.margin == pytest.approx(-0.1)
    plain = answered([made(0.6, epsilon=math.inf), made(0.4, epsilon=math.inf, epochs=2.0)], thresholds=f1(0.5))
    assert (plain.best, plain.nearest) == ((), None)
    assert plain.ceiling is not None
    assert plain.ceiling.margin == pytest.approx(0.1)
    assert fit_error([]) is None
    assert highest([], 4) == []


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({}, "the target is empty"),
        ({"epsilon": 0.0}, "epsilon=0.0"),
        ({"seconds": math.nan}, "seconds=nan"),
        ({"thresholds": f1(0.5) * 2}, "given twice"),
        ({"epsilon": 1.0, "clients": 0}, "clients=0"),
        ({"epsilon": 1.0, "delta": 1.0}, "delta=1.0"),
    ],
)
def test_an_invalid_target_is_refused_with_its_value(fields, word) -> None:
    with pytest.raises(InvalidConfig, match=word):
        target(**fields)


def test_read_parses_thresholds_of_the_command_line() -> None:
    assert read(["0.8", "PER=0.9"], "recall") == [
        Threshold(Measure("recall"), 0.8),
        Threshold(Measure("recall", "PER"), 0.9),
    ]
    for text in ("high", "PER=", "=0.5", "1.5", "nan", "PER=-1"):
        with pytest.raises(InvalidConfig, match="recall"):
            read([text], "recall")


# The curve


def isotonic(values: list[float], weights: list[float]) -> list[float]:
    """Return the fit by the min-max formula (Barlow et al. 1972, theorem 1.4), which does no pooling."""

    def mean(first: int, last: int) -> float:
        part = slice(first, last + 1)
        return float(np.average(values[part], weights=weights[part]))

    number = range(len(values))
    return [max(min(mean(a, b) for b in number[i:]) for a in number[: i + 1]) for i in number]


@given(st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=5), min_size=1, max_size=8))
def test_fit_equals_the_isotonic_regression(values) -> None:
    curve = fit([Point(2.0**position, tuple(each)) for position, each in enumerate(values)])
    wanted = isotonic([statistics.fmean(each) for each in values], [float(len(each)) for each in values])
    assert curve.fitted == pytest.approx(wanted, abs=1e-9)


def test_fit_interpolates_in_log_epsilon_and_does_not_extrapolate() -> None:
    curve = Curve((1.0, 4.0), (0.4, 0.8), ())
    assert curve.at(2.0) == pytest.approx(0.6)
    assert curve.at(0.9) is None
    assert curve.at(4.1) is None
    assert curve.crossing(0.6) == pytest.approx(2.0)
    assert (curve.crossing(0.3), curve.crossing(0.8), curve.crossing(0.9)) == (1.0, 4.0, None)
    assert [two_digits_up(each) for each in (2.0, 2.01, 0.1234, 14.0001, 3.7)] == [2.0, 2.1, 0.13, 15.0, 3.7]


def truth(epsilon: float) -> float:
    """Return a made-up score that rises with ε."""
    return 0.9 / (1 + math.exp(-1.2 * (math.log(epsilon) + 1)))


EPSILONS = (0.1, 0.3, 1.0, 3.0, 8.0)


def draw(random: np.random.Generator, seeds: int, sd: float = 0.02) -> list[Point]:
    return [Point(epsilon, tuple(truth(epsilon) + sd * random.standard_normal(seeds))) for epsilon in EPSILONS]


def bootstrap_covers(points: list[Point], random: np.random.Generator) -> bool:
    """Return whether percentile intervals of resampled means, with the same correction, cover the truth."""
    tail = 100 * 0.025 / len(points)
    for each in points:
        means = np.mean(random.choice(each.values, (1000, len(each.values))), axis=1)
        low, high = np.percentile(means, [tail, 100 - tail])
        if not low <= truth(each.epsilon) <= high:
            return False
    return True


def test_band_covers_the_curve_at_its_rate_unlike_a_bootstrap() -> None:
    """A rate of 95 % in 600 simulations has a standard error of 0.9 points; Bonferroni's is slightly higher."""
    random, grid = np.random.default_rng(5), np.geomspace(0.05, 20, 40)
    covered = resampled = 0
    for _ in range(600):
        points = draw(random, 5)
        curve = fit(points)
        within = [(curve.interval_at(float(epsilon)), truth(float(epsilon))) for epsilon in grid]
        at_points = [(curve.interval_at(epsilon), truth(epsilon)) for epsilon in EPSILONS]
        covered += all(band and band.low <= value <= band.high for band, value in (*within, *at_points))
        resampled += bootstrap_covers(points, random)
    assert 0.925 <= covered / 600 <= 0.99
    assert resampled / 600 < 0.75


def test_band_is_absent_for_single_runs_and_widens_for_contradictions() -> None:
    single = [Point(1.0, (0.5,)), Point(2.0, (0.6,))]
    assert fit(single).interval_at(1.5) is None
    mixed = fit([Point(1.0, (0.50, 0.51, 0.52)), *single[1:], Point(4.0, (0.70, 0.71, 0.72))])
    band = mixed.interval_at(2.0)
    assert band is not None
    assert band.low < 0.51 < 0.71 < band.high
    falling = fit([Point(1.0, (0.80, 0.801, 0.802)), Point(2.0, (0.20, 0.201, 0.202))])
    assert all(each.low <= each.high for _, each in falling.band)
    assert falling.band[0][1].low > falling.band[1][1].high


@pytest.mark.repeats
def test_fit_error_equals_the_error_of_predicting_new_means() -> None:
    """The reference is the error of predicting new means at inner points from curves through the other points."""
    random = np.random.default_rng(3)
    said, true = [], []
    for _ in range(400):
        points = draw(random, 5, 0.03)
        found = fit_error([points])
        assert found is not None
        assert found.number == 3
        said.append(found.typical**2)
        for position in (1, 2, 3):
            rest = fit(points[:position] + points[position + 1 :]).at(points[position].epsilon)
            fresh = truth(points[position].epsilon) + 0.03 * random.standard_normal(5).mean()
            true.append((rest - fresh) ** 2)
    assert math.sqrt(statistics.fmean(said)) == pytest.approx(math.sqrt(statistics.fmean(true)), rel=0.1)


def test_families_differ_in_noise_only() -> None:
    found = [made(truth(epsilon), epsilon=epsilon, seed=seed) for epsilon in (1.0, 2.0) for seed in range(2)]
    found += [made(0.3, epsilon=1.0, epochs=3.0), made(0.9, epsilon=math.inf)]
    lines = families(evidence(found, target(thresholds=f1(0.5))).settings)
    assert [[each.epsilon for each in family.private] for family in lines] == [[1.0, 2.0], [1.0]]
    points = lines[0].points(Measure())
    assert [len(each.values) for each in points] == [2, 2]
    highest_families = highest([(family, fit(family.points(Measure()))) for family in lines], 4)
    assert [len(family.private) for family, _ in highest_families] == [2]


# Next runs


def rules(found: list[tuple[Run, RoundRecord]], **fields: object) -> dict[str, float]:
    wanted = target(**fields)
    said = evidence(found, wanted)
    return {
        each.rule: each.epsilon for each in candidates(answer(wanted, said), families(said.settings), said.settings)
    }


LINE = [made(value, epsilon=epsilon) for epsilon, value in ((1.0, 0.4), (4.0, 0.8))]


def test_candidate_from_the_curve() -> None:
    assert rules(LINE, thresholds=f1(0.6), epsilon=3.0) == {FROM_CURVE: 2.0}
    assert rules(LINE, thresholds=f1(0.6), epsilon=1.5) == {AT_LIMIT: 1.5}


def test_candidate_beyond_the_curve_needs_better_runs_without_noise() -> None:
    assert rules(LINE, thresholds=f1(0.85)) == {}
    room, no_room = made(0.9, epsilon=math.inf), made(0.84, epsilon=math.inf)
    assert rules([*LINE, room], thresholds=f1(0.85)) == {BEYOND: 8.0}
    assert rules([*LINE, no_room], thresholds=f1(0.85)) == {}
    other = made(0.9, epsilon=math.inf, tagger="bilstm-crf")
    assert rules([*LINE, other], thresholds=f1(0.85)) == {}
    assert rules([*LINE, room], thresholds=f1(0.85), epsilon=6.0) == {BEYOND: 6.0}


def test_candidate_at_the_limit_without_measured_points() -> None:
    assert rules(LINE, thresholds=f1(0.35), epsilon=0.5) == {AT_LIMIT: 0.5}
    assert rules(LINE, thresholds=f1(0.85), epsilon=0.5) == {}
    assert rules(LINE, thresholds=f1(0.75), epsilon=2.0) == {AT_LIMIT: 2.0}


def test_candidate_with_more_seeds_for_an_undecided_setting() -> None:
    open_one = [made(value, epsilon=1.0, seed=seed) for seed, value in enumerate((0.52, 0.54, 0.56))]
    wanted = target(thresholds=f1(0.525))
    said = evidence(open_one, wanted)
    (found,) = candidates(answer(wanted, said), [], said.settings)
    assert found.rule == MORE_SEEDS
    assert found.config.seed == 3
    values = [0.52, 0.54, 0.56]
    need = next(n for n in range(4, 100) if stats.t.ppf(0.975, n - 1) * 0.02 / math.sqrt(n) <= 0.015)
    assert seeds_needed(values, 0.525) == need
    assert found.runs == need - 3
    assert seeds_needed([0.5, 0.6], 0.55) is None
    assert seeds_needed([0.5], 0.4) == 5
    sure = [made(value, epsilon=1.0, seed=seed) for seed, value in enumerate((0.80, 0.81, 0.82))]
    assert rules(sure, thresholds=f1(0.5)) == {}
    assert rules(LINE, epsilon=1.0) == {}
