"""What the planner says, whole."""

from dataclasses import dataclass

from engine.config import SimulationConfig
from engine.experiments.planner.curve import ConfigFamily, Curve, FitError
from engine.experiments.planner.evidence import Evidence
from engine.experiments.planner.next_runs import Candidate
from engine.experiments.planner.ranking import Ranking
from engine.experiments.planner.targets import Target


@dataclass(frozen=True)
class NextRun:
    """A candidate with its price. config: of its first run. epsilon: of each run, by the accountant. seconds: of all
    runs together, as estimated; None where nothing like it is known. within: whether one run keeps within the seconds
    of the target."""

    candidate: Candidate
    config: SimulationConfig
    epsilon: float
    seconds: float | None
    within: bool


@dataclass(frozen=True)
class Recommendation:
    """All that is said of a target. lines: of its first score, all families. error: of their fits. next_runs: the
    cheapest first. unpriced: how many more there would be, if the corpus were here to find their noise."""

    target: Target
    evidence: Evidence
    answer: Ranking
    lines: tuple[tuple[ConfigFamily, Curve], ...]
    error: FitError | None
    next_runs: tuple[NextRun, ...]
    unpriced: int = 0
