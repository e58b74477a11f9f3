"""BiLSTM-TDDL and BiLSTM-CRF (dp-fl-ner, section 2).

Frozen word vectors → bidirectional LSTM → a dense layer at each token → softmax or CRF.
"""

from functools import partial

from engine.taggers.base import Sizes, TaggerKind, head
from engine.taggers.layers import BidirectionalLSTM, Dense
from engine.taggers.tagger import Tagger, stack


def _build(sizes: Sizes, chain: bool) -> Tagger:
    layers = (
        BidirectionalLSTM(sizes.dimensions, sizes.hidden_size),
        Dense(2 * sizes.hidden_size, sizes.tags),
    )
    return stack(sizes.dimensions, layers, head(chain, sizes.tags))


def _kind(name: str, title: str, short: str, note: str, *, chain: bool) -> TaggerKind:
    return TaggerKind(
        name=name,
        title=title,
        short=short,
        note=f"Word vectors, an LSTM in both directions, then {note}",
        fields=("hidden_size",),
        chain=chain,
        family="bilstm",
        paper="dp-fl-ner",
        build=partial(_build, chain=chain),
    )


KINDS = (
    _kind("bilstm-tddl", "BiLSTM-TDDL", "TDDL", "each token is classified independently.", chain=False),
    _kind("bilstm-crf", "BiLSTM-CRF", "CRF", "a CRF scores a sentence's tags jointly.", chain=True),
)
