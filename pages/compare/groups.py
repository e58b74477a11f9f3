"""Runs laid over each other → groups, their curves and rows: no streamlit, no plotly."""

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
    "bytes": "MB sent, both ways",
    "seconds": "seconds",
}
"""What F1 can be drawn against."""


@dataclass(frozen=True)
class Group:
    """Finished runs that differ in their seed alone. config: theirs, with seed 0. runs: with records, by seed."""

    config: SimulationConfig
    runs: tuple[Run, ...]

    @property
    def finals(self) -> list[RoundRecord]:
        """The last record of each."""
        return [run.final for run in self.runs if run.final]

    @property
    def f1(self) -> Spread:
        """Test F1 over the seeds."""
        return spread(final.test.f1 for final in self.finals if final.test)

    @property
    def epsilon(self) -> float:
        """The largest that was spent."""
        return max(final.privacy.epsilon for final in self.finals)


@dataclass(frozen=True)
class Step:
    """One record of all runs of a group. x: where it stands, mean. progress: of the runs, 0 to 1. f1: on the validation
    part."""

    x: float
    progress: float
    f1: Spread


def curve(group: Group, along: str) -> list[Step]:
    """The records that all runs of a group have in common."""
    steps = []
    for number in range(min(len(run.records) for run in group.runs)):
        records = [run.records[number] for run in group.runs]
        x = statistics.fmean(reached(record, along) for record in records)
        steps.append(Step(x, records[0].progress, spread(record.scores.f1 for record in records)))
    return steps


def reached(record: RoundRecord, along: str) -> float:
    """How far a record is along something."""
    federation = record.federation
    return {
        "epsilon": record.privacy.epsilon,
        "step": float(record.step),
        "round": float(federation.round) if federation else record.progress,
        "bytes": (federation.bytes_down + federation.bytes_up) / 1e6 if federation else 0.0,
        "seconds": record.seconds,
    }[along]


def rows(groups: Sequence[Group]) -> list[dict[str, Any]]:
    """What the groups gave, and the fields in which they differ."""
    flats = [group.config.flat() for group in groups]
    differing = [name for name in FLAT if len({repr(flat[name]) for flat in flats}) > 1]
    shown = []
    for group, flat in zip(groups, flats, strict=True):
        last = group.finals[0]
        sent = (last.federation.bytes_down + last.federation.bytes_up) / 1e6 if last.federation else 0.0
        line: dict[str, Any] = {
            "F1": group.f1.mean,
            "± sd": group.f1.known_sd,
            metrics.INTERVAL: metrics.interval(*(final.test for final in group.finals if final.test)),
            "ε": epsilon_text(group.epsilon),
        }
        line |= {titles.heading(name): titles.value(name, flat[name]) for name in differing}
        line |= {
            "MB sent": sent,
            "seconds": statistics.fmean(final.seconds for final in group.finals),
            "seeds": seeds_text(group.runs),
            "report": f"./report?run={group.runs[0].run_id}",
            "ε rests on": address.ledger(*group.runs),
        }
        shown.append(line)
    return shown


def unbeaten(groups: Sequence[Group]) -> list[Group]:
    """The Pareto frontier: none of the others has a higher mean F1 at the same or a smaller ε."""
    return pareto_front(groups, epsilon=lambda group: group.epsilon, f1=lambda group: group.f1.mean)
