"""Mean and standard deviation over seeds, and the Pareto frontier, against results by hand."""

import math
import statistics
from dataclasses import replace
from operator import itemgetter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.experiments.pareto import pareto_front
from engine.experiments.seed_aggregates import of_runs
from engine.experiments.statistics import score_spread, spread
from engine.records import PrecisionRecallF1, Run, RunState, RunStatus
from tests.engine.factories import SMALL, record, scores


def test_spread_is_the_sample_standard_deviation() -> None:
    found = spread([0.2, 0.4, 0.9])
    assert found.mean == pytest.approx(0.5)
    assert found.sd == pytest.approx(math.sqrt((0.09 + 0.01 + 0.16) / 2))  # ÷ (n - 1), not ÷ n
    assert found.number == 3
    assert found.text == "0.500 ± 0.361"


def test_a_single_seed_has_no_standard_deviation() -> None:
    found = spread([0.25])
    assert (found.mean, found.sd, found.known_sd) == (0.25, 0.0, None)
    assert found.text == "0.250"
    assert spread([0.25, 0.25]).known_sd == 0.0
    assert spread([0.25, 0.25]).text == "0.250 ± 0.000"


def test_spread_of_no_values_is_refused() -> None:
    with pytest.raises(statistics.StatisticsError):
        spread([])


def test_f1_is_averaged_directly() -> None:
    found = score_spread(PrecisionRecallF1(p, r, 2 * p * r / (p + r)) for p, r in ((1.0, 0.25), (0.25, 1.0)))
    assert found.precision.mean == found.recall.mean == 0.625
    assert found.f1.mean == pytest.approx(0.4)  # not 0.625
    assert found.f1.sd == 0.0


SETTINGS = st.lists(st.tuples(st.floats(0, 10), st.floats(0, 1)), max_size=12)


@given(SETTINGS)
def test_pareto_front_has_exactly_the_optimal_items(found: list[tuple[float, float]]) -> None:
    best = pareto_front(found, epsilon=itemgetter(0), f1=itemgetter(1))
    assert best == sorted(best)
    for epsilon, f1 in best:
        assert not any(e <= epsilon and f >= f1 and (e, f) != (epsilon, f1) for e, f in found)
    for epsilon, f1 in set(found) - set(best):
        assert any(e <= epsilon and f >= f1 for e, f in best)


def test_runs_with_a_failed_noise_check_are_excluded_from_means() -> None:
    def done(seed: int, *faults: str) -> Run:
        end = replace(record(2, faults=faults), test=scores(seed + 1))
        config = replace(SMALL, seed=seed)
        status = RunStatus(run_id=f"{seed:016}", state=RunState.DONE)
        return Run(run_id=status.run_id, config=config, status=status, records=(end,))

    both = of_runs([done(0), done(1)])
    assert both == of_runs([done(0), done(1), done(2, "no noise")])
    assert of_runs([done(0), done(2, "no noise")]) is None
