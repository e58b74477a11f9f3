"""A search for a recipe, and its trials."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.config import SimulationConfig

GOOD_PRACTICE = "good practice"
"""What searches tried first before they began with a random draw."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A recipe that was tried. chosen: the fields that the search varied. noise_multiplier: σ that the target needs for
    them. f1: entities, strict and micro, on the development corpus's validation part. seconds: of wall time. seed: of
    its random streams."""

    number: int
    chosen: Mapping[str, Any]
    noise_multiplier: float
    f1: float
    seconds: float
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Study:
    """A search. epsilon, delta: that one run of the recipe shall spend on ``corpus``. development: where it was tried,
    a corpus that the user called public or not private. trials: in order. best: configuration of the best one on
    ``corpus``, seed 0, None before the first trial. command: that goes on with it.

    corpus_checksum, development_checksum: of their content, empty in studies that did not keep them. sentences: to
    train on in ``corpus``, 0 where that was not kept; shared: how many of them stand in the development corpus too.
    budget: where any do, ε of the total that was fixed before the first trial, for all trials and ``seeds`` runs of
    each winner, None where none was; order: α of the filter that holds it. released: trial number → runs of it on
    ``corpus`` under seeds of their own; released_epsilon: ε of all of them together at ``delta``. first: what the
    search began with.

    booked_basic, booked_composed: ε that the trials would have cost on the corpus itself: by basic composition, at δ
    times their number; and at δ by Rényi accounting, if all of them had been fixed beforehand.
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
    def private(self) -> bool:
        """Whether recipes were tried on sentences that the recipe shall protect: by content, whatever the corpora are
        called; by name in a study that did not keep their checksums."""
        if self.corpus_checksum and self.development_checksum:
            return self.shared > 0 or self.corpus_checksum == self.development_checksum
        return self.corpus == self.development

    @property
    def booked_delta(self) -> float:
        """δ that goes with ``booked_basic``."""
        return len(self.trials) * self.delta
