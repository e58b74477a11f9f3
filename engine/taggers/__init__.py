"""NER taggers: their components, and the decoding of tags from their scores."""

from functools import lru_cache
from typing import Protocol

from engine.taggers.base import Sizes, TaggerKind
from engine.taggers.registry import KINDS
from engine.taggers.tagger import Tagger

__all__ = ["KINDS", "Sizes", "Tagger", "TaggerKind", "build", "splits_of"]


class Choice(Protocol):
    """Chosen settings of a tagger: see :class:`engine.config.TaggerConfig`."""

    @property
    def name(self) -> str:
        """Name of its kind."""
        ...

    @property
    def hidden_size(self) -> int:
        """Units of an LSTM, in each direction, or of an MLP."""
        ...

    @property
    def window(self) -> int:
        """Neighbouring tokens read on each side."""
        ...

    @property
    def dropout(self) -> float:
        """Probability that a value is dropped in training."""
        ...


def build(chosen: Choice, dimensions: int, tags: int, copied: int = 0) -> Tagger:
    """Build the chosen tagger.

    Args:
        chosen: Its settings.
        dimensions: Number of a token's features.
        tags: Number of classes.
        copied: How many of the features a window reads from neighbours; 0 is all.
    """
    sizes = Sizes(
        dimensions=dimensions,
        copied=copied or dimensions,
        tags=tags,
        hidden_size=chosen.hidden_size,
        window=chosen.window,
        dropout=chosen.dropout,
    )
    return KINDS[chosen.name].build(sizes)


@lru_cache
def splits_of(kind: str) -> tuple[str, ...]:
    """Return the parts with weights of a kind of tagger, from bottom to top: see :attr:`Tagger.splits`."""
    return KINDS[kind].build(Sizes(dimensions=2, copied=1, tags=1, hidden_size=1, window=0)).splits
