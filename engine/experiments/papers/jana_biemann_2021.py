"""Replication of the tables of Jana and Biemann 2021, cell by cell: configuration, reported and measured scores.

The paper is *An Investigation towards Differentially Private Sequence Tagging in a Federated Framework*. Its scores
come nearest to token-level scores (:mod:`engine.experiments.token_f1`); ours are entity-level. Both are given, with the
scores of a tagger that predicts O everywhere.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from engine.config import (
    DEFAULT_CLIP_NORM,
    FederationConfig,
    PrivacyConfig,
    SimulationConfig,
    TaggerConfig,
    TrainingConfig,
)
from engine.experiments.seed_aggregates import SEEDS, OverSeeds, engine_of, over_seeds, with_seeds
from engine.experiments.statistics import ScoreSpread
from engine.records import Run
from engine.taggers import KINDS

NAME, CORPUS = "dp-fl-ner", "conll2003"
"""Name of the paper in this program, and its corpus."""
TABLES = {
    "table1": "Central training, no privacy",
    "table2": "Central training, DP-SGD",
    "table3": "Several clients, one round, no privacy",
    "table4": "Five clients, a tenth of the data in each round, no privacy",
    "table5": "Several clients, one round, DP-SGD at each client",
    "table6": "Five clients, a tenth of the data in each round, DP-SGD at each client",
}
TAGGERS = tuple(kind.name for kind in KINDS.values() if kind.paper == NAME)
"""Types of taggers in the paper."""
_FOLDER = Path(__file__).parent
_PHASES, _PHASE_CLIENTS, _NOISE = 10, 5, 1.0
"""Tables 4 and 6: ten phases of 10 % each, five clients. Tables 5 and 6: σ = 1."""


@dataclass(frozen=True)
class Cell:
    """One row of a table.

    Attributes:
        table: name of the table.
        setting: varied fields.
        published: reported scores.
        config: configuration of its runs, with seed 0.
        round: communication round after which the scores are taken; None for the end.
    """

    table: str
    setting: Mapping[str, Any]
    published: Mapping[str, float]
    config: SimulationConfig
    round: int | None = None

    def seeds(self, number: int | None = None) -> list[SimulationConfig]:
        """Return the configuration with each of the first seeds."""
        return with_seeds(self.config, number or SEEDS)


@dataclass(frozen=True)
class Row:
    """A cell with the scores of its runs."""

    cell: Cell
    found: OverSeeds


def cells(corpus: str = CORPUS) -> list[Cell]:
    """Return all rows of all tables on a corpus."""
    return [
        _cell(table, row, corpus) for table, rows in published()["tables"].items() if table in TABLES for row in rows
    ]


@lru_cache(maxsize=1)
def published() -> dict[str, Any]:
    """Return title, authors, venue and the reported numbers of the paper's tables."""
    paper: dict[str, Any] = json.loads((_FOLDER / f"{NAME}.json").read_text(encoding="utf-8"))
    return paper


def _cell(table: str, row: dict[str, Any], corpus: str) -> Cell:
    named: dict[str, Any] = {
        name: row[name] for name in ("tagger", "noise_multiplier", "clients", "data_fraction") if name in row
    }
    reported = {name.removesuffix("_mean"): value for name, value in row.items() if name not in named}
    noise = row.get("noise_multiplier", _NOISE if table in ("table5", "table6") else 0.0)
    federation, after = FederationConfig(clients=row.get("clients", 1)), None
    if "data_fraction" in row:
        federation = FederationConfig(clients=_PHASE_CLIENTS, rounds=_PHASES, schedule="incremental")
        after = round(_PHASES * row["data_fraction"])
    config = SimulationConfig(
        corpus=corpus,
        tagger=TaggerConfig(name=row.get("tagger", "bilstm-tddl")),
        privacy=PrivacyConfig(noise_multiplier=noise),
        federation=federation,
    )
    return Cell(table, named, reported, config, after)


def counterfactuals(corpus: str = CORPUS) -> dict[str, SimulationConfig]:
    """Return counterfactual runs by name, each with a bug that could explain a reported result.

    DP-SGD whose noise does not reach the weights is training with clipped gradients. Noise scaled for batch size 1 in
    batches of 32 is noise with 32 times the multiplier.
    """
    not_applied = PrivacyConfig(noise_multiplier=0.0, clip_norm=DEFAULT_CLIP_NORM)
    phases = FederationConfig(clients=_PHASE_CLIENTS, rounds=_PHASES, schedule="incremental")
    batch = TrainingConfig().batch_size
    return {
        "TDDL, clipped, noise not applied": SimulationConfig(corpus=corpus, privacy=not_applied),
        "CRF, clipped, noise not applied": SimulationConfig(
            corpus=corpus, privacy=not_applied, tagger=TaggerConfig(name="bilstm-crf")
        ),
        "phases, clipped, noise not applied": SimulationConfig(corpus=corpus, privacy=not_applied, federation=phases),
        "phases, noise scaled for batch size 1": SimulationConfig(
            corpus=corpus, privacy=PrivacyConfig(noise_multiplier=_NOISE * batch), federation=phases
        ),
    }


def measure(cell: Cell, find: Callable[[SimulationConfig], Run | None], seeds: int = SEEDS) -> Row:
    """Return a cell with the scores of its finished runs.

    Args:
        cell: the cell.
        find: returns the run of a configuration, None without one.
        seeds: number of seeds.
    """
    return Row(cell, over_seeds(cell.config, find, seeds=seeds, round=cell.round))


def fields(row: Row) -> dict[str, Any]:
    """Return a row for other programs."""
    found, measured = row.found, None
    if found.entity and found.token and found.floor:
        measured = {
            **_named(found.entity),
            "published_metric": {**_named(found.token), "floor_f1": found.floor.f1},
            "epsilon": found.epsilon if found.epsilon != float("inf") else None,
        }
    return {
        "table": row.cell.table,
        **row.cell.setting,
        "published": dict(row.cell.published),
        "measured": measured,
        "seeds": [run.config.seed for run in found.runs],
        "runs": [run.run_id for run in found.runs],
        "outdated": [run.run_id for run in found.runs if engine_of(run)],
    }


def setting_text(cell: Cell) -> str:
    """Return the varied fields of a row in a few words."""
    names = {
        "tagger": lambda value: KINDS[str(value)].short,
        "noise_multiplier": lambda value: f"σ = {value:g}",
        "clients": lambda value: f"{value} clients",
        "data_fraction": lambda value: f"{100 * value:.0f} % of the data",
    }
    return ", ".join(names[name](value) for name, value in cell.setting.items())


def _named(found: ScoreSpread) -> dict[str, float]:
    return {
        f"{name}_{kind}": getattr(getattr(found, name), kind)
        for name in ("precision", "recall", "f1")
        for kind in ("mean", "sd")
    }
