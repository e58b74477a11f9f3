"""Linear taggers: the dense layer alone, over a token's features and perhaps its neighbours'.

They have few weights, and so little noise beside what the sentences say; they want good features.
"""

from functools import partial

from engine.taggers.base import Sizes, TaggerKind, head
from engine.taggers.layers import Dense, Layer, Window
from engine.taggers.tagger import Tagger, stack


def window_of(sizes: Sizes) -> tuple[tuple[Layer, ...], int]:
    """The layer that shows neighbours, if the configuration has any, and how many values a token has then."""
    window = Window(sizes.dimensions, sizes.copied, sizes.window)
    return ((window,) if sizes.window else ()), window.outputs


def _build(sizes: Sizes, chain: bool) -> Tagger:
    below, width = window_of(sizes)
    return stack(sizes.dimensions, (*below, Dense(width, sizes.tags, zero=True)), head(chain, sizes.tags))


def _kind(name: str, title: str, note: str, *, chain: bool) -> TaggerKind:
    return TaggerKind(
        name=name,
        title=title,
        short=title,
        note=f"Each token's features are weighed once, {note}",
        fields=("window",),
        chain=chain,
        family="linear",
        paper=None,
        build=partial(_build, chain=chain),
    )


KINDS = (
    _kind("linear-softmax", "Linear, softmax", "and it is judged by itself: few weights, little noise.", chain=False),
    _kind("linear-crf", "Linear, CRF", "then a chain (CRF) judges a sentence's tags together.", chain=True),
)
