"""Sentences → tags: what taggers are made of, and how tags are read off their scores."""

from functools import lru_cache
from typing import Protocol

from engine.taggers.base import Sizes, TaggerKind
from engine.taggers.registry import KINDS
from engine.taggers.tagger import Tagger

__all__ = ["KINDS", "Sizes", "Tagger", "TaggerKind", "build", "splits_of"]


class Choice(Protocol):
    """What a user chooses of a tagger: see :class:`engine.config.TaggerConfig`."""

    @property
    def name(self) -> str:
        """Of its kind."""
        ...

    @property
    def hidden_size(self) -> int:
        """Units of an LSTM, in each direction, or of an MLP."""
        ...

    @property
    def window(self) -> int:
        """Neighbours on either side that are read beside each token."""
        ...

    @property
    def dropout(self) -> float:
        """Chance of each value to be left out in training."""
        ...


def build(chosen: Choice, dimensions: int, tags: int, copied: int = 0) -> Tagger:
    """The tagger that was chosen, for features of ``dimensions`` and ``tags`` classes a token; ``copied``: how many of
    the features a window takes from neighbours, all where it is 0."""
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
    """The parts with weights of a kind of tagger, from below to above: see :attr:`Tagger.splits`."""
    return KINDS[kind].build(Sizes(dimensions=2, copied=1, tags=1, hidden_size=1, window=0)).splits
