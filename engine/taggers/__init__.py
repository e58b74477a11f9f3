"""Sentences → tags: what taggers are made of, and how tags are read off their scores."""

from typing import TYPE_CHECKING

from engine.taggers.kind import Sizes, TaggerKind
from engine.taggers.kinds import KINDS
from engine.taggers.tagger import Tagger

if TYPE_CHECKING:
    from engine.config import TaggerConfig

__all__ = ["KINDS", "Sizes", "Tagger", "TaggerKind", "build"]


def build(config: "TaggerConfig", dimensions: int, tags: int, copied: int = 0) -> Tagger:
    """The tagger that ``config`` names, for features of ``dimensions`` and ``tags`` classes a token; ``copied``: how
    many of the features a window takes from neighbours, all where it is 0."""
    sizes = Sizes(
        dimensions=dimensions,
        copied=copied or dimensions,
        tags=tags,
        hidden_size=config.hidden_size,
        window=config.window,
    )
    return KINDS[config.name].build(sizes)
