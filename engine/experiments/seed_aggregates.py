"""What the known runs of a configuration give over its seeds, and which of them an older engine computed."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace

from engine.config import SimulationConfig, engine_version
from engine.experiments.statistics import ScoreSpread, mean_interval, score_spread
from engine.experiments.token_f1 import floor, published_metric
from engine.records import Interval, PrecisionRecallF1, RoundRecord, Run

SEEDS = 5
"""How many the means are taken over."""


@dataclass(frozen=True)
class OverSeeds:
    """The runs of a configuration that are known. config: theirs, with seed 0. entity: strict, micro. interval: of its
    F1 over other test sentences, for one seed. token: in the published metric. epsilon: the largest spent, as honest
    accounting has it. floor: the published metric of a tagger that finds nothing. All of
    these are None where no run is known."""

    config: SimulationConfig
    runs: tuple[Run, ...] = ()
    entity: ScoreSpread | None = None
    interval: Interval | None = None
    token: ScoreSpread | None = None
    epsilon: float | None = None
    floor: PrecisionRecallF1 | None = None

    @property
    def seeds_text(self) -> str:
        """How many seeds there are, those of an older engine marked."""
        return seeds_text(self.runs)


def over_seeds(
    config: SimulationConfig,
    find: Callable[[SimulationConfig], Run | None],
    *,
    seeds: int = SEEDS,
    round: int | None = None,
) -> OverSeeds:
    """What the finished runs of the first so many seeds give; ``find`` knows them. round: after which communication
    round they are looked at, None at the end."""
    looked = ((run, record_after(run, round)) for run in map(find, with_seeds(config, seeds)) if run)
    known = [(run, record) for run, record in looked if record and record.test]
    scores = [record.test for _, record in known if record.test]
    if not known:
        return OverSeeds(config)
    return OverSeeds(
        config=config,
        runs=tuple(run for run, _ in known),
        entity=score_spread(PrecisionRecallF1(each.precision, each.recall, each.f1) for each in scores),
        interval=mean_interval(scores),
        token=score_spread(map(published_metric, scores)),
        epsilon=max(record.privacy.epsilon for _, record in known),
        floor=floor(scores[0]),
    )


def of_runs(runs: Iterable[Run]) -> ScoreSpread | None:
    """What finished runs give, strict and micro, on the test part; None where fewer than two are done. Those that
    failed their noise check are something else, and left out."""
    ends = [run.final for run in runs if run.final]
    tests = [end.test for end in ends if end.test and not (end.noise_check and end.noise_check.failed)]
    if len(tests) < 2:
        return None
    return score_spread(PrecisionRecallF1(each.precision, each.recall, each.f1) for each in tests)


def with_seeds(config: SimulationConfig, number: int) -> list[SimulationConfig]:
    """The configuration with the first so many seeds."""
    return [replace(config, seed=seed) for seed in range(number)]


def record_after(run: Run, round: int | None) -> RoundRecord | None:
    """The record of a finished run after a communication round, None: at its end."""
    if round is None or not run.final:
        return run.final
    return next((each for each in run.records if each.federation and each.federation.round == round), None)


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
