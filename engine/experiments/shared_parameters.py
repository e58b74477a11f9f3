"""What leaves a platform of a federation, and what stays: its tagger part by part, from the one at the bottom up."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from engine.config import SimulationConfig
from engine.corpus.tag_schemes import PREFIXES
from engine.embeddings.features import IN_CONTEXT
from engine.embeddings.word_shape import SIZE as SHAPES
from engine.taggers import build, splits_of

WORD_VECTOR = 300
"""Dimensions of the word vectors that the pages offer."""


@dataclass(frozen=True)
class Part:
    """One that has weights. name: as a configuration calls it. weights: how many. leaves: whether what is learned in
    it is sent."""

    name: str
    weights: int
    leaves: bool


def parts(config: SimulationConfig, types: Sequence[Collection[str]], platform: int = 0) -> list[Part]:
    """Of a platform's tagger. types: the entity types of each platform; who shares the scores has those of all.
    platform: its number, from 0. Raises InvalidConfig for parts that it does not have."""
    known = splits_of(config.tagger.name)[-1] in (config.federation.shared_parts or ())
    entity_types = len({name for each in types for name in each} if known else set(types[platform]))
    spelling = 0 if config.features == "vectors" else SHAPES
    copied = WORD_VECTOR + spelling
    tags = len(PREFIXES[config.schemes[platform]]) * entity_types + 1
    tagger = build(config.tagger, copied + IN_CONTEXT.get(config.features, 0), tags, copied)
    tagger = tagger.sharing(config.federation.shared_parts)
    weights = dict.fromkeys(tagger.splits, 0)
    leaves = {}
    names = [*(node.part for node in tagger.nodes), tagger.splits[-1]]  # the head belongs to the scores
    for name, stretch, private in zip(names, tagger.slices, tagger.private, strict=True):
        if name in weights:
            weights[name] += stretch.stop - stretch.start
            if stretch.stop > stretch.start:
                leaves[name] = not private
    return [Part(name, number, leaves[name]) for name, number in weights.items()]


def sent(found: Sequence[Part]) -> int:
    """Weights whose gradient, or values, leave."""
    return sum(part.weights for part in found if part.leaves)
