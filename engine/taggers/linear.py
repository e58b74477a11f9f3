"""Linear taggers: only the dense layer, over a token's features and optionally its neighbours'.

They have few weights, and so little noise relative to the signal; they need good features.
"""

from functools import partial

from engine.taggers.base import Sizes, TaggerKind, head
from engine.taggers.layers import Dense, Layer, Window
from engine.taggers.tagger import Tagger, stack


def window_of(sizes: Sizes) -> tuple[tuple[Layer, ...], int]:
    """Return the layer that reads neighbours, if configured, and the number of a token's values after it."""
    window = Window(sizes.dimensions, sizes.copied, sizes.window)
    return ((window,) if sizes.window else ()), window.outputs


def _build(sizes: Sizes, chain: bool) -> Tagger:
    below, width = window_of(sizes)
    return stack(sizes.dimensions, (*below, Dense(width, sizes.tags, zero=True)), head(chain, sizes.tags))


def _kind(name: str, title: str, note: str, *more: str, chain: bool) -> TaggerKind:
    """Return a kind with the fields ``more`` besides the window."""
    return TaggerKind(
        name=name,
        title=title,
        short=title,
        note=f"A linear classifier over each token's features, {note}",
        fields=("window", *more),
        chain=chain,
        family="linear",
        paper=None,
        build=partial(_build, chain=chain),
    )


KINDS = (
    _kind("linear-softmax", "Linear, softmax", "each token independently: few weights, little noise.", chain=False),
    _kind("linear-crf", "Linear, CRF", "then a CRF scores a sentence's tags jointly.", "pretrained", chain=True),
)
