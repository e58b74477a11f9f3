"""Synthetic sentences that an audit adds to a corpus as canaries."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from engine.embeddings.encoding import EncodedSplit, subset, token_positions
from engine.errors import InvalidConfig

SHORTEST = 5
"""Smallest number of words of a synthetic sentence."""


def generate_sentences(
    split: EncodedSplit, number: int, tags: Sequence[str], stream: np.random.Generator
) -> tuple[EncodedSplit, np.ndarray]:
    """Generate synthetic sentences: the words of random sentences, each in random order.

    Two random words of each sentence are tagged as entities of one word, with random types.

    Args:
        split: sentences that provide the words.
        number: number of synthetic sentences.
        tags: names of the tags.
        stream: source of randomness.

    Returns:
        The sentences, and the positions of their words in ``split``, int64 [tokens].

    Raises:
        InvalidConfig: without a sentence of at least ``SHORTEST`` words or without entity types.
    """
    single = [place for place, tag in enumerate(tags) if tag.startswith("S-")]
    single = single or [place for place, tag in enumerate(tags) if tag.startswith("B-")]
    long = np.flatnonzero(split.lengths >= SHORTEST)
    if not len(long) or not single:
        raise InvalidConfig(f"sentences={len(split):,}, expected one of at least {SHORTEST} words, and entity types")
    picked = stream.choice(long, number)
    chosen = subset(split, picked)
    order = np.argsort(np.repeat(np.arange(number), chosen.lengths) + stream.random(len(chosen.rows)), kind="stable")
    new = np.full(len(chosen.tags), tags.index("O"), dtype=chosen.tags.dtype)
    for start, length in zip(chosen.offsets[:-1].tolist(), chosen.lengths.tolist(), strict=True):
        new[start + stream.choice(length, 2, replace=False)] = stream.choice(single, 2)
    forms = None if chosen.forms is None else chosen.forms[order]
    return replace(chosen, rows=chosen.rows[order], tags=new, forms=forms), token_positions(split, picked)[order]


def concatenate(first: EncodedSplit, second: EncodedSplit) -> EncodedSplit:
    """Concatenate two splits with the same table of spellings."""
    return replace(
        first,
        rows=np.concatenate([first.rows, second.rows]),
        tags=np.concatenate([first.tags, second.tags]),
        offsets=np.concatenate([first.offsets, first.offsets[-1] + second.offsets[1:]]),
        forms=None if first.forms is None or second.forms is None else np.concatenate([first.forms, second.forms]),
    )
