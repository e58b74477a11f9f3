"""Sentences → tags: what taggers are made of, and how tags are read off their scores."""

from engine.config import TaggerConfig
from engine.taggers.layers import CRF, BidirectionalLSTM, Dense, Softmax
from engine.taggers.tagger import Tagger

__all__ = ["Tagger", "build"]


def build(config: TaggerConfig, dimensions: int, tags: int) -> Tagger:
    """The tagger that ``config`` names, for word vectors of ``dimensions`` and ``tags`` classes a token.

    BiLSTM-TDDL and BiLSTM-CRF (dp-fl-ner, section 2): frozen word vectors → bidirectional LSTM → a dense layer at each
    token → softmax or CRF.
    """
    size = config.hidden_size
    layers = (BidirectionalLSTM(dimensions, size), Dense(2 * size, tags))
    return Tagger(dimensions, layers, CRF(tags) if config.name == "bilstm-crf" else Softmax(tags))
