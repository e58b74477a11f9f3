"""Forward pass of encoders against two independent ones: in float64, and in TensorFlow, as it was before."""

import numpy as np
import pytest

from engine.embeddings import minilm, transformer
from engine.embeddings.contextual import token_vectors
from engine.embeddings.custom_model import Shape
from engine.embeddings.transformer import DISTANCE_BIAS, Encoder, distance_bias
from engine.embeddings.word_pieces import Pieces, batches, word_pieces
from engine.embeddings.word_shape import case
from tests.engine.embeddings.encoders import minilm_weights, mpnet_bucket, reference_layers

SENTENCES = [["EU", "rejects", "German", "call"], ["Rabinovich", "said", ":", "No", "."], ["B2-bomber"]]
NO_CASES = np.zeros(99, np.int32)


@pytest.fixture(scope="module")
def weights():
    return minilm_weights()


@pytest.fixture(scope="module")
def encoder(weights):
    return Encoder(weights, minilm.SHAPE, range(7))


def random_weights(shape: Shape, *, inner: int, places: int, vocabulary: int = 40) -> dict[str, np.ndarray]:
    """Return weights of an encoder, of a size at which each part matters."""
    random, size = np.random.default_rng(3), shape.size
    sizes = {
        "embeddings.word_embeddings.weight": (vocabulary, size),
        "embeddings.position_embeddings.weight": (places + shape.first_position, size),
        "embeddings.LayerNorm.weight": (size,),
        "embeddings.LayerNorm.bias": (size,),
    }
    if shape.kind == "mpnet":
        sizes[DISTANCE_BIAS] = (32, shape.heads)
    else:
        sizes["embeddings.token_type_embeddings.weight"] = (2, size)
    for number in range(shape.layers):
        name = f"encoder.layer.{number}."
        matrices = {f"attention.self.{kind}": (size, size) for kind in ("query", "key", "value")}
        matrices |= {"attention.output.dense": (size, size), "intermediate.dense": (inner, size)}
        for part, rows in (matrices | {"output.dense": (size, inner)}).items():
            sizes |= {f"{name}{part}.weight": rows, f"{name}{part}.bias": rows[:1]}
        for part in ("attention.output", "output"):
            sizes |= {f"{name}{part}.LayerNorm.{each}": (size,) for each in ("weight", "bias")}
    return {name: random.normal(0, 0.3, rows).astype(np.float32) for name, rows in sizes.items()}


def pieces_of(*lengths: int) -> list[Pieces]:
    random = np.random.default_rng(sum(lengths))
    return [Pieces(random.integers(0, 40, size).astype(np.int32), np.zeros(size, np.int32)) for size in lengths]


class TestForwardPass:
    @pytest.mark.parametrize("kind", ["bert", "mpnet"])
    @pytest.mark.parametrize(("size", "heads", "inner"), [(32, 2, 80), (48, 3, 40)])
    def test_equals_the_reference_implementation(self, kind, size, heads, inner) -> None:
        shape = Shape(kind=kind, layers=3, size=size, heads=heads, epsilon=1e-5)
        values = random_weights(shape, inner=inner, places=60)
        pieces = pieces_of(1, 7, 45)
        found = Encoder(values, shape, range(4)).vectors(pieces, NO_CASES)
        assert found.shape == (53, 4, size)
        expected = np.concatenate([np.stack(reference_layers(values, each.ids, shape), 1) for each in pieces])
        assert np.abs(found - expected).max() < 1e-5

    def test_of_minilm_equals_the_reference_implementation(self, weights, encoder) -> None:
        pieces = word_pieces(SENTENCES)
        found = encoder.vectors(pieces, NO_CASES)
        expected = np.concatenate([np.stack(reference_layers(weights, each.ids, minilm.SHAPE), 1) for each in pieces])
        assert np.abs(found - expected).max() < 1e-5

    def test_of_minilm_equals_tensorflow(self, weights) -> None:
        from benchmarks.train_public_adapter import TensorFlowEncoder, padded

        cases = np.array([case(word) for sentence in SENTENCES for word in sentence], np.int32)
        pieces = word_pieces(SENTENCES)
        for values in (weights, minilm.adapted(weights, minilm.adapter())):
            ids, words, mask = padded(pieces)
            spelt = np.where(words >= 0, cases[np.maximum(words, 0)], 0)
            theirs = np.stack(TensorFlowEncoder(values).layers(ids, mask, spelt), 2)[mask > 0]
            ours = Encoder(values, minilm.SHAPE, range(7)).vectors(pieces, cases)
            assert np.abs(ours - theirs).max() < 1e-5

    def test_does_not_depend_on_the_batch_to_the_last_digit(self, weights, encoder) -> None:
        pieces = word_pieces([*SENTENCES, ["a", "long", "sentence"] * 30])
        together = encoder.vectors(pieces, NO_CASES)
        alone = np.concatenate([encoder.vectors([each], NO_CASES) for each in pieces])
        assert np.array_equal(together, alone)

    def test_only_used_layers_are_read(self, weights) -> None:
        fewer = {name: value for name, value in weights.items() if "layer.4" not in name and "layer.5" not in name}
        found = Encoder(fewer, minilm.SHAPE, (2, 4)).vectors(word_pieces(SENTENCES), NO_CASES)
        every = Encoder(weights, minilm.SHAPE, range(7)).vectors(word_pieces(SENTENCES), NO_CASES)
        assert np.array_equal(found, every[:, [2, 4]])

    def test_gelu_and_exponential_are_accurate(self) -> None:
        from scipy.special import ndtr

        values = np.linspace(-12, 12, 4001).astype(np.float32)
        exact = values.astype(float) * ndtr(values.astype(float))
        assert np.abs([transformer._gelu(x) for x in values] - exact).max() < 2e-6
        below = -np.geomspace(1e-6, 86, 2001).astype(np.float32)
        assert np.abs([transformer._exp(x) for x in below] / np.exp(below.astype(float)) - 1).max() < 2e-7
        assert transformer._exp(np.float32(0)) == 1
        assert transformer._exp(np.float32(-1e9)) < 2e-38


class TestDistanceBias:
    def test_reads_the_rows_of_the_published_code(self) -> None:
        table = np.arange(64, dtype=np.float32).reshape(32, 2)
        found = distance_bias(table, 2, 300)
        assert found.shape == (2, 599)
        expected = [mpnet_bucket(distance) for distance in range(-299, 300)]
        assert (found == table[expected].T).all()

    def test_has_the_borders_of_the_paper(self) -> None:
        rows = distance_bias(np.arange(32, dtype=np.float32)[:, None], 1, 200)[0].astype(int)
        later, earlier = rows[199:], rows[199::-1]
        assert earlier[:8].tolist() == list(range(8))
        assert np.flatnonzero(np.diff(earlier[7:])).tolist() == [0, 4, 8, 15, 24, 38, 56, 83]
        assert later[1:].tolist() == (earlier[1:] + 16).tolist()

    def test_is_zero_without_a_table(self) -> None:
        assert not distance_bias(None, 3, 5).any()


class TestTokenVectors:
    def test_pieces_belong_to_their_tokens(self) -> None:
        first, second, third = word_pieces(SENTENCES)
        assert first.words.tolist() == [-1, 0, 1, 2, 3, -1]
        assert second.words[1] == 4
        assert second.words[-2] == 8
        assert set(third.words[1:-1]) == {9}
        assert len(third.ids) > 4  # a word of several pieces

    def test_a_word_has_the_mean_of_its_pieces(self, encoder) -> None:
        pieces = word_pieces(SENTENCES)
        found = token_vectors(encoder, SENTENCES)
        last = encoder.vectors(pieces[2:], NO_CASES)
        assert found.shape == (10, 7, minilm.SHAPE.size)
        assert np.allclose(found[9], last[1:-1].mean(0), atol=1e-6)

    def test_a_long_sentence_is_split(self, weights) -> None:
        long = ["word"] * 1200
        stretches = word_pieces([long])
        assert [len(stretch.ids) - 2 for stretch in stretches] == [510, 510, 180]
        vectors = token_vectors(Encoder(weights, minilm.SHAPE, [0]), [long])
        assert vectors.shape == (1200, 1, minilm.SHAPE.size)
        assert np.abs(vectors).sum(-1).min() > 0

    def test_a_token_without_pieces_has_a_zero_vector(self, encoder) -> None:
        progress_values = []
        vectors = token_vectors(encoder, [["\u200b", "Bonn"], []], progress_values.append)
        assert (vectors[0] == 0).all()
        assert np.abs(vectors[1]).sum() > 0
        assert progress_values[-1] == 1.0

    def test_batches_are_complete_bounded_and_by_length(self) -> None:
        pieces = pieces_of(3, 50, 7, 20, 1, 300)
        found = list(batches(pieces, 64))
        assert [len(each.ids) for batch in found for each in batch] == [1, 3, 7, 20, 50, 300]
        assert all(len(batch) == 1 or sum(len(each.ids) for each in batch) <= 64 for batch in found)

    def test_an_error_of_the_caller_stops_it(self, encoder) -> None:
        def stop(share: float) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            token_vectors(encoder, SENTENCES, stop)
