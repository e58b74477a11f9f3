"""Taggers as graphs: consistency, sharing, and the registry of kinds."""

import numpy as np
import pytest

from engine.config import TaggerConfig
from engine.errors import InvalidConfig
from engine.taggers import KINDS, Tagger, build
from engine.taggers.layers import CRF, BidirectionalLSTM, Dense, Softmax, Tanh
from engine.taggers.tagger import FEATURES, Input, Node, stack


def graph(**changes: object) -> Tagger:
    nodes = (
        Node("context", BidirectionalLSTM(4, 3), ("words",)),
        Node("spelt", Dense(3, 2), ("spelling",), private=True),
        Node("scores", Dense(8, 5), ("context", "spelt")),
    )
    inputs = (Input("words", 0, 4), Input("spelling", 4, 7))
    return Tagger(**({"dimensions": 7, "nodes": nodes, "head": CRF(5), "inputs": inputs} | changes))


def test_shared_weights_come_first_in_layer_order() -> None:
    tagger = graph()
    context, spelt, scores, head = tagger.slices
    assert tagger.shared == slice(0, tagger.size - 8)
    assert (context.start, context.stop) == (0, scores.start)
    assert (scores.stop, head.stop) == (head.start, spelt.start)
    assert (spelt.stop - spelt.start, spelt.stop) == (3 * 2 + 2, tagger.size)
    alone = graph(head_private=True)
    assert alone.shared.stop == alone.slices[2].stop
    everything = stack(7, (Dense(7, 5),), Softmax(5))
    assert everything.shared == slice(0, everything.size)


def test_views_are_of_the_flat_vector() -> None:
    tagger = graph()
    flat = np.arange(tagger.size, dtype=np.float32)
    for views, stretch in zip(tagger.views(flat), tagger.slices, strict=True):
        np.testing.assert_array_equal(
            np.concatenate([np.zeros(0), *(v.ravel() for v in views.values())]), flat[stretch]
        )


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"inputs": (Input("words", 0, 4), Input("words", 4, 7))},
            "input 'words' is no slice of 7 features, or is defined twice",
        ),
        (
            {"inputs": (Input("words", 0, 4), Input("spelling", 4, 8))},
            "input 'spelling' is no slice of 7 features, or is defined",
        ),
        (
            {"nodes": (Node("a", Dense(7, 5)), Node("a", Dense(5, 5), ("a",)))},
            "two layers of a tagger have the name 'a'",
        ),
        ({"nodes": (Node(FEATURES, Dense(7, 5)),)}, "have the name 'features'"),
        ({"nodes": (Node("a", Dense(7, 5), ("b",)),)}, "'a' reads b: neither an input nor an earlier layer"),
        ({"nodes": (Node("a", Dense(6, 5)),)}, "'a' reads 7 values a token, expected 6"),
        ({"nodes": (Node("a", Tanh(7)), Node("b", Dense(7, 5)))}, "nothing reads a"),
        ({"nodes": (Node("a", Dense(7, 4)),)}, "does not give 5 scores a token"),
        ({"nodes": ()}, "does not give 5 scores a token"),
    ],
)
def test_inconsistent_graph_raises_invalid_config(changes: dict[str, object], sentence: str) -> None:
    with pytest.raises(InvalidConfig, match=sentence):
        graph(**changes)


@pytest.mark.parametrize("name", KINDS)
def test_each_kind_has_texts_and_builds(name: str) -> None:
    kind, config = KINDS[name], TaggerConfig(name=name, hidden_size=4)
    assert kind.name == name
    assert kind.title
    assert kind.note.endswith(".")
    tagger = build(config, 7, 5, 3)
    assert isinstance(tagger.head, CRF) == kind.chain
    assert not any(tagger.private)
    other = build(TaggerConfig(name=name, hidden_size=5), 7, 5, 3)
    assert (other.size != tagger.size) == ("hidden_size" in kind.fields)
    if "window" in kind.fields:
        assert build(TaggerConfig(name=name, window=1), 7, 5, 3).size > build(TaggerConfig(name=name), 7, 5, 3).size
    else:
        with pytest.raises(InvalidConfig, match=f"window=1, expected 0,.* tagger='{name}'"):
            TaggerConfig(name=name, window=1)


def test_kinds_have_distinct_titles() -> None:
    assert len({kind.title for kind in KINDS.values()}) == len(KINDS)
