"""Finished runs → the best F1 that is known for each ε, as rows and a sentence: no streamlit, no plotly."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine.config import SimulationConfig, with_noise
from engine.experiments.papers import jana_biemann_2021
from engine.experiments.papers.jana_biemann_2021 import Row
from engine.experiments.pareto import pareto_front as unbeaten
from engine.experiments.seed_aggregates import seeds_text
from engine.experiments.statistics import Spread, spread
from engine.experiments.token_f1 import published_metric
from engine.records import EntityScores
from engine.reports.numbers import epsilon_text
from engine.service import Overview
from pages.shared import address, metrics, titles
from pages.shared.group_by_config import configurations

ALL = "all names"


@dataclass(frozen=True)
class Setting:
    """Runs that differ in their seed alone. epsilon: the largest spent. f1: over the seeds. interval: of 95 %, where
    it is the headline's. seeds_text: how many they are, those of an older engine marked. ledger: where their ε is taken
    apart."""

    config: SimulationConfig
    epsilon: float
    f1: Spread
    interval: str
    seeds_text: str
    ledger: str | None = None

    @property
    def private(self) -> bool:
        """Whether anything is promised."""
        return not math.isinf(self.epsilon)


def f1_of(scores: EntityScores, metric: str, kind: str) -> float:
    """F1 of whole names of a type, or of all, or as the paper counts."""
    if metric == "published":
        return published_metric(scores).f1
    if kind == ALL:
        return scores.f1
    return scores.strict[kind].ratios.f1 if kind in scores.strict else 0.0


def settings(found: Sequence[Overview], corpus: str, metric: str, kind: str) -> list[Setting]:
    """Settings of finished runs on a corpus that protect sentences and sample as the accounting has it: other ε promise
    other things. Runs whose noise check failed are left out."""
    here = [each for each in found if each.run.config.corpus == corpus and _alike(each.run.config)]
    by_id = {each.run.run_id: each for each in here}
    result = []
    for config, by_seed in configurations(here).items():
        tested = [each for run_id in by_seed.values() if (each := by_id[run_id]).last_record and each.last_record.test]
        lasts = [each.last_record for each in tested if each.last_record]
        scores = [f1_of(last.test, metric, kind) for last in lasts if last.test]
        if scores:
            epsilon = max(last.privacy.epsilon for last in lasts)
            headline = metric != "published" and kind == ALL
            interval = metrics.interval(*(last.test for last in lasts if last.test and headline))
            runs = [each.run for each in tested]
            marks, apart = seeds_text(runs), address.ledger(*runs)
            result.append(Setting(config, epsilon, spread(scores), interval, marks, apart))
    return result


def _alike(config: SimulationConfig) -> bool:
    return not config.privacy.kind.client_level and config.privacy.sampling == "poisson"


def best(found: Sequence[Setting], clients: int | None = None) -> list[Setting]:
    """Private settings that none beats, with so many clients or any number: no other has a higher F1 at the same or a
    smaller ε. By ε."""
    among = [each for each in found if each.private and clients in (None, each.config.federation.clients)]
    return unbeaten(among, epsilon=lambda each: each.epsilon, f1=lambda each: each.f1.mean)


def ceiling(found: Sequence[Setting], frontier: Sequence[Setting]) -> Setting | None:
    """The twin without privacy of the best private setting, or else the best without privacy."""
    open_ones = {each.config: each for each in found if not each.private}
    if frontier and (twin := open_ones.get(with_noise(frontier[-1].config, 0.0))):
        return twin
    return max(open_ones.values(), key=lambda each: each.f1.mean, default=None)


def printed(found: Sequence[Row]) -> list[tuple[float, float, str]]:
    """The paper's private rows: ε by honest accounting, as far as it is known, printed F1, what they are."""
    return [
        (epsilon, row.cell.published["f1"], jana_biemann_2021.setting_text(row.cell))
        for row in found
        if (epsilon := row.found.epsilon) is not None and not math.isinf(epsilon)
    ]


def rows(frontier: Sequence[Setting], top: Setting | None) -> list[dict[str, Any]]:
    """The frontier as a table, and the ceiling last."""
    return [
        {
            "ε": epsilon_text(each.epsilon),
            "F1": each.f1.mean,
            "± sd": each.f1.known_sd,
            metrics.INTERVAL: each.interval,
            "seeds": each.seeds_text,
            "run": address.link(each.config),
            "ε rests on": each.ledger,
            "setting": titles.setting(each.config, with_corpus=False),
        }
        for each in (*frontier, *([top] if top else []))
    ]


def answer(frontier: Sequence[Setting], top: Setting | None) -> str:
    """The frontier in a sentence."""
    if not frontier:
        return "No private run is done on this corpus yet."
    last = frontier[-1]
    text = f"The most that is known: F1 {last.f1.mean:.2f} at ε = {epsilon_text(last.epsilon)}"
    small = [each for each in frontier if each.epsilon <= 1.0]
    if small and small[-1] is not last:
        text += f", {small[-1].f1.mean:.2f} at ε = {epsilon_text(small[-1].epsilon)}"
    return text + (f"; without privacy {top.f1.mean:.2f}." if top else ".")
