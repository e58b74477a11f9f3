"""Scores of FedNER's replication: cells of its tables with their runs, and the gains over training alone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.config import SimulationConfig
from engine.corpus.files import base_name_and_split
from engine.experiments.papers.fedner_2020 import ALONE_SETTINGS, FEDERATED, PLATFORM, TAGGER, UNPROTECTED, Cell
from engine.experiments.statistics import PairedDifference, ScoreSpread, paired_difference, score_spread
from engine.records import EntityScores, PrecisionRecallF1, Run


@dataclass(frozen=True)
class Row:
    """A cell with the scores of its runs.

    Attributes:
        cell: the cell.
        runs: its finished runs by seed.
        scores: scores of each run on the cell's client.
        strict: entity-level (strict) scores over seeds.
        relaxed: relaxed scores over seeds, which count each overlap, many to many.
        one_to_one: relaxed scores over seeds with one-to-one matching.
    """

    cell: Cell
    runs: tuple[Run, ...] = ()
    scores: tuple[EntityScores, ...] = ()
    strict: ScoreSpread | None = None
    relaxed: ScoreSpread | None = None
    one_to_one: ScoreSpread | None = None


def measure(cell: Cell, find: Callable[[SimulationConfig], Run | None], seeds: int | None = None) -> Row:
    """Return a cell with the scores of its finished runs.

    Args:
        cell: the cell.
        find: returns the run of a configuration, None without one.
        seeds: number of seeds, by default that of the table.
    """
    runs, scores = [], []
    for run in map(find, cell.seeds(seeds)):
        if run and (found := on_platform(run, cell.platform)):
            runs.append(run)
            scores.append(found)
    if not runs:
        return Row(cell)
    overlaps = [each for score in scores if (each := score.many_to_many_ratios)]
    return Row(
        cell,
        tuple(runs),
        tuple(scores),
        strict=score_spread(PrecisionRecallF1(score.precision, score.recall, score.f1) for score in scores),
        relaxed=score_spread(overlaps) if overlaps else None,
        one_to_one=score_spread(score.relaxed_ratios for score in scores),
    )


def on_platform(run: Run, platform: str) -> EntityScores | None:
    """Return the test scores of a finished run on one of its clients; None for an unfinished run."""
    if not run.final:
        return None
    if not run.config.platforms:
        return run.final.test
    places = [base_name_and_split(name)[0] for name in run.config.platforms]
    return run.final.platforms[places.index(platform)].test


def gain(one: Row, other: Row) -> PairedDifference | None:
    """Return the paired difference in strict F1 of ``one`` minus ``other``; None with fewer than two common seeds."""
    by_seed = differences(one, other)
    return paired_difference(by_seed) if len(by_seed) > 1 else None


def differences(one: Row, other: Row) -> list[float]:
    """Return the difference in strict F1 of ``one`` minus ``other`` for each common seed."""
    mine, theirs = (
        {run.config.seed: score.f1 for run, score in zip(row.runs, row.scores, strict=True)} for row in (one, other)
    )
    return [mine[seed] - theirs[seed] for seed in sorted(mine.keys() & theirs.keys())]


def gains(rows: Sequence[Row]) -> list[tuple[Row, Row, PairedDifference]]:
    """Return each row within FedNER with each matching row trained alone, and the gain over it."""
    pairs = []
    for row in rows:
        if row.cell.setting.get("trained") in ALONE_SETTINGS:
            continue
        for other in rows:
            if other.cell.setting.get("trained") in ALONE_SETTINGS and _like(row.cell, other.cell):
                difference = gain(row, other)
                pairs += [(row, other, difference)] if difference else []
    return pairs


def _like(one: Cell, other: Cell) -> bool:
    mine, theirs = ({name: value for name, value in cell.setting.items() if name != "trained"} for cell in (one, other))
    if mine.get("protects") == PLATFORM:
        mine = {"protects": UNPROTECTED}  # a client that sends nothing needs no noise
    same_tagger = other.method == (TAGGER if one.method == FEDERATED else one.method)
    return one.table == other.table and one.platform == other.platform and mine == theirs and same_tagger
