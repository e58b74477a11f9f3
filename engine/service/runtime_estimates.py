"""How long a run may take, judged by runs that were computed: those of this machine before all others."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engine.config import SimulationConfig
from engine.hardware import machine_class
from engine.records import Run
from engine.taggers import KINDS

RECENT = 10
"""How many of the newest runs are looked at: a machine may have become busier, or the program quicker."""
_SCORED = 0.3
"""About so much of a run's time is scoring, which does not depend on how long it trains."""


@dataclass(frozen=True)
class Estimate:
    """Seconds that a run may take: the median of what it is judged by, the shortest and the longest. machine: where all
    of these were computed, None if that is here."""

    seconds: float
    least: float
    most: float
    machine: str | None = None


def estimate(config: SimulationConfig, sentences: int, own: Iterable[Run], published: Iterable[Run]) -> Estimate | None:
    """Of a run on so many training sentences; None if no run with a tagger of this size is known.

    own: those that were computed for this store, by which it is judged where there are some; else by published runs of
    this kind of machine, else by those of others. In each case runs on the same corpus count before all others, and the
    ``RECENT`` newest of them alone.
    """
    here = machine_class()
    own, published = _alike(config, own), _alike(config, published)
    for known, machine in (
        ([run for run in own if _machine(run) == here], None),
        ([run for run in published if _machine(run) == here], None),
        ([*own, *published], "another machine"),
    ):
        if known:
            same = [run for run in known if run.config.corpus == config.corpus]
            judged = [_scaled(run, config, sentences) for run in _newest(same or known)]
            return Estimate(statistics.median(judged), min(judged), max(judged), machine and _machine(known[0]))
    return None


def _alike(config: SimulationConfig, known: Iterable[Run]) -> list[Run]:
    return [run for run in known if run.provenance and _layers(run.config) == _layers(config)]


def _machine(run: Run) -> str:
    return run.provenance.machine if run.provenance else ""


def _newest(known: Sequence[Run]) -> list[Run]:
    return sorted(known, key=lambda run: run.provenance.created if run.provenance else "", reverse=True)[:RECENT]


def _scaled(run: Run, config: SimulationConfig, sentences: int) -> float:
    """What a run took, for as much training as is asked for."""
    if run.provenance is None:
        raise ValueError(f"run {run.run_id} is not done")
    work = _work(config, sentences) / _work(run.config, run.provenance.train_sentences)
    return run.provenance.wall_seconds * (_SCORED + (1 - _SCORED) * work)


def _layers(config: SimulationConfig) -> tuple[object, ...]:
    """What decides how long a sentence takes."""
    tagger = config.tagger
    return config.features, KINDS[tagger.name].family, tagger.hidden_size, tagger.window


def _work(config: SimulationConfig, sentences: int) -> float:
    """Sentences that a run learns from, with repeats."""
    federation = config.federation
    share = (federation.participants or federation.clients) / federation.clients
    rounds = federation.rounds if federation.schedule == "averaging" else 1
    return max(1.0, config.training.epochs * sentences * rounds * share)
