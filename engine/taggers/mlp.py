"""MLPs: a hidden layer of tanh units below the dense layer of a linear tagger."""

from functools import partial

from engine.taggers.base import Sizes, TaggerKind, head
from engine.taggers.layers import Dense, Tanh
from engine.taggers.linear import window_of
from engine.taggers.tagger import Tagger, stack


def _build(sizes: Sizes, chain: bool) -> Tagger:
    below, width = window_of(sizes)
    layers = (
        *below,
        Dense(width, sizes.hidden_size),
        Tanh(sizes.hidden_size),
        Dense(sizes.hidden_size, sizes.tags),
    )
    return stack(sizes.dimensions, layers, head(chain, sizes.tags))


def _kind(name: str, title: str, note: str, *, chain: bool) -> TaggerKind:
    return TaggerKind(
        name=name,
        title=title,
        short=title,
        note=f"One hidden layer over each token's features, then {note}",
        fields=("hidden_size", "window"),
        chain=chain,
        family="mlp",
        paper=None,
        build=partial(_build, chain=chain),
    )


KINDS = (
    _kind("mlp-softmax", "MLP, softmax", "each token is classified independently.", chain=False),
    _kind("mlp-crf", "MLP, CRF", "a CRF scores a sentence's tags jointly.", chain=True),
)
