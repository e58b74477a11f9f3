"""Features besides word vectors: word shape, bfloat16 rounding, and the stored projection."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import numpy as np
import pytest

from engine import corpus
from engine.config import ENCODERS, FEATURE_SETS, SimulationConfig
from engine.config.encoder_registry import MPNET
from engine.embeddings import features
from engine.embeddings.encoding import name_of
from engine.embeddings.vectors import find
from engine.embeddings.word_shape import CASES, SIZE, case, shapes
from engine.errors import RunStopped, TrainingFailed
from engine.simulation.setup import prepare
from engine.training.batches import batch_of
from engine.training.row_lookup import rows_of


def test_word_shape_features_are_fixed() -> None:
    words = ["London", "EU", "B", "rose", "1996-08-22", "McCall", "--", "didn't", "a/b", "42"]
    found = shapes(words)
    assert found.shape == (10, SIZE)
    assert found.dtype == np.float32
    by_word = dict(zip(words, found, strict=True))
    assert by_word["London"][1] == 1  # a capital, then small letters
    assert by_word["EU"][2] == 1  # capitals
    assert by_word["B"][3] == 1
    assert by_word["rose"][0] == 1
    assert by_word["McCall"][5] == 1
    assert by_word["42"][6] == 1
    assert by_word["--"][8] == 1
    assert (shapes([]) == np.zeros((0, SIZE))).all()
    assert (found == shapes(words)).all()


def test_case_distinguishes_words_with_equal_lower_case_pieces() -> None:
    found = [case(word) for word in ("the", "42", "B2", "--", "EU", "London", "McCall", "iPod", "A")]
    assert found == [0, 1, 2, 3, 4, 5, 6, 7, 5]
    assert max(found) < CASES


def test_narrow_rounds_to_bfloat16_within_one_part_in_256() -> None:
    random = np.random.default_rng(0)
    values = (random.standard_normal((50, 7)) * 10.0 ** random.integers(-6, 6, (50, 7))).astype(np.float32)
    values[0, 0] = 0
    back = rows_of(features.narrow(values), np.arange(50))
    assert back.dtype == np.float32
    assert (np.abs(back - values) <= np.abs(values) / 256).all()
    assert back[0, 0] == 0
    # Round to nearest, ties to even: 1 + 1/256 lies halfway between 1 and 1 + 1/128.
    halves = np.array([1 + 1 / 256, 1 + 3 / 256, 1.5], np.float32)
    assert rows_of(features.narrow(halves[None]), np.zeros(1, np.int64))[0].tolist() == [1.0, 1 + 1 / 64, 1.5]


def test_rows_of_returns_rows_of_arrays_and_mapped_files(tmp_path) -> None:
    table = np.arange(12, dtype=np.float32).reshape(4, 3)
    rows = np.array([2, 0, 2])
    assert (rows_of(table, rows) == table[rows]).all()
    np.save(tmp_path / "t.npy", features.narrow(table))
    mapped = np.load(tmp_path / "t.npy", mmap_mode="r")
    assert (rows_of(mapped, rows) == table[rows]).all()


def test_each_feature_set_contains_the_one_before_it() -> None:
    sets = list(FEATURE_SETS.values())
    names = ["vectors", "shapes", "contextual", "tuned", "names", "layer", "layer-names"]
    assert [features.name for features in sets] == names
    assert [features.width() for features in sets] == [300, 317, 573, 957, 993, 401, 437]
    assert [features.width(MPNET) for features in sets[-2:]] == [785, 821]
    assert FEATURE_SETS["layer"].width("bert-12x1024-0123456789abcdef") == 1041
    assert [features.copied for features in sets] == [300, 317, 317, 317, 317, 17, 17]
    for smaller, larger in [*pairwise(sets[:5]), sets[5:]]:
        assert larger.parts[: len(smaller.parts)] == smaller.parts


def test_features_of_undeclared_width_are_refused() -> None:
    with pytest.raises(ValueError, match="features='shapes' have 316 values, expected 317"):
        features.of_tokens(FEATURE_SETS["shapes"], ["a"], np.zeros((1, 299), np.float32))


@pytest.fixture
def with_shapes(trained_settings):
    config = SimulationConfig.from_flat({"features": "shapes", "tagger": "linear-crf", "window": 1})
    return config, prepare(config, trained_settings).sides[0].encoded, trained_settings


def test_each_token_has_a_row_of_vector_and_shape(with_shapes) -> None:
    config, encoded, settings = with_shapes
    found = corpus.resolve("synthetic", settings).load()
    words = [token for sentence in found.test for token in sentence.tokens]
    plain = prepare(SimulationConfig(), settings).sides[0].encoded
    rows = rows_of(encoded.vectors, encoded.test.rows)
    assert np.allclose(rows[:, 300:], shapes(words) / 2)
    assert np.allclose(rows[:, :300], plain.vectors[plain.test.rows] / 6.86, rtol=1 / 128, atol=1e-6)
    assert encoded.test.rows[-1] == len(encoded.vectors) - 1
    assert (encoded.test.tags == plain.test.tags).all()
    batch = batch_of(encoded.train, encoded.vectors, np.array([5, 3]))
    assert batch.words.shape == (batch.lengths.sum(), 317)
    assert prepare(config, settings).sides[0].tagger.layers[0].outputs == 3 * 317


def test_stored_features_are_not_computed_again(with_shapes, monkeypatch) -> None:
    config, encoded, settings = with_shapes
    monkeypatch.setattr(features, "_table", None)
    again = prepare(config, settings).sides[0].encoded
    assert (again.vectors == encoded.vectors).all()


def test_encode_waits_for_another_run_with_the_lock(with_shapes, monkeypatch) -> None:
    config, encoded, settings = with_shapes
    handle = corpus.resolve("synthetic", settings)
    name = f"{name_of(handle.checksum, find(config.embeddings))}-shapes-4.npy"
    made = handle.artefacts.local_path(name).read_bytes()
    handle.artefacts.remove(name)
    monkeypatch.setattr(features, "_table", lambda *_: pytest.fail("the other run computes it"))

    class OtherRun:
        """Another run that holds the lock, and writes the features once it is waited for."""

        @contextmanager
        def alone(self, locked: str, waiting) -> Iterator[None]:
            assert locked == name
            waiting()
            handle.artefacts.local_path(name).write_bytes(made)
            yield

    monkeypatch.setattr(type(handle.artefacts), "lock", OtherRun.alone)
    progress_values: list[float] = []
    again = features.encode(handle, config.embeddings, "shapes", progress_values.append)
    assert progress_values == [0.0]
    assert (again.vectors == encoded.vectors).all()


def test_context_windows_copy_vectors_and_shapes_only(with_shapes, monkeypatch) -> None:
    config, encoded, settings = with_shapes
    assert encoded.copied == 317
    monkeypatch.setattr(features, "_table", lambda *_: np.zeros((1, 317 + 256 + 384), np.uint16))
    tuned = features.encode(corpus.resolve("synthetic", settings), config.embeddings, "tuned")
    assert tuned.vectors.shape[1] == 957
    assert tuned.copied == 317


def test_stored_projection_has_means_and_directions_per_layer() -> None:
    basis = features.projection()
    for layer in features.LAYERS:
        assert basis[f"mean{layer}"].shape == (384,)
        assert basis[f"directions{layer}"].shape == (384, features.KEPT)


@pytest.mark.parametrize("name", ENCODERS)
def test_stored_statistics_have_the_size_of_the_layer(name) -> None:
    found = features.projection(features.statistics_of(name))
    assert found["mean"].shape == (ENCODERS[name].size,)
    assert 1 < found["length"] < 100


class TestSubprocess:
    def run(self, tmp_path, monkeypatch, code: str, progress=lambda share: None):
        """Return the contextual vectors if the process runs this code instead."""
        popen = features.subprocess.Popen

        def start(command, **more):
            return popen([sys.executable, "-c", code, *command[3:]], **more)

        monkeypatch.setattr(features.subprocess, "Popen", start)
        return features._in_context({"tuned-layer": [["a"]]}, tmp_path, tmp_path, progress)

    def test_result_is_read_and_its_folder_removed(self, tmp_path, monkeypatch) -> None:
        progress_values = []
        code = (
            "import sys, numpy; print(0.5); print(1.0); numpy.savez(sys.argv[4], **{'tuned-layer': numpy.ones((1, 2))})"
        )
        found = self.run(tmp_path, monkeypatch, code, progress_values.append)
        assert {name: rows.tolist() for name, rows in found.items()} == {"tuned-layer": [[1, 1]]}
        assert progress_values == [0.5, 1.0]
        assert list(tmp_path.iterdir()) == []

    def test_an_error_is_reported_and_its_folder_removed(self, tmp_path, monkeypatch) -> None:
        with pytest.raises(TrainingFailed, match=r"vectors .*no model here"):
            self.run(tmp_path, monkeypatch, "raise SystemExit('no model here')")
        assert list(tmp_path.iterdir()) == []

    def test_a_stopped_run_ends_the_process(self, tmp_path, monkeypatch) -> None:
        def stop(share: float) -> None:
            raise RunStopped("stopped")

        with pytest.raises(RunStopped):
            self.run(tmp_path, monkeypatch, "import time; print(0.1, flush=True); time.sleep(600)", stop)
        assert list(tmp_path.iterdir()) == []
