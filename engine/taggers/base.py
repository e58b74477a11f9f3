"""What is known of a kind of tagger before one is built."""

from collections.abc import Callable
from dataclasses import dataclass

from engine.taggers.layers import CRF, Softmax
from engine.taggers.tagger import Tagger


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """What a tagger is built for. dimensions: of a token's features; copied: how many of them a window takes from
    neighbours. tags: classes of a token. hidden_size, window, dropout: of the configuration."""

    dimensions: int
    copied: int
    tags: int
    hidden_size: int
    window: int
    dropout: float = 0.0


@dataclass(frozen=True, kw_only=True)
class TaggerKind:
    """A kind of tagger.

    name: in configurations, for ever, since identities rest on it. title: what people see. short: the same where a
    table is narrow. note: a sentence on how it works. fields: of ``TaggerConfig`` that it has beside ``name`` and
    ``well_formed``. chain: whether its head judges a sentence's tags together (CRF). family: kinds that cost the same
    but for their head. paper: short name of the paper that it is from, None if it is ours. in_context: whether it reads
    vectors in context, and so cannot do without them. build: the tagger itself.
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
    """What turns scores into a loss."""
    return CRF(tags) if chain else Softmax(tags)
