"""Runtime estimates from made-up runs with known times."""

import dataclasses
import itertools

import pytest

from engine.hardware import machine_class
from engine.records import Run, RunState, RunStatus
from engine.service.runtime_estimates import RECENT, Estimate, estimate
from tests.engine.factories import SMALL, provenance

NUMBER = itertools.count()


def run(seconds: float, *, machine: str | None = None, day: int = 1, sentences: int = 100, **changes: object) -> Run:
    made = dataclasses.replace(
        provenance(),
        machine=machine or machine_class(),
        wall_seconds=seconds,
        train_sentences=sentences,
        created=f"2026-11-{day:02}T10:00:00+00:00",
    )
    name = f"{next(NUMBER):016}"
    status = RunStatus(run_id=name, state=RunState.DONE)
    config = dataclasses.replace(SMALL, **changes)
    return Run(run_id=name, config=config, status=status, records=(), provenance=made)


def test_other_taggers_give_no_estimate() -> None:
    other = dataclasses.replace(SMALL.tagger, hidden_size=SMALL.tagger.hidden_size + 1)
    assert estimate(SMALL, 100, [run(9.0, tagger=other), run(9.0, features="shapes")], []) is None


def test_estimate_is_median_with_range_of_own_runs() -> None:
    own = [run(seconds) for seconds in (10.0, 123.0, 40.0)]
    assert estimate(SMALL, 100, own, [run(1.0), run(2.0, machine="elsewhere")]) == Estimate(40.0, 10.0, 123.0)


def test_recent_runs_determine_the_estimate() -> None:
    quick = [run(11.0, day=1) for _ in range(50)]
    slow = [run(123.0, day=2) for _ in range(RECENT)]
    assert estimate(SMALL, 100, [*slow, *quick], []) == Estimate(123.0, 123.0, 123.0)
    assert estimate(SMALL, 100, [*slow[:6], *quick], []).seconds == 123.0


def test_estimate_scales_training_but_not_scoring() -> None:
    found = estimate(SMALL, 300, [run(10.0, sentences=100)], [])
    assert found.seconds == pytest.approx(10 * (0.3 + 0.7 * 3))
    longer = dataclasses.replace(SMALL.training, epochs=2 * SMALL.training.epochs)
    twice = estimate(dataclasses.replace(SMALL, training=longer), 100, [run(10.0)], [])
    assert twice.seconds == pytest.approx(17.0)


def test_same_corpus_then_same_machine_have_priority() -> None:
    own = [run(70.0, corpus="other"), run(9.0)]
    assert estimate(SMALL, 100, own, []).seconds == 9.0
    assert estimate(SMALL, 100, own[:1], []).seconds == 70.0
    here, there = run(5.0), run(3.0, machine="a Xeon, 64 cores")
    assert estimate(SMALL, 100, [], [here, there]) == Estimate(5.0, 5.0, 5.0)
    assert estimate(SMALL, 100, [], [there]) == Estimate(3.0, 3.0, 3.0, "a Xeon, 64 cores")
