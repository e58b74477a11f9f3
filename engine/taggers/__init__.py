"""Sentences → tags: what taggers are made of, and how tags are read off their scores."""

from engine.config import TaggerConfig
from engine.taggers.layers import CRF, BidirectionalLSTM, Dense, Layer, Softmax, Tanh, Window
from engine.taggers.tagger import Tagger

__all__ = ["Tagger", "build"]


def build(config: TaggerConfig, dimensions: int, tags: int, copied: int = 0) -> Tagger:
    """The tagger that ``config`` names, for features of ``dimensions`` and ``tags`` classes a token; ``copied``: how
    many of the features a window takes from neighbours.

    BiLSTM-TDDL and BiLSTM-CRF (dp-fl-ner, section 2): frozen word vectors → bidirectional LSTM → a dense layer at each
    token → softmax or CRF. Linear taggers have the dense layer alone, MLPs a hidden layer of tanh units below it.
    """
    size = config.hidden_size
    body, head = config.name.rsplit("-", 1)
    layers: tuple[Layer, ...]
    if body == "bilstm":
        layers = (BidirectionalLSTM(dimensions, size), Dense(2 * size, tags))
    else:
        window = Window(dimensions, copied or dimensions, config.window)
        below: tuple[Layer, ...] = (window,) if config.window else ()
        if body == "mlp":
            layers = (*below, Dense(window.outputs, size), Tanh(size), Dense(size, tags))
        else:
            layers = (*below, Dense(window.outputs, tags, zero=True))
    return Tagger(dimensions, layers, CRF(tags) if head == "crf" else Softmax(tags))
