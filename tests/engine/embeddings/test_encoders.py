"""Registered encoders against the reference forward pass, and their files."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
from safetensors.numpy import save_file

from engine.config import ENCODERS, MINILM, SimulationConfig, run_key
from engine.config.encoder_registry import MPNET, folder_of, size_of
from engine.embeddings import contextual, custom_model, features, minilm
from engine.embeddings.contextual import statistics, token_vectors
from engine.embeddings.custom_model import Shape, at, installed, registered
from engine.embeddings.transformer import Encoder
from engine.embeddings.word_pieces import word_pieces
from engine.errors import InvalidConfig, VectorsMissing
from tests.browser.chromium import in_ci
from tests.engine.embeddings.encoders import minilm_weights, reference_layers

PIECES = ["<s>", "<pad>", "</s>", "[UNK]", "<mask>", "the", "aspirin", "help", "##s", "."]
CONFIG = {
    "model_type": "mpnet",
    "num_hidden_layers": 4,
    "hidden_size": 128,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 24,
    "relative_attention_num_buckets": 32,
    "vocab_size": len(PIECES),
    "layer_norm_eps": 1e-5,
    "hidden_act": "gelu",
}
SENTENCES = [["EU", "rejects", "German", "call"], ["B2-bomber", "."], ["The", "lamb"] * 12]


@pytest.fixture(scope="module")
def mpnet():
    try:
        return registered(MPNET, folder_of(MPNET))
    except VectorsMissing as error:
        (pytest.fail if in_ci() else pytest.skip)(str(error))


@pytest.fixture
def folder(tmp_path):
    """Return a small MPNet with random weights, named as in its published files."""
    made = tmp_path / "model"
    made.mkdir()
    random, values = np.random.default_rng(0), {}
    for name, shape in custom_model._weights(CONFIG).items():
        theirs = name
        for before, now in custom_model._OF_MPNET.items():
            theirs = theirs.replace(f"attention.{now}.", f"attention.{before}.")
        values[f"mpnet.{theirs}"] = random.normal(0, 0.3, shape).astype(np.float32)
    save_file(values, made / "model.safetensors")
    (made / "config.json").write_text(json.dumps(CONFIG))
    (made / "vocab.txt").write_text("\n".join(PIECES))
    (made / "tokenizer_config.json").write_text('{"do_lower_case": true}')
    return made


class TestReference:
    @pytest.mark.repeats
    def test_mpnet_equals_the_reference_implementation(self, mpnet) -> None:
        layers = (1, ENCODERS[MPNET].layer)
        weights, shape = minilm.Weights(mpnet), dataclasses.replace(mpnet.shape, layers=layers[-1])
        pieces = word_pieces(SENTENCES, mpnet)
        found = Encoder(weights, mpnet.shape, layers).vectors(pieces, np.zeros(30, np.int32))
        expected = [np.stack(reference_layers(weights, each.ids, shape), 1)[:, layers] for each in pieces]
        assert np.abs(found - np.concatenate(expected)).max() < 1e-4

    def test_mpnet_reads_lower_cased_pieces_between_its_borders(self, mpnet) -> None:
        first, *_ = word_pieces(SENTENCES, mpnet)
        assert (first.ids[0], first.ids[-1]) == (0, 2)
        assert first.ids.tolist() == word_pieces([["eu", "Rejects", "german", "CALL"]], mpnet)[0].ids.tolist()
        assert mpnet.places == 510

    def test_a_custom_mpnet_equals_the_reference_implementation(self, folder) -> None:
        own = at(folder)
        shape = Shape(kind="mpnet", layers=4, size=128, heads=4, epsilon=1e-5)
        assert (own.shape, own.places, own.middle_layer) == (shape, 20, 2)
        assert own.label.startswith("mpnet-4x128-")
        weights, pieces = minilm.Weights(own), word_pieces([["the", "Aspirin", "helps"], ["."]], own)
        assert pieces[0].ids.tolist() == [0, 5, 6, 7, 8, 2]
        found = Encoder(weights, shape, range(5)).vectors(pieces, np.zeros(4, np.int32))
        expected = [np.stack(reference_layers(weights, each.ids, shape), 1) for each in pieces]
        assert np.abs(found - np.concatenate(expected)).max() < 2e-5

    def test_another_number_of_distances_is_refused(self, folder) -> None:
        (folder / "config.json").write_text(json.dumps(CONFIG | {"relative_attention_num_buckets": 16}))
        with pytest.raises(VectorsMissing, match="relative_attention_num_buckets=16, expected 32"):
            at(folder)


class TestRegistry:
    def test_minilm_has_the_registered_files_and_sizes(self) -> None:
        minilm_weights()
        found = registered(MINILM, minilm.folder())
        assert found.shape == minilm.SHAPE
        assert (found.label, found.shape.size) == (MINILM, ENCODERS[MINILM].size)

    def test_sizes_are_those_of_the_models(self, mpnet) -> None:
        assert mpnet.shape == Shape(kind="mpnet", layers=12, size=ENCODERS[MPNET].size, heads=12, epsilon=1e-5)
        assert [size_of(name) for name in (MINILM, MPNET, "mpnet-4x128-00", "unknown")] == [384, 768, 128, 0]

    def test_a_changed_or_missing_file_is_refused(self, folder, tmp_path) -> None:
        with pytest.raises(VectorsMissing, match=r"SHA-256 .*, expected d46a3e04"):
            registered(MPNET, folder)
        with pytest.raises(VectorsMissing, match="not installed; run `make setup`"):
            registered(MPNET, tmp_path / "nowhere")

    def test_installed_ones_are_offered(self, settings, folder, tmp_path, monkeypatch) -> None:
        monkeypatch.setattr(custom_model, "folder_of", lambda name: tmp_path / name)
        own = dataclasses.replace(settings, language_model=folder)
        assert installed(own) == [MINILM, at(folder).label]
        (tmp_path / MPNET).mkdir()
        assert installed(own) == [MINILM, MPNET, at(folder).label]


class TestConfiguration:
    def test_the_model_is_part_of_the_identity(self) -> None:
        config = SimulationConfig(features="layer-names", language_model=MPNET)
        assert SimulationConfig.from_dict(config.to_dict()) == config
        assert run_key(config, "corpus") != run_key(SimulationConfig(features="layer-names"), "corpus")
        own = SimulationConfig(features="layer", language_model="mpnet-4x128-0123456789abcdef")
        assert own.feature_set.width(own.language_model) == 145

    @pytest.mark.parametrize("kind", ["vectors", "contextual", "names"])
    def test_other_features_refuse_a_larger_registered_model(self, kind) -> None:
        with pytest.raises(InvalidConfig, match=r"language_model='all-mpnet-base-v2'.* 'layer' or 'layer-names'"):
            SimulationConfig(features=kind, language_model=MPNET)


def test_statistics_centre_and_scale_to_unit_length() -> None:
    vectors = np.random.default_rng(0).normal(3, 7, (500, 64)).astype(np.float32)
    found = statistics(vectors)
    features_of_words = (vectors - found["mean"]) / found["length"]
    assert np.abs(features_of_words.mean(0)).max() < 1e-5
    assert np.square(features_of_words).sum(1).mean() == pytest.approx(1, abs=1e-5)


def test_features_of_a_custom_model_use_statistics_of_public_sentences(folder, tmp_path, settings, monkeypatch) -> None:
    own = at(folder)
    public = [["the", "aspirin", "helps"], ["the", "."]]
    expected = statistics(token_vectors(Encoder(minilm.Weights(own), own.shape, [2]), public, own=own)[:, 0])
    np.savez(tmp_path / "basis.npz", allow_pickle=False, **expected)
    found = contextual.part_in_context("centred-layer", tmp_path, public, own=(own, tmp_path / "basis.npz"))
    assert found.shape == (5, 128)
    assert np.abs(found.mean(0)).max() < 1e-5
    assert np.square(found).sum(1).mean() == pytest.approx(1, abs=1e-4)


def test_features_of_minilm_are_its_third_layer_centred() -> None:
    weights = minilm_weights()
    found = contextual.part_in_context("centred-layer", None, SENTENCES)
    basis = features.projection(features.statistics_of(MINILM))
    layer = token_vectors(Encoder(weights, minilm.SHAPE, [3]), SENTENCES)[:, 0]
    assert np.array_equal(found, (layer - basis["mean"]) / basis["length"])


def test_rounded_mpnet_is_close_to_the_one_in_float32(mpnet) -> None:
    layer = ENCODERS[MPNET].layer
    exact = token_vectors(Encoder(minilm.Weights(mpnet), mpnet.shape, [layer]), SENTENCES, own=mpnet)[:, 0]
    path = features.statistics_of(MPNET)
    rounded = token_vectors(contextual.encoder_of(mpnet, (layer,), path), SENTENCES, own=mpnet)[:, 0]
    one, other = (vectors - features.projection(path)["mean"] for vectors in (exact, rounded))
    cosines = (one * other).sum(1) / np.linalg.norm(one, axis=1) / np.linalg.norm(other, axis=1)
    assert cosines.min() > 0.995
    assert np.median(cosines) < 0.9999
    own = (mpnet, path)
    found = contextual.part_in_context("centred-layer", None, SENTENCES, own=own)
    assert np.array_equal(found, other / features.projection(path)["length"])


def test_features_of_mpnet_have_unit_length_on_average(mpnet) -> None:
    own = (mpnet, features.statistics_of(MPNET))
    found = contextual.part_in_context("centred-layer", None, SENTENCES[:2], own=own)
    assert found.shape == (6, 768)
    assert 0.5 < np.square(found).sum(1).mean() < 2


def test_a_copy_elsewhere_is_the_same_model(mpnet, tmp_path) -> None:
    for name in ENCODERS[MPNET].checksums:
        (tmp_path / name).symlink_to(mpnet.folder / name)
    assert registered(MPNET, tmp_path).label == mpnet.label
    shutil.copy(mpnet.folder / "config.json", tmp_path / "changed")
    (tmp_path / "config.json").unlink()
    (tmp_path / "config.json").write_text((tmp_path / "changed").read_text() + "\n")
    with pytest.raises(VectorsMissing, match=r"config\.json has the SHA-256"):
        registered(MPNET, tmp_path)
