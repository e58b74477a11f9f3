"""Estimates of a run's duration from finished runs, with priority for those of this machine."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engine.config import SimulationConfig
from engine.hardware import machine_class
from engine.records import Run
from engine.taggers import KINDS

RECENT = 10
"""Number of newest runs used: the load of a machine and the speed of the program change."""
_SCORED = 0.3
"""Approximate share of a run's time for scoring, which does not depend on the amount of training."""


@dataclass(frozen=True)
class Estimate:
    """Estimated duration of a run, from comparable finished runs.

    Attributes:
        seconds: Median in seconds.
        least: Shortest in seconds.
        most: Longest in seconds.
        machine: Machine of the finished runs; None if it is this one.
    """

    seconds: float
    least: float
    most: float
    machine: str | None = None


def estimate(config: SimulationConfig, sentences: int, own: Iterable[Run], published: Iterable[Run]) -> Estimate | None:
    """Return the estimated duration of a run; None if there is no run with a tagger of this size.

    Runs of this store on this kind of machine have priority, then published runs of this kind of machine, then all
    others. In each case runs on the same corpus have priority, and only the ``RECENT`` newest are used.

    Args:
        config: Configuration of the run.
        sentences: Number of its training sentences.
        own: Finished runs of this store.
        published: Published runs.
    """
    this_machine = machine_class()
    own, published = _alike(config, own), _alike(config, published)
    for runs, machine in (
        ([run for run in own if _machine(run) == this_machine], None),
        ([run for run in published if _machine(run) == this_machine], None),
        ([*own, *published], "another machine"),
    ):
        if runs:
            same = [run for run in runs if run.config.corpus == config.corpus]
            durations = [_scaled(run, config, sentences) for run in _newest(same or runs)]
            return Estimate(statistics.median(durations), min(durations), max(durations), machine and _machine(runs[0]))
    return None


def _alike(config: SimulationConfig, runs: Iterable[Run]) -> list[Run]:
    return [run for run in runs if run.provenance and _layers(run.config) == _layers(config)]


def _machine(run: Run) -> str:
    return run.provenance.machine if run.provenance else ""


def _newest(runs: Sequence[Run]) -> list[Run]:
    return sorted(runs, key=lambda run: run.provenance.created if run.provenance else "", reverse=True)[:RECENT]


def _scaled(run: Run, config: SimulationConfig, sentences: int) -> float:
    """Return the duration of a finished run in seconds, scaled to the requested amount of training."""
    if run.provenance is None:
        raise ValueError(f"run {run.run_id} is not done")
    work = _work(config, sentences) / _work(run.config, run.provenance.train_sentences)
    return run.provenance.wall_seconds * (_SCORED + (1 - _SCORED) * work)


def _layers(config: SimulationConfig) -> tuple[object, ...]:
    """Return the settings that determine the time per sentence."""
    tagger = config.tagger
    return config.features, KINDS[tagger.name].family, tagger.hidden_size, tagger.window


def _work(config: SimulationConfig, sentences: int) -> float:
    """Return the number of training sentences of a run, counted once per pass."""
    federation = config.federation
    share = (federation.participants or federation.clients) / federation.clients
    rounds = federation.rounds if federation.schedule == "averaging" else 1
    return max(1.0, config.training.epochs * sentences * rounds * share)
