"""Description of a kind of tagger, available before one is built."""

from collections.abc import Callable
from dataclasses import dataclass

from engine.taggers.layers import CRF, Softmax
from engine.taggers.tagger import Tagger


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Sizes with which a tagger is built.

    Attributes:
        dimensions: Number of a token's features.
        copied: How many of them a window reads from neighbours.
        tags: Number of classes.
        hidden_size: As in the configuration.
        window: As in the configuration.
        dropout: As in the configuration.
    """

    dimensions: int
    copied: int
    tags: int
    hidden_size: int
    window: int
    dropout: float = 0.0


@dataclass(frozen=True, kw_only=True)
class TaggerKind:
    """A kind of tagger.

    Attributes:
        name: Name in configurations; it never changes, since run identities depend on it.
        title: Name on pages.
        short: Name in narrow tables.
        note: One sentence on how it works.
        fields: Fields of ``TaggerConfig`` that it has besides ``name`` and ``well_formed``.
        chain: Whether its head scores a sentence's tags jointly (CRF).
        family: Kinds with equal computing costs except for the head.
        paper: Short name of its paper, or None if it is this project's.
        in_context: Whether it requires contextual vectors.
        build: Builds the tagger.
    """

    name: str
    title: str
    short: str
    note: str
    fields: tuple[str, ...]
    chain: bool
    family: str
    paper: str | None
    in_context: bool = False
    build: Callable[[Sizes], Tagger]


def head(chain: bool, tags: int) -> Softmax | CRF:
    """Return the head, which turns scores into a loss."""
    return CRF(tags) if chain else Softmax(tags)
