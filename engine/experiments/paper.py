"""The tables of *An Investigation towards Differentially Private Sequence Tagging in a Federated Framework* (Jana and
Biemann 2021), cell by cell: the run that each stands for, what was published, and what the runs that are known give.

The published triples come nearest to token-level scores averaged over tags by their counts with O as a tag
(:func:`published_metric`); ours are entity-level. Both are given, and what a tagger reaches that finds nothing.
"""

import json
import statistics
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
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
    engine_version,
)
from engine.errors import InvalidConfig
from engine.records import Counts, EntityScores, PrecisionRecallF1, RoundRecord, Run, weighted
from engine.taggers import KINDS

PAPERS = ("dp-fl-ner",)
TABLES = {
    "table1": "One hand, no privacy",
    "table2": "One hand, DP-SGD",
    "table3": "Clients, one round, no privacy",
    "table4": "Five clients, a tenth of the data a round, no privacy",
    "table5": "Clients, one round, DP-SGD at each",
    "table6": "Five clients, a tenth of the data a round, DP-SGD at each",
}
SEEDS = 5
"""How many the measured means are taken over."""
TAGGERS = tuple(kind.name for kind in KINDS.values() if kind.paper == "dp-fl-ner")
"""Kinds of taggers that the paper has."""
_FOLDER = Path(__file__).parent / "papers"
_PHASES, _PHASE_CLIENTS, _NOISE = 10, 5, 1.0
"""Tables 4 and 6: ten phases of 10 % each, five clients. Tables 5 and 6: σ = 1."""


@dataclass(frozen=True)
class Cell:
    """One row of a table. setting: what it varies. published: the printed numbers. config: of the runs behind it, seed
    0. round: after which communication round they are looked at, None at the end."""

    table: str
    setting: Mapping[str, Any]
    published: Mapping[str, float]
    config: SimulationConfig
    round: int | None = None

    def seeds(self, number: int) -> list[SimulationConfig]:
        """The configurations of the first so many seeds."""
        return with_seeds(self.config, number)


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation (of a sample, 0 for a single seed) of precision, recall and F1 over seeds."""

    mean: PrecisionRecallF1
    sd: PrecisionRecallF1

    @property
    def f1_text(self) -> str:
        """F1 with its spread, if there is one."""
        return f"{self.mean.f1:.3f}" + (f" ± {self.sd.f1:.3f}" if self.sd.f1 else "")


@dataclass(frozen=True)
class Measured:
    """What the known runs of a cell give. entity: strict, micro. token: in the published metric. epsilon: the largest
    spent, as honest accounting has it. floor: the published metric of a tagger that finds nothing."""

    cell: Cell
    runs: tuple[Run, ...]
    entity: Spread | None
    token: Spread | None
    epsilon: float | None
    floor: PrecisionRecallF1 | None

    @property
    def seeds_text(self) -> str:
        """How many seeds there are, those of an older engine marked."""
        return seeds_text(self.runs)


def cells(paper: str = PAPERS[0], corpus: str = "conll2003") -> list[Cell]:
    """All rows of all tables on a corpus. Raises InvalidConfig for a paper that is not known."""
    if paper not in PAPERS:
        raise InvalidConfig(f"paper={paper!r}, expected one of {', '.join(PAPERS)}")
    return [
        _cell(table, row, corpus)
        for table, rows in published(paper)["tables"].items()
        if table in TABLES
        for row in rows
    ]


@lru_cache(maxsize=4)
def published(paper: str) -> dict[str, Any]:
    """Title, authors, venue and the numbers of the paper's tables as printed."""
    found: dict[str, Any] = json.loads((_FOLDER / f"{paper}.json").read_text(encoding="utf-8"))
    return found


def _cell(table: str, row: dict[str, Any], corpus: str) -> Cell:
    named: dict[str, Any] = {
        name: row[name] for name in ("tagger", "noise_multiplier", "clients", "data_fraction") if name in row
    }
    printed = {name.removesuffix("_mean"): value for name, value in row.items() if name not in named}
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
    return Cell(table, named, printed, config, after)


def with_seeds(config: SimulationConfig, number: int) -> list[SimulationConfig]:
    """The configuration with the first so many seeds."""
    return [replace(config, seed=seed) for seed in range(number)]


def what_ifs(corpus: str = "conll2003") -> dict[str, SimulationConfig]:
    """Runs that show what a fault would give, by what they stand for; none of them is what its table says it is.

    DP-SGD whose noise never reaches the weights is training with clipped gradients. Noise at the scale of batch size 1
    in batches of 32 is noise with 32 times the multiplier.
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


def measure(cell: Cell, find: Callable[[SimulationConfig], Run | None], seeds: int = SEEDS) -> Measured:
    """What the finished runs of a cell give; ``find`` knows them."""
    looked = ((run, record_of(run, cell)) for run in map(find, cell.seeds(seeds)) if run)
    known = [(run, record) for run, record in looked if record and record.test]
    scores = [record.test for _, record in known if record.test]
    if not known:
        return Measured(cell, (), None, None, None, None)
    return Measured(
        cell=cell,
        runs=tuple(run for run, _ in known),
        entity=spread(PrecisionRecallF1(each.precision, each.recall, each.f1) for each in scores),
        token=spread(map(published_metric, scores)),
        epsilon=max(record.privacy.epsilon for _, record in known),
        floor=floor(scores[0]),
    )


def engine_of(run: Run) -> str:
    """Version of the engine that computed a run, if today's would give it other records; else empty."""
    made = run.provenance
    return made.engine_version if made and made.engine_version != engine_version(run.config) else ""


def seeds_text(runs: Collection[Run]) -> str:
    """How many runs there are, and how many of them an older engine computed: "5", "5 (3 of engine 5)"."""
    older = sorted(Counter(filter(None, map(engine_of, runs))).items())
    marks = ", ".join(f"{number:,} of engine {version}" for version, number in older)
    if not marks or (len(older) == 1 and older[0][1] == len(runs)):
        return marks or f"{len(runs):,}"
    return f"{len(runs):,} ({marks})"


def older_text(runs: Iterable[Run]) -> str:
    """What such marks mean, for a line beside a table of these runs; empty where none has one."""
    every = {run.run_id: run for run in runs}.values()
    older = [version for version in map(engine_of, every) if version]
    if not older:
        return ""
    share = "All" if len(older) == len(every) else f"{len(older):,} of the {len(every):,}"
    return (
        f"{share} runs here are of engine {' or '.join(sorted(set(older)))}, not of today's: shown until today's has "
        "computed them, with the draws, the ε and the noise check of their version."
    )


def record_of(run: Run, cell: Cell) -> RoundRecord | None:
    """The record that a cell is about, if the run has come to it."""
    if cell.round is None:
        return run.final
    if not run.final:
        return None
    return next((r for r in run.records if r.federation and r.federation.round == cell.round), None)


def spread(scores: Iterable[PrecisionRecallF1]) -> Spread:
    """Mean and standard deviation over at least one."""
    columns = list(zip(*((each.precision, each.recall, each.f1) for each in scores), strict=True))
    return Spread(
        PrecisionRecallF1(*map(statistics.fmean, columns)),
        PrecisionRecallF1(*(statistics.stdev(column) if len(column) > 1 else 0.0 for column in columns)),
    )


def published_metric(scores: EntityScores) -> PrecisionRecallF1:
    """Token-level scores, the mean over tags by their gold counts, O included."""
    return weighted(scores.tokens(outside=True))


def floor(scores: EntityScores) -> PrecisionRecallF1:
    """The published metric of a tagger that answers O everywhere, from the gold counts of some scores."""
    every = sum(counts.gold for counts in scores.token.values())
    return weighted(
        Counts(counts.gold if tag == "O" else 0, every if tag == "O" else 0, counts.gold)
        for tag, counts in scores.token.items()
    )


def fields(found: Measured) -> dict[str, Any]:
    """A cell for other programs."""
    measured: dict[str, Any] | None = None
    if found.entity and found.token and found.floor:
        measured = {
            **_named(found.entity),
            "published_metric": {**_named(found.token), "floor_f1": found.floor.f1},
            "epsilon": found.epsilon if found.epsilon != float("inf") else None,
        }
    return {
        "table": found.cell.table,
        **found.cell.setting,
        "published": dict(found.cell.published),
        "measured": measured,
        "seeds": [run.config.seed for run in found.runs],
        "runs": [run.run_id for run in found.runs],
        "outdated": [run.run_id for run in found.runs if engine_of(run)],
    }


def setting_text(cell: Cell) -> str:
    """What a row varies, in a few words."""
    names = {
        "tagger": lambda value: KINDS[str(value)].short,
        "noise_multiplier": lambda value: f"σ = {value:g}",
        "clients": lambda value: f"{value} clients",
        "data_fraction": lambda value: f"{100 * value:.0f} % of the data",
    }
    return ", ".join(names[name](value) for name, value in cell.setting.items())


def _named(found: Spread) -> dict[str, float]:
    return {
        f"{name}_{kind}": getattr(getattr(found, kind), name)
        for name in ("precision", "recall", "f1")
        for kind in ("mean", "sd")
    }
