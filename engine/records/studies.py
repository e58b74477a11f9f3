"""A hyperparameter search and its trials."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.config import SimulationConfig

GOOD_PRACTICE = "good practice"
"""First trial of searches that do not begin with a random draw: the recommended settings with MiniLM."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One trial of a search.

    Attributes:
        number: Position in the search, from 0.
        chosen: Values of the fields that the search varied.
        noise_multiplier: σ that the target ε needs for them.
        f1: Entity-level (strict) micro F1 on the development corpus's validation set.
        seconds: Wall time in seconds.
        seed: Seed of its random streams.
    """

    number: int
    chosen: Mapping[str, Any]
    noise_multiplier: float
    f1: float
    seconds: float
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Study:
    """A hyperparameter search.

    Attributes:
        name: Name of the study.
        epsilon: ε that one run of the result spends on ``corpus``.
        delta: δ of all ε.
        corpus: The private corpus.
        development: Corpus of the trials, which the user declared public or not private.
        trials: Trials in order.
        best: Configuration of the best trial on ``corpus`` with seed 0, or None before the first trial.
        booked_basic: ε of all trials on the private corpus itself by basic composition, at δ times their number.
        booked_composed: The same at δ by Rényi accounting, if all trials had been fixed beforehand.
        command: Command that continues the search.
        corpus_checksum: Checksum of ``corpus``, empty in studies without it.
        development_checksum: Checksum of ``development``, empty in studies without it.
        sentences: Training sentences of ``corpus``, 0 in studies without it.
        shared: How many of them are also in the development corpus.
        budget: If any are, total ε fixed before the first trial for all trials and ``seeds`` runs of each winner; None
            without a budget.
        order: α of the Rényi filter that enforces the budget.
        seeds: Runs of each winner.
        released: Number of runs on ``corpus`` with seeds of their own, by trial number.
        released_epsilon: ε of all of them together at ``delta``.
        first: First trial of the search.
    """

    name: str
    epsilon: float
    delta: float
    corpus: str
    development: str
    trials: tuple[Trial, ...] = ()
    best: SimulationConfig | None = None
    booked_basic: float = 0.0
    booked_composed: float = 0.0
    command: str = ""
    corpus_checksum: str = ""
    development_checksum: str = ""
    sentences: int = 0
    shared: int = 0
    budget: float | None = None
    order: float | None = None
    seeds: int = 0
    released: Mapping[int, int] = field(default_factory=dict)
    released_epsilon: float = 0.0
    first: str = GOOD_PRACTICE

    @property
    def winner(self) -> Trial | None:
        """The best trial, the earlier one of equals."""
        return max(self.trials, key=lambda trial: (trial.f1, -trial.number), default=None)

    @property
    def fields(self) -> tuple[str, ...]:
        """Configuration fields that the search varied in its trials."""
        return tuple(dict.fromkeys(name for trial in self.trials for name in trial.chosen))

    @property
    def private(self) -> bool:
        """Whether trials used sentences that the result protects.

        Compared by content, whatever the corpora are called; by name in a study without their checksums.
        """
        if self.corpus_checksum and self.development_checksum:
            return self.shared > 0 or self.corpus_checksum == self.development_checksum
        return self.corpus == self.development

    @property
    def booked_delta(self) -> float:
        """δ of ``booked_basic``."""
        return len(self.trials) * self.delta
