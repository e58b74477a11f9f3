"""Settings with their scores over seeds, from finished runs, and the reasons for which other runs are excluded."""

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from engine.config import SimulationConfig
from engine.config.mechanism_registry import adjacency_text
from engine.errors import InvalidConfig
from engine.experiments.planner.targets import ALL, Measure, Target
from engine.experiments.seed_aggregates import engine_of
from engine.records import PrecisionRecallF1, RoundRecord, Run, RunKind, micro

OTHER_CONTENT = "on another version of the corpus"
FAILED = "with a failed noise check"
UNMEASURED = "with noise that could not be measured"
WHOLE_CLIENTS = "with client-level privacy"
SHUFFLED = "with shuffled batches"
FITTED = "with features fitted on sentences of the corpus"
OTHER_DELTA = "with another δ"
OTHER_CLIENTS = "with another number of clients"
TWICE = "with a seed that is already counted"
"""Reasons for which runs are excluded, as phrases after a number of runs."""


@dataclass(frozen=True)
class Done:
    """A finished run with its last record, which contains test scores."""

    run: Run
    last: RoundRecord


@dataclass(frozen=True)
class Setting:
    """Runs that differ in their seed only.

    Attributes:
        config: their configuration, with seed 0.
        done: the runs by seed, at least one.
    """

    config: SimulationConfig
    done: tuple[Done, ...]

    @property
    def private(self) -> bool:
        """Whether noise is added; the ε of all such settings is valid."""
        return self.config.privacy.private

    @cached_property
    def epsilon(self) -> float:
        """The largest ε among the seeds, ∞ without noise."""
        return max(done.last.privacy.epsilon for done in self.done)

    @property
    def adjacency(self) -> str:
        """The adjacency under which the ε of all seeds hold, in words; empty without noise."""
        return adjacency_text(done.last.privacy.neighbouring for done in self.done) if self.private else ""

    @cached_property
    def seconds(self) -> float:
        """Median wall time of a run in seconds, on the machines that computed the runs."""
        return statistics.median(
            done.run.provenance.wall_seconds if done.run.provenance else done.last.seconds for done in self.done
        )

    def values(self, measure: Measure) -> list[float]:
        """Return the score of each run. Raises InvalidConfig for an entity type that a run does not have."""
        return [score(done.last, measure) for done in self.done]


@dataclass(frozen=True)
class Evidence:
    """The settings of a corpus.

    Attributes:
        settings: comparable settings, private or not.
        left_out: numbers of excluded runs by reason.
        kinds: entity types and clients (silos) with a score of their own.
    """

    settings: tuple[Setting, ...]
    left_out: Mapping[str, int]
    kinds: tuple[str, ...]

    @property
    def runs(self) -> int:
        """The number of runs of all settings."""
        return sum(len(setting.done) for setting in self.settings)

    def check(self, measures: Iterable[Measure]) -> None:
        """Raise InvalidConfig for an entity type that the corpus does not have; the message lists its types."""
        for kind in (measure.kind for measure in measures):
            if kind != ALL and self.settings and kind not in self.kinds:
                raise InvalidConfig(
                    f"type={kind!r}, expected one of those that the corpus has: {', '.join(self.kinds)}"
                )


def done(found: Iterable[tuple[Run, RoundRecord | None]], corpus: str) -> list[Done]:
    """Return the finished runs on a corpus, without reruns and audits.

    Args:
        found: runs with their newest record.
        corpus: name of the corpus.
    """
    return [
        Done(run, last)
        for run, last in found
        if run.config.corpus == corpus and run.kind == RunKind.RUN and last and last.final and last.test
    ]


def deltas(found: Iterable[Done]) -> list[float]:
    """Return the values of δ of private runs, the most frequent first."""
    number = Counter(done.last.privacy.delta for done in found if done.run.config.privacy.private)
    return sorted(number, key=lambda delta: (-number[delta], delta))


def kinds(found: Iterable[Done]) -> tuple[str, ...]:
    """Return the clients (silos) and the entity types that have scores."""
    lasts = [done.last for done in found]
    types = {kind for last in lasts if last.test for kind in last.test.strict}
    return (*sorted({client.name for last in lasts for client in last.platforms}), *sorted(types))


def evidence(found: Sequence[Done], target: Target, checksum: str | None = None) -> Evidence:
    """Return the settings whose ε are comparable.

    Their protected unit is a labelled sentence, with Poisson sampling, the target's δ and number of clients, and a
    passed noise check. Runs without noise have no ε; they stay as an upper limit of the scores.

    Args:
        found: finished runs on the corpus.
        target: scores and limits.
        checksum: checksum of the corpus on this machine; None selects the most frequent one among the runs.
    """
    checksum = checksum or _usual(found)
    left: Counter[str] = Counter()
    seeds: dict[SimulationConfig, dict[int, Done]] = {}
    for candidate in sorted(found, key=_preference):
        config = candidate.run.config
        reason = _reason(candidate, target, checksum)
        by_seed = {} if reason else seeds.setdefault(replace(config, seed=0), {})
        reason = reason or (TWICE if config.seed in by_seed else "")
        if reason:
            left[reason] += 1
        else:
            by_seed[config.seed] = candidate
    settings = tuple(
        Setting(config, tuple(by_seed[seed] for seed in sorted(by_seed))) for config, by_seed in seeds.items()
    )
    return Evidence(settings, dict(left.most_common()), kinds(one for setting in settings for one in setting.done))


def score(record: RoundRecord, measure: Measure) -> float:
    """Return a score on the test set. Raises InvalidConfig for an entity type that it does not have."""
    test = record.test
    if test is None:
        raise InvalidConfig("the record has no test scores; expected the last record of a finished run")
    if measure.kind == ALL:
        ratios = PrecisionRecallF1(test.precision, test.recall, test.f1)
    elif measure.kind in test.strict:
        ratios = test.strict[measure.kind].ratios
    else:
        platform = next((client.test for client in record.platforms if client.name == measure.kind), None)
        if platform is None:
            raise InvalidConfig(f"type={measure.kind!r}, expected one of {', '.join(sorted(test.strict))}")
        ratios = micro(platform.strict.values())
    value: float = getattr(ratios, measure.score)
    return value


def _usual(found: Sequence[Done]) -> str | None:
    contents = Counter(_content(done) for done in found)
    return contents.most_common(1)[0][0] if contents else None


def _content(candidate: Done) -> str | None:
    return candidate.run.provenance.corpus_checksum if candidate.run.provenance else None


def _preference(candidate: Done) -> tuple[bool, float]:
    """Return the sort key: runs of the current engine first, then the newest."""
    return bool(engine_of(candidate.run)), -(candidate.run.status.created or 0.0)


def _reason(candidate: Done, target: Target, checksum: str | None) -> str:
    """Return the reason for which a run is excluded; empty where it is comparable."""
    config, check, privacy = candidate.run.config, candidate.last.noise_check, candidate.last.privacy
    private = config.privacy.private
    reasons = (
        (_content(candidate) != checksum, OTHER_CONTENT),
        (target.clients is not None and config.federation.clients != target.clients, OTHER_CLIENTS),
        (config.privacy.protects_clients, WHOLE_CLIENTS),
        (private and config.privacy.sampling != "poisson", SHUFFLED),
        (private and check is not None and check.failed, FAILED),
        (private and (check is None or not check.passed), UNMEASURED),
        (private and math.isinf(privacy.epsilon), FITTED),
        (private and privacy.delta != target.delta, OTHER_DELTA),
    )
    return next((reason for holds, reason in reasons if holds), "")
