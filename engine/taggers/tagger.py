"""A tagger: a graph of layers, a head, and all weights in one flat vector.

Clipping, noise and optimiser use one vector; only the forward pass uses matrices. A part is *shared* by all clients of
a federation or *private* to each. The weights of shared parts come first, so that clients send one contiguous slice.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from engine.errors import InvalidConfig
from engine.taggers.layers import CHARACTERS, CRF, Layer, Softmax

FEATURES = "features"
"""The input with all of a token's features."""


@dataclass(frozen=True)
class Input:
    """A named slice of a token's features: columns ``start`` to ``stop``."""

    name: str
    start: int
    stop: int


@dataclass(frozen=True)
class Node:
    """A layer and its inputs.

    Attributes:
        name: Name of the node.
        layer: The layer.
        reads: Names of inputs and earlier nodes, concatenated in this order.
        private: Whether each client of a federation has its own weights.
        part: Part of the tagger that it belongs to, by default the layer's usual one.
    """

    name: str
    layer: Layer
    reads: tuple[str, ...] = (FEATURES,)
    private: bool = False
    part: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "part", self.part or self.layer.part)


@dataclass(frozen=True)
class Tagger:
    """A graph of layers with a head.

    Attributes:
        dimensions: Number of a token's features.
        nodes: The layers, each after those that it reads; the last one gives the scores.
        head: Turns scores into a loss.
        inputs: Named slices of the features, besides ``FEATURES`` (all of them) and ``CHARACTERS``.
        head_private: Whether each client has its own head.

    Raises:
        InvalidConfig: If the layers do not fit together.
    """

    dimensions: int
    nodes: tuple[Node, ...]
    head: Softmax | CRF
    inputs: tuple[Input, ...] = ()
    head_private: bool = False

    def __post_init__(self) -> None:
        widths = {FEATURES: self.dimensions, CHARACTERS: 0}
        for source in self.inputs:
            if source.name in widths or not 0 <= source.start < source.stop <= self.dimensions:
                raise InvalidConfig(
                    f"input {source.name!r} is no slice of {self.dimensions:,} features, or is defined twice"
                )
            widths[source.name] = source.stop - source.start
        read: set[str] = set()
        for node in self.nodes:
            if node.name in widths:
                raise InvalidConfig(f"two layers of a tagger have the name {node.name!r}")
            if unknown := [name for name in node.reads if name not in widths]:
                raise InvalidConfig(f"{node.name!r} reads {', '.join(unknown)}: neither an input nor an earlier layer")
            if node.layer.inputs != sum(widths[name] for name in node.reads):
                given = sum(widths[name] for name in node.reads)
                raise InvalidConfig(f"{node.name!r} reads {given:,} values a token, expected {node.layer.inputs:,}")
            widths[node.name] = node.layer.outputs
            read |= set(node.reads)
        if unread := [node.name for node in self.nodes[:-1] if node.name not in read]:
            raise InvalidConfig(f"nothing reads {', '.join(unread)}")
        if not self.nodes or self.nodes[-1].layer.outputs != self.head.tags:
            raise InvalidConfig(f"the last layer of a tagger does not give {self.head.tags:,} scores a token")

    @property
    def splits(self) -> tuple[str, ...]:
        """The parts with weights, from bottom to top; the last one has all that depends on the tags, and the head."""
        return tuple(dict.fromkeys(node.part for node in self.nodes if node.layer.shapes))

    def sharing(self, parts: Collection[str] | None = None) -> "Tagger":
        """Return the tagger with these parts shared by clients, and all others private.

        Args:
            parts: Some of ``splits``; None is all but the last.

        Raises:
            InvalidConfig: If it has no such part, or with None nothing to share.
        """
        shared_parts = self.splits[:-1] if parts is None else tuple(parts)
        if unknown := [part for part in shared_parts if part not in self.splits]:
            raise InvalidConfig(
                f"shared={', '.join(unknown)!r}, expected some of {', '.join(self.splits)}: the parts of this tagger"
            )
        nodes = tuple(
            replace(node, private=bool(node.layer.shapes) and node.part not in shared_parts) for node in self.nodes
        )
        tagger = replace(self, nodes=nodes, head_private=self.splits[-1] not in shared_parts)
        if parts is None and not tagger.shared.stop:
            raise InvalidConfig(
                f"this tagger has nothing to share between clients: its only weights, “{self.nodes[-1].layer.title}”,"
                " depend on their tags"
            )
        return tagger

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers of the nodes, in their order."""
        return tuple(node.layer for node in self.nodes)

    @property
    def parts(self) -> tuple[Layer | Softmax | CRF, ...]:
        """The layers and the head, in the order of computation."""
        return (*self.layers, self.head)

    @property
    def private(self) -> tuple[bool, ...]:
        """For each of ``parts``, whether it is private to each client."""
        return (*(node.private for node in self.nodes), self.head_private)

    @cached_property
    def slices(self) -> tuple[slice, ...]:
        """Slice of each of ``parts`` in the flat vector: shared weights before private ones."""
        sizes = [sum(map(math.prod, part.shapes.values())) for part in self.parts]
        order = sorted(range(len(sizes)), key=lambda number: self.private[number])
        ends = np.cumsum([0, *(sizes[number] for number in order)]).tolist()
        by_part = dict(zip(order, (slice(start, end) for start, end in pairwise(ends)), strict=True))
        return tuple(by_part[number] for number in range(len(sizes)))

    @property
    def size(self) -> int:
        """Number of all weights."""
        return int(max(stretch.stop for stretch in self.slices))

    @property
    def shared(self) -> slice:
        """Slice of the shared weights."""
        own = (stretch.stop for stretch, private in zip(self.slices, self.private, strict=True) if not private)
        return slice(0, max(own, default=0))

    @property
    def spells(self) -> bool:
        """Whether any layer reads the characters of words."""
        return any(CHARACTERS in node.reads for node in self.nodes)

    @property
    def weighty(self) -> int:
        """Number of ``parts`` with weights."""
        return sum(bool(part.shapes) for part in self.parts)

    @cached_property
    def titles(self) -> tuple[str, ...]:
        """Name of each of ``parts``, numbered where there are several of a kind."""
        names = [part.title for part in self.parts]
        return tuple(
            f"{name} {names[: index + 1].count(name)}" if names.count(name) > 1 else name
            for index, name in enumerate(names)
        )

    @property
    def stretches(self) -> list[tuple[str, slice]]:
        """Title and slice of each of ``parts`` with weights, in the order of the flat vector."""
        rows = zip(self.titles, self.parts, self.slices, strict=True)
        return sorted(((title, where) for title, part, where in rows if part.shapes), key=lambda row: row[1].start)

    @cached_property
    def widths(self) -> dict[str, int]:
        """Values of a token in each input and node, by name."""
        inputs = {FEATURES: self.dimensions, **{source.name: source.stop - source.start for source in self.inputs}}
        return inputs | {node.name: node.layer.outputs for node in self.nodes}

    def columns(self, name: str) -> slice:
        """Return the columns of an input."""
        return next((slice(part.start, part.stop) for part in self.inputs if part.name == name), slice(None))

    def views(self, flat: np.ndarray) -> tuple[dict[str, np.ndarray], ...]:
        """Return the weights of each of ``parts`` by name and in their shapes.

        They share memory with ``flat`` ([size]).
        """
        result = []
        for part, stretch in zip(self.parts, self.slices, strict=True):
            views, start = {}, stretch.start
            for name, shape in part.shapes.items():
                end = start + math.prod(shape)
                views[name] = flat[start:end].reshape(shape)
                start = end
            result.append(views)
        return tuple(result)

    def initial_weights(self, random: np.random.Generator) -> np.ndarray:
        """Return new initial weights, float32 [size]."""
        flat = np.zeros(self.size, dtype=np.float32)
        for part, views in zip(self.parts, self.views(flat), strict=True):
            part.initialise(views, random)
        return flat


def stack(dimensions: int, layers: Sequence[Layer], head: Softmax | CRF) -> Tagger:
    """Stack layers, each reading the output of the one below; the lowest reads all features.

    Args:
        dimensions: Number of a token's features.
        layers: The layers from bottom to top.
        head: Turns scores into a loss.
    """
    names = [str(number) for number in range(1, len(layers) + 1)]
    below = [FEATURES, *names]
    parts = [layer.part for layer in layers[:-1]] + ["scores"]
    nodes = (
        Node(name, layer, (read,), part=part)
        for name, layer, read, part in zip(names, layers, below, parts, strict=False)
    )
    return Tagger(dimensions, tuple(nodes), head)
