"""The planner's result: ranking, curves and next runs."""

from dataclasses import dataclass

from engine.config import SimulationConfig
from engine.experiments.planner.curve import ConfigFamily, Curve, FitError
from engine.experiments.planner.evidence import Evidence
from engine.experiments.planner.next_runs import Candidate
from engine.experiments.planner.ranking import Ranking
from engine.experiments.planner.targets import Target


@dataclass(frozen=True)
class NextRun:
    """A candidate with its cost.

    Attributes:
        candidate: the candidate.
        config: configuration of its first run.
        epsilon: ε of each run, by the accountant.
        adjacency: adjacency of this ε; that of the measured runs can be another one.
        seconds: estimated seconds of all runs together; None without a similar run.
        within: whether one run stays within the seconds of the target.
    """

    candidate: Candidate
    config: SimulationConfig
    epsilon: float
    adjacency: str
    seconds: float | None
    within: bool


@dataclass(frozen=True)
class Recommendation:
    """The complete result for a target.

    Attributes:
        target: the target.
        evidence: the settings of the corpus.
        answer: their ranking.
        lines: fitted curves of the first score, one for each family.
        error: leave-one-out error of these fits.
        next_runs: next runs, the cheapest first.
        unpriced: number of further candidates whose noise cannot be found, since the corpus is not on this machine.
    """

    target: Target
    evidence: Evidence
    answer: Ranking
    lines: tuple[tuple[ConfigFamily, Curve], ...]
    error: FitError | None
    next_runs: tuple[NextRun, ...]
    unpriced: int = 0
