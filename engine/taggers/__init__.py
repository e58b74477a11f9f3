"""Sentences → tags: one file a model. A tagger is described by its layout of weights and its forward pass."""

from engine.config import TaggerConfig
from engine.taggers.bilstm import BiLSTM
from engine.taggers.layout import Layout

__all__ = ["BiLSTM", "Layout", "build"]


def build(config: TaggerConfig, dimensions: int, tags: int) -> BiLSTM:
    """The tagger that ``config`` names, for word vectors of ``dimensions`` and ``tags`` classes a token."""
    return BiLSTM(dimensions=dimensions, hidden_size=config.hidden_size, tags=tags)
