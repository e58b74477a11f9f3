"""The public language model: its weights, and its features."""

import numpy as np
import pytest
from safetensors.numpy import load_file

from engine import embeddings
from engine.config import FEATURE_SETS
from engine.config.feature_registry import ALL_PARTS
from engine.embeddings import minilm
from engine.embeddings.contextual import IN_CONTEXT, features, part_in_context, token_vectors
from engine.embeddings.features import OUT_OF_CONTEXT, narrow
from engine.embeddings.ner_features import found_names
from engine.embeddings.transformer import CASE_VECTORS, Encoder
from tests.engine.embeddings.encoders import minilm_weights


@pytest.fixture(scope="module")
def weights():
    return minilm_weights()


def test_adapter_changes_matrices_by_its_rank(weights) -> None:
    adapter = minilm.adapter()
    changed = minilm.adapted(weights, adapter)
    name = "encoder.layer.3.attention.self.query.weight"
    difference = changed[name] - weights[name]
    assert np.linalg.matrix_rank(difference.astype(np.float64), tol=1e-4) == adapter[f"{name}:up"].shape[1]
    assert (np.asarray(changed[minilm.WORDS]) == np.asarray(weights[minilm.WORDS])).all()
    assert changed[CASE_VECTORS].shape == (8, minilm.SHAPE.size)
    bias = "encoder.layer.0.output.dense.bias"
    assert np.allclose(changed[bias], weights[bias] + adapter[bias])


def test_rows_are_read_from_the_file_when_they_are_asked_for(weights) -> None:
    rows, every = weights[minilm.WORDS], load_file(minilm.folder() / "model.safetensors")[minilm.WORDS]
    ids = np.array([[7, 30_521], [0, 7]])
    assert (rows[ids] == every[ids]).all()
    assert (np.asarray(rows) == every).all()
    assert rows[np.zeros(0, int)].shape == (0, minilm.SHAPE.size)
    for outside in (-1, 30_522):
        with pytest.raises(IndexError, match=rf"rows {min(outside, 3)} to {max(outside, 3)}, expected 0 to 30521"):
            rows[np.array([3, outside])]


def test_the_tuned_model_is_sensitive_to_case(weights) -> None:
    tuned = Encoder(minilm.adapted(weights, minilm.adapter()), minilm.SHAPE, [6])
    small, capital = (token_vectors(tuned, [["he", "met", word]])[2, 0] for word in ("rose", "Rose"))
    assert np.linalg.norm(small - capital) > 0.1 * np.linalg.norm(small)


def test_each_type_of_features_extends_the_previous_one() -> None:
    sentences = [["Angela", "Merkel", "visited", "Paris", "."], ["it", "rains"]]
    package, progress_values = embeddings.find("en_core_web_md").folder, []
    contextual, tuned, names = (
        np.concatenate(
            [
                part_in_context(part.name, package, sentences, progress_values.append)
                for part in FEATURE_SETS[kind].parts
                if part.in_context
            ],
            axis=1,
        )
        for kind in ("contextual", "tuned", "names")
    )
    assert [part.shape for part in (contextual, tuned, names)] == [(7, 256), (7, 640), (7, 676)]
    assert (tuned[:, :256] == contextual).all()
    assert (names[:, :640] == tuned).all()
    assert np.allclose(np.linalg.norm(tuned[:, 256:], axis=1), 1, atol=1e-5)
    assert (names[:, 640:] == found_names(package, sentences)).all()
    assert progress_values[-1] == 1.0
    assert max(progress_values) == 1.0
    assert (features("tuned", package, sentences, lambda share: None) == narrow(tuned)).all()


def test_each_part_of_the_features_has_one_computation() -> None:
    assert {part.name for part in ALL_PARTS if part.in_context} == set(IN_CONTEXT)
    assert {part.name for part in ALL_PARTS if not part.in_context} == set(OUT_OF_CONTEXT)
