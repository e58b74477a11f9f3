"""Pareto frontier of finished runs, as table rows and a sentence. Without Streamlit and Plotly."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine.config import SimulationConfig, with_noise
from engine.experiments.papers import jana_biemann_2021
from engine.experiments.papers.jana_biemann_2021 import Row
from engine.experiments.pareto import pareto_front
from engine.experiments.seed_aggregates import seeds_text
from engine.experiments.statistics import Spread, spread
from engine.experiments.token_f1 import published_metric
from engine.records import EntityScores
from engine.reports.numbers import epsilon_text
from engine.service import Overview
from pages.shared import address, metrics, titles
from pages.shared.group_by_config import configurations

ALL = "all types"
"""Option for the entities of all types."""


@dataclass(frozen=True)
class Setting:
    """Runs of one configuration that differ in their seed alone.

    Attributes:
        config: The configuration, with seed 0.
        epsilon: The largest ε spent by one of the runs.
        f1: F1 over the seeds.
        interval: 95 % confidence interval, empty unless F1 is the entity-level one of all types.
        seeds_text: The number of runs, with those of an older engine marked.
        ledger: Link to the assumptions of their ε.
    """

    config: SimulationConfig
    epsilon: float
    f1: Spread
    interval: str
    seeds_text: str
    ledger: str | None = None

    @property
    def private(self) -> bool:
        """Whether the runs have a finite ε."""
        return not math.isinf(self.epsilon)


def f1_of(scores: EntityScores, metric: str, kind: str) -> float:
    """Return the entity-level F1 of a type or of all types, or F1 in the paper's token-level metric."""
    if metric == "published":
        return published_metric(scores).f1
    if kind == ALL:
        return scores.f1
    return scores.strict[kind].ratios.f1 if kind in scores.strict else 0.0


def settings(overviews: Sequence[Overview], corpus: str, metric: str, kind: str) -> list[Setting]:
    """Return the configurations of finished runs on a corpus with sentence-level privacy and Poisson sampling.

    Other privacy units and samplings are left out, because their ε cannot be compared. Runs whose noise check failed
    are left out too.

    Args:
        overviews: The finished runs.
        corpus: Name of the corpus.
        metric: A key of :data:`pages.shared.metrics.METRICS`.
        kind: An entity type, or :data:`ALL`.
    """
    comparable = [item for item in overviews if item.run.config.corpus == corpus and _comparable(item.run.config)]
    by_id = {item.run.run_id: item for item in comparable}
    result = []
    for config, by_seed in configurations(comparable).items():
        tested = [item for run_id in by_seed.values() if (item := by_id[run_id]).last_record and item.last_record.test]
        lasts = [item.last_record for item in tested if item.last_record]
        scores = [f1_of(last.test, metric, kind) for last in lasts if last.test]
        if scores:
            epsilon = max(last.privacy.epsilon for last in lasts)
            headline = metric != "published" and kind == ALL
            interval = metrics.interval(*(last.test for last in lasts if last.test and headline))
            runs = [item.run for item in tested]
            result.append(Setting(config, epsilon, spread(scores), interval, seeds_text(runs), address.ledger(*runs)))
    return result


def _comparable(config: SimulationConfig) -> bool:
    return not config.privacy.kind.client_level and config.privacy.sampling == "poisson"


def best(candidates: Sequence[Setting], clients: int | None = None) -> list[Setting]:
    """Return the Pareto-optimal private configurations in the order of ε: none has a higher F1 at the same ε or less.

    Args:
        candidates: The configurations to choose from.
        clients: Number of clients of those to compare; None compares all.
    """
    compared = [
        setting for setting in candidates if setting.private and clients in (None, setting.config.federation.clients)
    ]
    return pareto_front(compared, epsilon=lambda setting: setting.epsilon, f1=lambda setting: setting.f1.mean)


def ceiling(candidates: Sequence[Setting], frontier: Sequence[Setting]) -> Setting | None:
    """Return the non-private twin of the best private configuration, or else the best non-private one."""
    not_private = {setting.config: setting for setting in candidates if not setting.private}
    if frontier and (twin := not_private.get(with_noise(frontier[-1].config, 0.0))):
        return twin
    return max(not_private.values(), key=lambda setting: setting.f1.mean, default=None)


def reported(measured: Sequence[Row]) -> list[tuple[float, float, str]]:
    """Return the paper's private rows: ε that we recomputed, reported F1, title; without those of unknown ε."""
    return [
        (epsilon, row.cell.published["f1"], jana_biemann_2021.setting_text(row.cell))
        for row in measured
        if (epsilon := row.found.epsilon) is not None and not math.isinf(epsilon)
    ]


def rows(frontier: Sequence[Setting], top: Setting | None) -> list[dict[str, Any]]:
    """Return the frontier as table rows, followed by the non-private configuration."""
    near = [epsilon_text(setting.epsilon) for setting in frontier]
    return [
        {
            "ε": _text(setting.epsilon, near),
            "F1": setting.f1.mean,
            "± sd": setting.f1.known_sd,
            metrics.INTERVAL: setting.interval,
            "seeds": setting.seeds_text,
            "run": address.link(setting.config),
            "ε rests on": setting.ledger,
            "setting": titles.setting(setting.config, with_corpus=False),
        }
        for setting in (*frontier, *([top] if top else []))
    ]


def _text(epsilon: float, near: Sequence[str]) -> str:
    """Return an ε, rounded up, with more digits if another row (``near``) has the same text."""
    text = epsilon_text(epsilon)
    return f"{math.ceil(epsilon * 1e4) / 1e4:.4f}" if near.count(text) > 1 else text


def answer(frontier: Sequence[Setting], top: Setting | None) -> str:
    """Return the frontier as a sentence."""
    if not frontier:
        return "No private run is finished on this corpus yet."
    last = frontier[-1]
    text = f"Highest measured F1: {last.f1.mean:.2f} at ε = {epsilon_text(last.epsilon)}"
    small = [setting for setting in frontier if setting.epsilon <= 1.0]
    if small and small[-1] is not last:
        text += f", {small[-1].f1.mean:.2f} at ε = {epsilon_text(small[-1].epsilon)}"
    return text + (f"; without noise {top.f1.mean:.2f}." if top else ".")
