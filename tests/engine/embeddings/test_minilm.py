"""The public language model: word pieces, and its forward pass against a reference implementation in float64."""

import math

import numpy as np
import pytest

from engine import embeddings
from engine.config.feature_registry import ALL_FEATURES
from engine.embeddings import minilm
from engine.embeddings.contextual import IN_CONTEXT, features, token_vectors
from engine.embeddings.features import OUT_OF_CONTEXT
from engine.embeddings.ner_features import found_names
from engine.errors import VectorsMissing
from tests.browser.chromium import in_ci

SENTENCES = [["EU", "rejects", "German", "call"], ["Rabinovich", "said", ":", "No", "."], ["B2-bomber"]]


@pytest.fixture(scope="module")
def weights():
    try:
        return minilm.weights()
    except VectorsMissing as error:
        (pytest.fail if in_ci() else pytest.skip)(str(error))


@pytest.fixture(scope="module")
def encoder(weights):
    return minilm.Encoder(weights)


def reference_layers(
    weights, ids: np.ndarray, *, layers: int = minilm.LAYERS, heads: int = minilm.HEADS, epsilon: float = 1e-12
) -> list[np.ndarray]:
    """Return the layers' vectors of one sequence [T], computed per head and token in float64.

    Vaswani et al. 2017, section 3, with normalisation after each sum, as in Devlin et al. 2019.
    """
    w = {name: value.astype(np.float64) for name, value in weights.items()}
    size = len(w["embeddings.LayerNorm.bias"]) // heads

    def normal(x, name):
        return (x - x.mean()) / math.sqrt(x.var() + epsilon) * w[f"{name}.weight"] + w[f"{name}.bias"]

    def affine(x, name):
        return w[f"{name}.weight"] @ x + w[f"{name}.bias"]

    hidden = [
        normal(
            w["embeddings.word_embeddings.weight"][piece]
            + w["embeddings.position_embeddings.weight"][position]
            + w["embeddings.token_type_embeddings.weight"][0],
            "embeddings.LayerNorm",
        )
        for position, piece in enumerate(ids)
    ]
    found = [np.array(hidden)]
    for number in range(layers):
        name = f"encoder.layer.{number}"
        query, key, value = (
            [affine(x, f"{name}.attention.self.{kind}") for x in hidden] for kind in ("query", "key", "value")
        )
        after = []
        for t in range(len(ids)):
            mixed = []
            for head in range(heads):
                own = slice(head * size, (head + 1) * size)
                scores = np.array([query[t][own] @ k[own] for k in key]) / math.sqrt(size)
                shares = np.exp(scores - scores.max())
                shares /= shares.sum()
                mixed.append(sum(share * v[own] for share, v in zip(shares, value, strict=True)))
            middle = normal(
                hidden[t] + affine(np.concatenate(mixed), f"{name}.attention.output.dense"),
                f"{name}.attention.output.LayerNorm",
            )
            wide = affine(middle, f"{name}.intermediate.dense")
            wide = np.array([x * 0.5 * (1 + math.erf(x / math.sqrt(2))) for x in wide])
            after.append(normal(middle + affine(wide, f"{name}.output.dense"), f"{name}.output.LayerNorm"))
        hidden = after
        found.append(np.array(hidden))
    return found


def test_forward_pass_equals_the_reference_implementation_with_padding(weights, encoder) -> None:
    pieces = minilm.word_pieces(SENTENCES)
    ids, words, mask = minilm.padded(pieces, [0, 1, 2])
    found = encoder.layers(ids, mask, np.zeros_like(ids))
    assert len(found) == minilm.LAYERS + 1
    for row in (0, 2):
        size = len(pieces[row].ids)
        assert words[row, size:].tolist() == [-1] * (ids.shape[1] - size)
        for ours, theirs in zip(found, reference_layers(weights, pieces[row].ids), strict=True):
            assert np.allclose(ours[row, :size], theirs, atol=2e-5)


def test_pieces_belong_to_their_tokens() -> None:
    first, second, third = minilm.word_pieces(SENTENCES)
    assert first.words.tolist() == [-1, 0, 1, 2, 3, -1]
    assert second.words[1] == 4
    assert second.words[-2] == 8
    assert set(third.words[1:-1]) == {9}
    assert len(third.ids) > 4  # a word of several pieces


def test_a_long_sentence_is_split(encoder) -> None:
    long = ["word"] * 1200
    stretches = minilm.word_pieces([long])
    assert [len(stretch.ids) - 2 for stretch in stretches] == [510, 510, 180]
    vectors = token_vectors(encoder, [long], [0])
    assert vectors.shape == (1200, 1, minilm.SIZE)
    assert np.abs(vectors).sum(-1).min() > 0


def test_a_token_without_pieces_has_a_zero_vector(encoder) -> None:
    progress_values = []
    vectors = token_vectors(encoder, [["\u200b", "Bonn"], []], [6], progress_values.append)
    assert vectors.shape == (2, 1, minilm.SIZE)
    assert (vectors[0] == 0).all()
    assert np.abs(vectors[1]).sum() > 0
    assert progress_values[-1] == 1.0


def test_vectors_do_not_depend_on_the_batch(encoder) -> None:
    alone = token_vectors(encoder, SENTENCES[1:2], [4, 6])
    together = token_vectors(encoder, SENTENCES, [4, 6])[4:9]
    assert np.allclose(alone, together, atol=2e-5)


def test_batches_are_complete_and_bounded() -> None:
    pieces = minilm.word_pieces([["a"] * size for size in (3, 50, 7, 20, 1, 300)])
    found = list(minilm.batches(pieces, 64))
    assert sorted(number for batch in found for number in batch) == list(range(6))
    assert all(len(batch) == 1 or len(batch) * max(len(pieces[n].ids) for n in batch) <= 64 for batch in found)


def test_adapter_changes_matrices_by_its_rank(weights) -> None:
    adapter = minilm.adapter()
    changed = minilm.adapted(weights, adapter)
    name = "encoder.layer.3.attention.self.query.weight"
    difference = changed[name] - weights[name]
    assert np.linalg.matrix_rank(difference.astype(np.float64), tol=1e-4) == adapter[f"{name}:up"].shape[1]
    assert (changed["embeddings.word_embeddings.weight"] == weights["embeddings.word_embeddings.weight"]).all()
    assert changed[minilm.CASE_VECTORS].shape == (8, minilm.SIZE)
    bias = "encoder.layer.0.output.dense.bias"
    assert np.allclose(changed[bias], weights[bias] + adapter[bias])


def test_the_tuned_model_is_sensitive_to_case(weights) -> None:
    tuned = minilm.Encoder(minilm.adapted(weights, minilm.adapter()))
    small, capital = (token_vectors(tuned, [["he", "met", word]], [6])[2, 0] for word in ("rose", "Rose"))
    assert np.linalg.norm(small - capital) > 0.1 * np.linalg.norm(small)


def test_each_type_of_features_extends_the_previous_one() -> None:
    sentences = [["Angela", "Merkel", "visited", "Paris", "."], ["it", "rains"]]
    package, progress_values = embeddings.find("en_core_web_md").folder, []
    contextual, tuned, names = (
        features(kind, package, sentences, progress_values.append) for kind in ("contextual", "tuned", "names")
    )
    assert [part.shape for part in (contextual, tuned, names)] == [(7, 256), (7, 640), (7, 676)]
    assert (tuned[:, :256] == contextual).all()
    assert (names[:, :640] == tuned).all()
    assert np.allclose(np.linalg.norm(tuned[:, 256:], axis=1), 1, atol=1e-5)
    assert (names[:, 640:] == found_names(package, sentences)).all()
    assert progress_values[-1] == 1.0
    assert max(progress_values) == 1.0


def test_each_part_of_the_features_has_one_computation() -> None:
    assert {part.name for part in ALL_FEATURES.parts if part.in_context} == set(IN_CONTEXT)
    assert {part.name for part in ALL_FEATURES.parts if not part.in_context} == set(OUT_OF_CONTEXT)
