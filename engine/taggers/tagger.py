"""A tagger: a small graph of layers, a head on top, all weights in one flat vector.

Clipping, noise and optimiser see one vector; only the forward pass sees matrices. A part is *shared* by all clients of
a federation or *private* to each; the shared parts' weights come first, so that what travels is one stretch.
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
"""The input that has all of a token's features."""


@dataclass(frozen=True)
class Input:
    """Some of a token's features, by name: from one column (``start``) to another (``stop``)."""

    name: str
    start: int
    stop: int


@dataclass(frozen=True)
class Node:
    """A layer and what it reads: inputs and earlier nodes by name, side by side in this order. private: whether each
    client of a federation keeps it for itself. part: of the tagger that it belongs to, by default what such a layer
    usually is."""

    name: str
    layer: Layer
    reads: tuple[str, ...] = (FEATURES,)
    private: bool = False
    part: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "part", self.part or self.layer.part)


@dataclass(frozen=True)
class Tagger:
    """dimensions: of a token's features. nodes: each after those that it reads; the last one gives the scores. head:
    turns scores into a loss. inputs: named stretches of the features, beside ``FEATURES``, which is all of them, and
    ``CHARACTERS``. head_private: as in a node. Raises InvalidConfig if the graph does not fit together."""

    dimensions: int
    nodes: tuple[Node, ...]
    head: Softmax | CRF
    inputs: tuple[Input, ...] = ()
    head_private: bool = False

    def __post_init__(self) -> None:
        widths = {FEATURES: self.dimensions, CHARACTERS: 0}
        for each in self.inputs:
            if each.name in widths or not 0 <= each.start < each.stop <= self.dimensions:
                raise InvalidConfig(
                    f"input {each.name!r} is no stretch of {self.dimensions:,} features, or comes twice"
                )
            widths[each.name] = each.stop - each.start
        read: set[str] = set()
        for node in self.nodes:
            if node.name in widths:
                raise InvalidConfig(f"two parts of a tagger are called {node.name!r}")
            if unknown := [name for name in node.reads if name not in widths]:
                raise InvalidConfig(f"{node.name!r} reads {', '.join(unknown)}: no input, and no part before it")
            if node.layer.inputs != sum(widths[name] for name in node.reads):
                given = sum(widths[name] for name in node.reads)
                raise InvalidConfig(f"{node.name!r} reads {given:,} values a token, expected {node.layer.inputs:,}")
            widths[node.name] = node.layer.outputs
            read |= set(node.reads)
        if unread := [node.name for node in self.nodes[:-1] if node.name not in read]:
            raise InvalidConfig(f"nothing reads {', '.join(unread)}")
        if not self.nodes or self.nodes[-1].layer.outputs != self.head.tags:
            raise InvalidConfig(f"the last part of a tagger gives no {self.head.tags:,} scores a token")

    @property
    def splits(self) -> tuple[str, ...]:
        """The parts that have weights, from below to above; the last one has what depends on the tags, and the head."""
        return tuple(dict.fromkeys(node.part for node in self.nodes if node.layer.shapes))

    def sharing(self, parts: Collection[str] | None = None) -> "Tagger":
        """The same where platforms share these of ``splits`` and keep the others to themselves; None is all but the
        last. Raises InvalidConfig for a part that it does not have, and where None leaves nothing to share."""
        wanted = self.splits[:-1] if parts is None else tuple(parts)
        if unknown := [part for part in wanted if part not in self.splits]:
            raise InvalidConfig(
                f"shared={', '.join(unknown)!r}, expected some of {', '.join(self.splits)}: the parts of this tagger"
            )
        nodes = tuple(replace(node, private=bool(node.layer.shapes) and node.part not in wanted) for node in self.nodes)
        found = replace(self, nodes=nodes, head_private=self.splits[-1] not in wanted)
        if parts is None and not found.shared.stop:
            raise InvalidConfig(
                f"this tagger has nothing that platforms could share: its only weights, “{self.nodes[-1].layer.title}”,"
                " belong to their tags"
            )
        return found

    @property
    def layers(self) -> tuple[Layer, ...]:
        """Of the nodes, in their order."""
        return tuple(node.layer for node in self.nodes)

    @property
    def parts(self) -> tuple[Layer | Softmax | CRF, ...]:
        """The layers and the head, in the order in which they are computed."""
        return (*self.layers, self.head)

    @property
    def private(self) -> tuple[bool, ...]:
        """Which of ``parts`` each client keeps for itself."""
        return (*(node.private for node in self.nodes), self.head_private)

    @cached_property
    def slices(self) -> tuple[slice, ...]:
        """Where the weights of each of ``parts`` stand in the flat vector: shared ones before private ones."""
        sizes = [sum(map(math.prod, part.shapes.values())) for part in self.parts]
        order = sorted(range(len(sizes)), key=lambda number: self.private[number])
        ends = np.cumsum([0, *(sizes[number] for number in order)]).tolist()
        found = dict(zip(order, (slice(start, end) for start, end in pairwise(ends)), strict=True))
        return tuple(found[number] for number in range(len(sizes)))

    @property
    def size(self) -> int:
        """Number of weights in all."""
        return int(max(stretch.stop for stretch in self.slices))

    @property
    def shared(self) -> slice:
        """The weights of the shared parts."""
        own = (stretch.stop for stretch, private in zip(self.slices, self.private, strict=True) if not private)
        return slice(0, max(own, default=0))

    @property
    def spells(self) -> bool:
        """Whether any part reads the characters of words."""
        return any(CHARACTERS in node.reads for node in self.nodes)

    @property
    def weighty(self) -> int:
        """How many of ``parts`` have weights."""
        return sum(bool(part.shapes) for part in self.parts)

    @cached_property
    def titles(self) -> tuple[str, ...]:
        """What each of ``parts`` is called, numbered where there are several of a kind."""
        names = [part.title for part in self.parts]
        return tuple(
            f"{name} {names[: place + 1].count(name)}" if names.count(name) > 1 else name
            for place, name in enumerate(names)
        )

    @property
    def stretches(self) -> list[tuple[str, slice]]:
        """Title and weights of each of ``parts`` that has some, as they follow each other in the flat vector."""
        each = zip(self.titles, self.parts, self.slices, strict=True)
        return sorted(((title, where) for title, part, where in each if part.shapes), key=lambda one: one[1].start)

    @cached_property
    def widths(self) -> dict[str, int]:
        """Values a token of each input and of each node, by name."""
        inputs = {FEATURES: self.dimensions, **{each.name: each.stop - each.start for each in self.inputs}}
        return inputs | {node.name: node.layer.outputs for node in self.nodes}

    def columns(self, name: str) -> slice:
        """The columns of an input."""
        return next((slice(each.start, each.stop) for each in self.inputs if each.name == name), slice(None))

    def views(self, flat: np.ndarray) -> tuple[dict[str, np.ndarray], ...]:
        """The weights of each of ``parts`` by name and in their shapes, sharing memory with ``flat`` ([size])."""
        found = []
        for part, stretch in zip(self.parts, self.slices, strict=True):
            views, start = {}, stretch.start
            for name, shape in part.shapes.items():
                end = start + math.prod(shape)
                views[name] = flat[start:end].reshape(shape)
                start = end
            found.append(views)
        return tuple(found)

    def initial_weights(self, random: np.random.Generator) -> np.ndarray:
        """Fresh weights, float32 [size]."""
        flat = np.zeros(self.size, dtype=np.float32)
        for part, views in zip(self.parts, self.views(flat), strict=True):
            part.initialise(views, random)
        return flat


def stack(dimensions: int, layers: Sequence[Layer], head: Softmax | CRF) -> Tagger:
    """Layers one upon another, each taking what the one below gives; the lowest takes all features."""
    names = [str(number) for number in range(1, len(layers) + 1)]
    below = [FEATURES, *names]
    parts = [layer.part for layer in layers[:-1]] + ["scores"]
    nodes = (
        Node(name, layer, (read,), part=part)
        for name, layer, read, part in zip(names, layers, below, parts, strict=False)
    )
    return Tagger(dimensions, tuple(nodes), head)
