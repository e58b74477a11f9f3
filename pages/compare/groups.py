"""Groups of runs that differ only in their seed, with their curves and rows. Does not use Streamlit or Plotly."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine.config import FLAT, SimulationConfig
from engine.experiments.pareto import pareto_front
from engine.experiments.seed_aggregates import seeds_text
from engine.experiments.statistics import Spread, spread
from engine.records import RoundRecord, Run
from engine.reports.numbers import epsilon_text
from pages.shared import address, metrics, titles

ALONG = {
    "epsilon": "ε spent",
    "step": "optimiser steps",
    "round": "communication rounds",
    "bytes": "MB sent (both directions)",
    "seconds": "seconds",
}
"""Titles of the quantities on the horizontal axis of F1."""


@dataclass(frozen=True)
class Group:
    """Finished runs that differ only in their seed.

    Attributes:
        config: Their configuration, with seed 0.
        runs: The runs with their records, by seed.
    """

    config: SimulationConfig
    runs: tuple[Run, ...]

    @property
    def finals(self) -> list[RoundRecord]:
        """Final record of each run."""
        return [run.final for run in self.runs if run.final]

    @property
    def f1(self) -> Spread:
        """Test F1 over the seeds."""
        return spread(final.test.f1 for final in self.finals if final.test)

    @property
    def epsilon(self) -> float:
        """Largest ε spent over the seeds."""
        return max(final.privacy.epsilon for final in self.finals)


@dataclass(frozen=True)
class Step:
    """A point of a group's curve: the record with the same number of all its runs.

    Attributes:
        x: Mean position on the horizontal axis.
        progress: Progress of the runs, 0 to 1.
        f1: F1 on the validation set, over the seeds.
    """

    x: float
    progress: float
    f1: Spread


def curve(group: Group, along: str) -> list[Step]:
    """Return the curve of a group, up to the shortest of its runs; ``along`` is a key of :data:`ALONG`."""
    steps = []
    for number in range(min(len(run.records) for run in group.runs)):
        records = [run.records[number] for run in group.runs]
        x = statistics.fmean(position(record, along) for record in records)
        steps.append(Step(x, records[0].progress, spread(record.scores.f1 for record in records)))
    return steps


def position(record: RoundRecord, along: str) -> float:
    """Return a record's position on the horizontal axis; ``along`` is a key of :data:`ALONG`."""
    federation = record.federation
    return {
        "epsilon": record.privacy.epsilon,
        "step": float(record.step),
        "round": float(federation.round) if federation else record.progress,
        "bytes": (federation.sent or 0) / 1e6 if federation else 0.0,
        "seconds": record.seconds,
    }[along]


def rows(groups: Sequence[Group]) -> list[dict[str, Any]]:
    """Return a table row for each group: its results, and the fields in which the groups differ."""
    flats = [group.config.flat() for group in groups]
    differing = [name for name in FLAT if len({repr(flat[name]) for flat in flats}) > 1]
    table = []
    for group, flat in zip(groups, flats, strict=True):
        last = group.finals[0]
        sent = (last.federation.sent or 0) / 1e6 if last.federation else 0.0
        row: dict[str, Any] = {
            "F1": group.f1.mean,
            "± sd": group.f1.known_sd,
            metrics.INTERVAL: metrics.interval(*(final.test for final in group.finals if final.test)),
            "ε": epsilon_text(group.epsilon),
        }
        row |= {titles.heading(name): titles.value(name, flat[name]) for name in differing}
        row |= {
            "MB sent": sent,
            "seconds": statistics.fmean(final.seconds for final in group.finals),
            "seeds": seeds_text(group.runs),
            "report": f"./report?run={group.runs[0].run_id}",
            "ε rests on": address.ledger(*group.runs),
        }
        table.append(row)
    return table


def pareto_optimal(groups: Sequence[Group]) -> list[Group]:
    """Return the Pareto-optimal groups: no other has a higher mean F1 at the same or a smaller ε."""
    return pareto_front(groups, epsilon=lambda group: group.epsilon, f1=lambda group: group.f1.mean)
