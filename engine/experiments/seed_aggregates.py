"""Scores of a configuration over its seeds, and the outdated runs among them."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace

from engine.config import SimulationConfig, engine_version
from engine.experiments.statistics import ScoreSpread, mean_interval, score_spread
from engine.experiments.token_f1 import floor, published_metric
from engine.records import Interval, PrecisionRecallF1, RoundRecord, Run

SEEDS = 5
"""Default number of seeds of a mean."""


@dataclass(frozen=True)
class OverSeeds:
    """The finished runs of a configuration. All scores are None without a run.

    Attributes:
        config: their configuration, with seed 0.
        runs: the runs by seed.
        entity: entity-level (strict) scores, micro-averaged.
        interval: 95 % CI of F1 over test sentences, for one seed.
        token: token-level scores, the paper's metric.
        epsilon: largest ε spent, recomputed by this program's accountant.
        floor: token-level scores of a tagger that predicts O everywhere.
    """

    config: SimulationConfig
    runs: tuple[Run, ...] = ()
    entity: ScoreSpread | None = None
    interval: Interval | None = None
    token: ScoreSpread | None = None
    epsilon: float | None = None
    floor: PrecisionRecallF1 | None = None

    @property
    def seeds_text(self) -> str:
        """The number of seeds, with outdated runs marked."""
        return seeds_text(self.runs)


def over_seeds(
    config: SimulationConfig,
    find: Callable[[SimulationConfig], Run | None],
    *,
    seeds: int = SEEDS,
    round: int | None = None,
) -> OverSeeds:
    """Aggregate the finished runs of the first seeds.

    Args:
        config: the configuration; its seed is ignored.
        find: returns the run of a configuration, None without one.
        seeds: number of seeds.
        round: communication round after which the scores are taken; None for the end.
    """
    records = ((run, record_after(run, round)) for run in map(find, with_seeds(config, seeds)) if run)
    finished = [(run, record) for run, record in records if record and record.test]
    scores = [record.test for _, record in finished if record.test]
    if not finished:
        return OverSeeds(config)
    return OverSeeds(
        config=config,
        runs=tuple(run for run, _ in finished),
        entity=score_spread(PrecisionRecallF1(score.precision, score.recall, score.f1) for score in scores),
        interval=mean_interval(scores),
        token=score_spread(map(published_metric, scores)),
        epsilon=max(record.privacy.epsilon for _, record in finished),
        floor=floor(scores[0]),
    )


def of_runs(runs: Iterable[Run]) -> ScoreSpread | None:
    """Aggregate the entity-level (strict) scores of finished runs on the test set; None with fewer than two.

    Runs with a failed noise check are excluded, since they are not runs of this configuration.
    """
    ends = [run.final for run in runs if run.final]
    tests = [end.test for end in ends if end.test and not (end.noise_check and end.noise_check.failed)]
    if len(tests) < 2:
        return None
    return score_spread(PrecisionRecallF1(test.precision, test.recall, test.f1) for test in tests)


def with_seeds(config: SimulationConfig, number: int) -> list[SimulationConfig]:
    """Return the configuration with each of the seeds 0 to ``number`` − 1."""
    return [replace(config, seed=seed) for seed in range(number)]


def record_after(run: Run, round: int | None) -> RoundRecord | None:
    """Return the record of a finished run after a communication round; None selects its final record."""
    if round is None or not run.final:
        return run.final
    return next((record for record in run.records if record.federation and record.federation.round == round), None)


def engine_of(run: Run) -> str:
    """Return the version of an outdated run's engine; empty if the current engine would give the same records."""
    made = run.provenance
    return made.engine_version if made and made.engine_version != engine_version(run.config) else ""


def seeds_text(runs: Collection[Run]) -> str:
    """Return the number of runs and of outdated runs among them: "5", "5 (3 of engine 5)"."""
    older = sorted(Counter(filter(None, map(engine_of, runs))).items())
    marks = ", ".join(f"{number:,} of engine {version}" for version, number in older)
    if not marks or (len(older) == 1 and older[0][1] == len(runs)):
        return marks or f"{len(runs):,}"
    return f"{len(runs):,} ({marks})"


def older_text(runs: Iterable[Run]) -> str:
    """Return an explanation of the marks of outdated runs, for a line below a table; empty without one."""
    every = {run.run_id: run for run in runs}.values()
    older = [version for version in map(engine_of, every) if version]
    if not older:
        return ""
    share = "All" if len(older) == len(every) else f"{len(older):,} of the {len(every):,}"
    return (
        f"{share} runs in this table are outdated (engine {' or '.join(sorted(set(older)))}). They show the random "
        "draws, the ε and the noise check of that version until they are rerun."
    )
