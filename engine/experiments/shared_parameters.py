"""Shared layers and private head of a client's (silo's) tagger, part by part from the first layer."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from engine.config import SimulationConfig
from engine.corpus.tag_schemes import PREFIXES
from engine.taggers import build


@dataclass(frozen=True)
class Part:
    """A part of a tagger with weights.

    Attributes:
        name: its name in configurations.
        weights: number of weights.
        leaves: whether the client sends its updates.
    """

    name: str
    weights: int
    leaves: bool


def parts(config: SimulationConfig, types: Sequence[Collection[str]], platform: int = 0) -> list[Part]:
    """Return the parts of a client's tagger.

    Args:
        config: the configuration.
        types: entity types of each client; where the scores are shared, each client has the types of all.
        platform: index of the client.

    Raises:
        InvalidConfig: for shared parts that the tagger does not have.
    """
    entity_types = len({name for each in types for name in each} if config.shares_scores else set(types[platform]))
    tags = len(PREFIXES[config.schemes[platform]]) * entity_types + 1
    tagger = build(config.tagger, config.feature_set.width(config.language_model), tags, config.feature_set.copied)
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
    """Return the number of weights whose gradients or values the client sends."""
    return sum(part.weights for part in found if part.leaves)
