"""Which runs to compute next, where none that is known surely reaches a target: four stated rules."""

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from engine.config import SimulationConfig
from engine.experiments.planner.curve import ConfigFamily, Curve, fit, two_digits_up
from engine.experiments.planner.evidence import Setting
from engine.experiments.planner.ranking import EvidenceLevel, Judged, Ranking
from engine.experiments.planner.targets import Target
from engine.experiments.seed_aggregates import SEEDS
from engine.experiments.statistics import reach_of_mean

MORE_SEEDS, FROM_CURVE, BEYOND, AT_LIMIT = "more seeds", "read off the curve", "beyond the curve", "at the limit"
"""Rules: more runs of a setting whose interval holds a threshold; the ε at which a fitted curve meets the scores; twice
the largest ε that was measured, where runs without noise show that there is room above; the largest ε that is allowed,
where nothing was measured and a curve's band does not exclude the scores."""
MOST_SEEDS = 20
"""More runs than that do not settle a question cheaply."""


@dataclass(frozen=True)
class Candidate:
    """Runs that are worth computing. config: of the first. runs: how many, of so many seeds. epsilon: of each; where it
    is no measured setting's, the noise for it is still to be found. rule: by which it was chosen. like: the setting
    nearest to it that was measured."""

    config: SimulationConfig
    runs: int
    epsilon: float
    rule: str
    like: Setting


def candidates(found: Ranking, families: Sequence[ConfigFamily], settings: Iterable[Setting]) -> list[Candidate]:
    """Of each rule the one that takes least time, judged by the setting that it is like; none where a setting surely
    reaches the target, or no score is asked for."""
    if not found.target.thresholds or any(each.grade == EvidenceLevel.SURELY for each in found.best):
        return []
    ceilings = [each for each in settings if not each.private]
    lines = [(family, _curves(family, found.target)) for family in families]
    every = [*_more_seeds(found)]
    if not found.reached:
        every += [*_from_curve(found, lines), *_beyond(found, lines, ceilings), *_at_limit(found, lines)]
    every.sort(key=lambda each: each.runs * each.like.seconds)
    return list({each.rule: each for each in reversed(every)}.values())


def seeds_needed(values: Sequence[float], at_least: float) -> int | None:
    """How many runs in all would tell the mean from a threshold, if the mean and the spread stay what they are; None
    where that is more than ``MOST_SEEDS``. Where a single run is known, ``SEEDS``."""
    if len(values) < 2:
        return SEEDS
    gap, sd = abs(statistics.fmean(values) - at_least), statistics.stdev(values)
    numbers = range(len(values) + 1, MOST_SEEDS + 1)
    return next((number for number in numbers if reach_of_mean(sd, number) <= gap), None)


def _more_seeds(found: Ranking) -> Iterator[Candidate]:
    for each in found.within:
        if each.grade in (EvidenceLevel.NOT_EXCLUDED, EvidenceLevel.ONCE, EvidenceLevel.PROBABLY) and (
            number := _needed(each)
        ):
            known = {one.run.config.seed for one in each.setting.done}
            seed = next(seed for seed in range(len(known) + 1) if seed not in known)
            config = replace(each.setting.config, seed=seed)
            yield Candidate(config, number, each.setting.epsilon, MORE_SEEDS, each.setting)


def _needed(each: Judged) -> int | None:
    """Runs more for the threshold that is hardest to tell."""
    unsure = [
        seeds_needed(each.setting.values(one.measure), one.at_least)
        for one, read in zip(each.thresholds, each.readings, strict=True)
        if read.grade(one.at_least) != EvidenceLevel.SURELY
    ]
    known = [number for number in unsure if number is not None]
    return max(known) - len(each.setting.done) if known and len(known) == len(unsure) else None


def _curves(family: ConfigFamily, target: Target) -> list[Curve]:
    return [fit(family.points(each.measure)) for each in target.thresholds]


def _meets(curves: Sequence[Curve], target: Target) -> float | None:
    """The smallest ε at which all fits have what is asked for."""
    met = [curve.crossing(each.at_least) for curve, each in zip(curves, target.thresholds, strict=True)]
    known = [each for each in met if each is not None]
    return max(known) if len(known) == len(met) else None


def _allowed(epsilon: float, target: Target) -> bool:
    return target.epsilon is None or epsilon <= target.epsilon


def _from_curve(found: Ranking, lines: Sequence[tuple[ConfigFamily, list[Curve]]]) -> Iterator[Candidate]:
    for family, curves in lines:
        met = _meets(curves, found.target)
        if met is None or met <= curves[0].epsilons[0]:
            continue
        wanted = two_digits_up(met)
        if _allowed(wanted, found.target) and wanted < curves[0].epsilons[-1]:
            yield _at(family, wanted, FROM_CURVE)


def _beyond(
    found: Ranking, lines: Sequence[tuple[ConfigFamily, list[Curve]]], ceilings: Sequence[Setting]
) -> Iterator[Candidate]:
    """Of those families whose twin without noise reaches the scores, the one that comes nearest with noise."""
    target = found.target
    open_ones = []
    for family, curves in lines:
        top = curves[0].epsilons[-1]
        twins = [each for each in ceilings if _alike(each.config, family.config)]
        room = any(all(min(each.values(one.measure)) >= one.at_least for one in target.thresholds) for each in twins)
        wanted = min(2 * top, target.epsilon or math.inf)
        if room and _meets(curves, target) is None and wanted > 1.05 * top:
            short = min(c.fitted[-1] - one.at_least for c, one in zip(curves, target.thresholds, strict=True))
            open_ones.append((short, family, wanted))
    if open_ones:
        _, family, wanted = max(open_ones, key=lambda each: each[0])
        yield _at(family, wanted, BEYOND)


def _at_limit(found: Ranking, lines: Sequence[tuple[ConfigFamily, list[Curve]]]) -> Iterator[Candidate]:
    """Of those families the one whose curve comes nearest there; where it begins above the limit, that which begins
    lowest."""
    target, limit = found.target, found.target.epsilon
    if limit is None:
        return
    open_ones = []
    for family, curves in lines:
        met, measured = _meets(curves, target), curves[0].epsilons
        if limit in measured or limit > measured[-1] or (met is not None and met <= limit):
            continue
        if all(_upper(curve, limit) >= each.at_least for curve, each in zip(curves, target.thresholds, strict=True)):
            said = [curve.at(limit) for curve in curves]
            fits = [
                value - each.at_least for value, each in zip(said, target.thresholds, strict=True) if value is not None
            ]
            open_ones.append(((bool(fits), min(fits, default=-measured[0])), family))
    if open_ones:
        yield _at(max(open_ones, key=lambda each: each[0])[1], limit, AT_LIMIT)


def _upper(curve: Curve, epsilon: float) -> float:
    """What a score at an ε is no larger than: by the band, else by the next larger setting."""
    if held := curve.interval_at(epsilon):
        return held.high
    return next(fitted for place, fitted in zip(curve.epsilons, curve.fitted, strict=True) if place >= epsilon)


def _at(family: ConfigFamily, epsilon: float, rule: str) -> Candidate:
    like = min(family.private, key=lambda each: abs(math.log(each.epsilon / epsilon)))
    return Candidate(like.config, SEEDS, epsilon, rule, like)


def _alike(one: SimulationConfig, other: SimulationConfig) -> bool:
    """Whether both learn the same weights from the same data: with noise other batches and step sizes are good."""
    alone = [(each.tagger, each.features, each.language_model, each.embeddings) for each in (one, other)]
    return alone[0] == alone[1] and one.federation == other.federation and one.data_fraction == other.data_fraction
