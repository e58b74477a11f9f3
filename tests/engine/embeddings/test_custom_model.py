"""Custom language models: forward pass, labels, required files and features."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from engine import corpus
from engine.cluster import worker
from engine.config import FEATURE_SETS, SimulationConfig, run_key
from engine.embeddings import custom_model, features, minilm
from engine.embeddings.contextual import fitted, token_vectors
from engine.embeddings.custom_model import OwnInContext, Shape, at, find, installed
from engine.embeddings.transformer import Encoder
from engine.embeddings.word_pieces import word_pieces
from engine.errors import InvalidConfig, TrainingFailed, VectorsMissing
from engine.service import Application
from engine.simulation.setup import prepare
from engine.training.row_lookup import rows_of
from tests.engine.embeddings.encoders import reference_layers

PIECES = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "the",
    "The",
    "aspirin",
    "helps",
    "##s",
    "patient",
    "5",
    ".",
    "mg",
]
SHAPE = {
    "model_type": "bert",
    "num_hidden_layers": 3,
    "hidden_size": 128,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 16,
    "type_vocab_size": 2,
    "vocab_size": len(PIECES),
    "layer_norm_eps": 1e-7,
    "hidden_act": "gelu",
}
SENTENCES = [["The", "patient", "helps"], ["aspirins", "5", "mg", "."]]


@pytest.fixture
def folder(tmp_path):
    """Return a small cased model in an older format: weights with a prefix, and older names of the normalisations."""
    made = tmp_path / "model"
    made.mkdir()
    random, values = np.random.default_rng(0), {}
    for name, shape in custom_model._weights(SHAPE).items():
        value = random.normal(0, 0.3, shape) + (name.endswith("LayerNorm.weight"))
        older = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
        values[f"bert.{older}"] = value.astype(np.float32)
    save_file(values | {"cls.predictions.bias": np.zeros(3, np.float32)}, made / "model.safetensors")
    (made / "config.json").write_text(json.dumps(SHAPE))
    (made / "vocab.txt").write_text("\n".join(PIECES))
    (made / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    return made


@pytest.fixture
def with_model(settings, folder):
    return dataclasses.replace(settings, language_model=folder)


class TestForwardPass:
    def test_equals_the_reference_implementation_with_custom_sizes(self, folder) -> None:
        own = at(folder)
        shape = Shape(kind="bert", layers=3, size=128, heads=4, epsilon=1e-7)
        assert (own.shape, own.places, own.used_layers) == (shape, 14, (2, 3))
        weights, pieces = minilm.Weights(own), word_pieces(SENTENCES, own)
        assert pieces[0].ids.tolist() == [2, 6, 10, 8, 3]  # "The", not "the": this model is cased
        found = Encoder(weights, shape, range(4)).vectors(pieces, np.zeros(7, np.int32))
        expected = [np.stack(reference_layers(weights, each.ids, shape), 1) for each in pieces]
        assert np.abs(found - np.concatenate(expected)).max() < 2e-5

    def test_minilm_as_custom_model_equals_minilm(self) -> None:
        own = at(minilm.folder())
        assert own.label.startswith("bert-6x384-")
        assert own.used_layers == features.LAYERS
        mine = token_vectors(Encoder(minilm.Weights(own), own.shape, (4, 6)), SENTENCES, own=own)
        usual = token_vectors(Encoder(minilm.Weights(), minilm.SHAPE, (4, 6)), SENTENCES)
        assert np.array_equal(mine, usual)

    def test_long_sentences_are_split_at_the_maximum_length(self, folder) -> None:
        stretches = word_pieces([["aspirin"] * 30], at(folder))
        assert [len(each.ids) for each in stretches] == [16, 16, 4]

    def test_do_lower_case_lower_cases_words(self, folder) -> None:
        (folder / "tokenizer_config.json").write_text('{"do_lower_case": true}')
        assert word_pieces([["The"]], at(folder))[0].ids.tolist() == [2, 5, 3]

    def test_half_precision_is_read(self, folder) -> None:
        values = load_file(folder / "model.safetensors")
        save_file({name: value.astype(np.float16) for name, value in values.items()}, folder / "model.safetensors")
        assert {np.asarray(value).dtype for value in minilm.Weights(at(folder)).values()} == {np.dtype(np.float32)}


class TestIdentity:
    def test_label_depends_on_content_only(self, folder, tmp_path) -> None:
        shutil.copytree(folder, tmp_path / "elsewhere")
        assert at(tmp_path / "elsewhere").label == at(folder).label
        vocabulary = folder / "vocab.txt"
        vocabulary.write_text(vocabulary.read_text().replace("aspirin", "ibuprofen"))
        assert at(tmp_path / "elsewhere").label != at(folder).label

    def test_label_is_part_of_a_run_and_must_match(self, with_model, folder) -> None:
        label = at(folder).label
        assert label in installed(with_model)
        config = SimulationConfig(features="contextual", language_model=label)
        usual = SimulationConfig(features="contextual")
        assert run_key(config, "corpus") != run_key(usual, "corpus")
        assert SimulationConfig.from_dict(config.to_dict()) == config
        assert find(label, with_model).folder == folder
        with pytest.raises(VectorsMissing, match=r"EPSILON_LANGUAGE_MODEL .*bert-3x"):
            find("bert-12x768-0123456789abcdef", with_model)
        with pytest.raises(VectorsMissing, match="names no folder"):
            find(label, dataclasses.replace(with_model, language_model=None))
        with pytest.raises(VectorsMissing, match="is not available"):
            Application(with_model).runs.submit(dataclasses.replace(config, language_model="bert-1x1-0"))

    @pytest.mark.parametrize("kind", ["vectors", "shapes", "tuned", "names"])
    def test_features_of_minilm_refuse_a_custom_model(self, kind) -> None:
        with pytest.raises(InvalidConfig, match=f"expected 'all-MiniLM-L6-v2' with features='{kind}'"):
            SimulationConfig(features=kind, language_model="bert-3x128-0")


class TestInvalidModels:
    @pytest.mark.parametrize("name", ["config.json", "model.safetensors", "vocab.txt"])
    def test_a_missing_file_is_named(self, folder, name) -> None:
        (folder / name).unlink()
        with pytest.raises(VectorsMissing, match=rf"{name} is missing.*config\.json, model\.safetensors"):
            at(folder)

    @pytest.mark.parametrize(
        ("field", "value", "message"),
        [
            ("model_type", "roberta", "model_type='roberta', expected 'bert' or 'mpnet'"),
            ("hidden_act", "relu", "hidden_act='relu', expected 'gelu'"),
            ("position_embedding_type", "relative_key", "expected 'absolute'"),
            ("hidden_size", 64, "hidden_size=64, expected a number from 128"),
            ("hidden_size", 136, "hidden_size=136, expected a multiple of 16"),
            ("hidden_size", "128", "hidden_size='128', expected a number"),
            ("num_attention_heads", 5, "expected a multiple of num_attention_heads=5"),
            ("num_hidden_layers", 4, "has no encoder.layer.3.attention"),
            ("intermediate_size", 47, r"intermediate.dense.weight of shape \[48, 128\], expected \[47, 128\]"),
            ("layer_norm_eps", 1, "layer_norm_eps=1, expected a number in"),
        ],
    )
    def test_another_architecture_or_shape_is_refused(self, folder, field, value, message) -> None:
        (folder / "config.json").write_text(json.dumps(SHAPE | {field: value}))
        with pytest.raises(VectorsMissing, match=message):
            at(folder)

    @pytest.mark.parametrize(
        ("name", "content", "message"),
        [
            ("config.json", b"[]", "config.json contains no table"),
            ("config.json", b"\xff{", "config.json is not valid JSON"),
            ("model.safetensors", b"\x80\x02}q\x00.", "model.safetensors is"),  # the beginning of a pickle
            ("model.safetensors", b"\x02" + bytes(7) + b"{}", "has no embeddings.word_embeddings.weight"),
            ("tokenizer_config.json", b"{}", "does not say whether words are lower-cased"),
        ],
    )
    def test_invalid_content_is_refused(self, folder, name, content, message) -> None:
        (folder / name).write_bytes(content)
        with pytest.raises(VectorsMissing, match=message):
            at(folder)

    def test_truncated_or_too_large_weights_are_refused(self, folder, monkeypatch) -> None:
        path = folder / "model.safetensors"
        path.write_bytes(path.read_bytes()[:-4000])
        with pytest.raises(VectorsMissing, match="is truncated"):
            at(folder)
        monkeypatch.setitem(custom_model._MOST_BYTES, "model.safetensors", 1000)
        with pytest.raises(VectorsMissing, match=r"at most 1,000\b"):
            at(folder)

    def test_a_tokenizer_of_another_model_is_refused(self, folder) -> None:
        (folder / "vocab.txt").write_text("\n".join([*PIECES, "one", "more"]))
        with pytest.raises(VectorsMissing, match=r"\b16 pieces.*at most 14\b"):
            word_pieces(SENTENCES, at(folder))
        (folder / "tokenizer.json").write_text('{"model": 3}')
        with pytest.raises(VectorsMissing, match="cannot be read"):
            word_pieces(SENTENCES, at(folder))


def test_projection_whitens_and_has_fixed_signs() -> None:
    vectors = np.random.default_rng(0).normal(3, [5.0, 1.0] * 100, (700, 1, 200)).astype(np.float32)
    found = fitted(vectors, [2])
    white = (vectors[:, 0] - found["mean2"]) @ found["directions2"]
    assert white.shape == (700, features.KEPT)
    assert np.allclose(np.cov(white.T, bias=True) * features.KEPT, np.eye(features.KEPT), atol=1e-3)
    assert (np.take_along_axis(found["directions2"], np.abs(found["directions2"]).argmax(0)[None], 0) > 0).all()


class TestFeatures:
    @pytest.fixture(scope="class")
    def encodings(self, tmp_path_factory):
        """Return a folder with what has been encoded, by the model's label: an encoding starts two processes."""
        return tmp_path_factory.mktemp("encodings")

    @pytest.fixture
    def encoded(self, with_model, folder, tmp_path, monkeypatch, encoded, encodings):
        """Return a function that encodes a small corpus with this model; a few sentences replace Wikigold."""
        words = np.random.default_rng(1).choice(PIECES[5:], (60, 5)).tolist()
        monkeypatch.setattr(OwnInContext, "public_sentences", lambda self: words)
        with_model.home.mkdir()
        (encoded / "vectors").mkdir(exist_ok=True)
        (with_model.home / "vectors").symlink_to(encoded / "vectors")
        file = tmp_path / "drugs.conll"
        file.write_text("The O\naspirin B-Drug\nhelps O\n\n" * 20)
        handle = corpus.resolve(str(file), with_model)

        def encode():
            label = at(folder).label
            if (encodings / label).exists():
                shutil.copytree(encodings / label, with_model.home, dirs_exist_ok=True)
            found = features.encode(handle, "en_core_web_md", "contextual", own=OwnInContext(label, with_model))
            for name in ("encoded", "projections"):
                shutil.copytree(with_model.home / name, encodings / label / name, dirs_exist_ok=True)
            return found

        return encode

    @pytest.mark.repeats
    def test_features_are_layers_whitened_on_public_sentences(self, encoded, with_model, folder) -> None:
        own = at(folder)
        split = encoded().train
        table = encoded().vectors
        assert table.shape[1] == FEATURE_SETS["contextual"].width()
        assert len(list((with_model.home / "encoded").glob(f"*-contextual-{own.label}-*.npy"))) == 1
        with np.load(with_model.home / "projections" / f"{own.label}-2.npz") as basis:
            mine = token_vectors(
                Encoder(minilm.Weights(own), own.shape, own.used_layers), [["The", "aspirin", "helps"]], own=own
            )
            expected_layers = [
                (mine[:, at] - basis[f"mean{layer}"]) @ basis[f"directions{layer}"] for at, layer in enumerate((2, 3))
            ]
        features_of_words = rows_of(table, split.rows[:3])[:, 317:]
        assert np.allclose(features_of_words, np.concatenate(expected_layers, 1), rtol=1 / 64, atol=0.05)

    @pytest.mark.repeats
    def test_stored_features_need_no_model_and_differ_by_model(self, encoded, with_model, folder) -> None:
        before = np.array(encoded().vectors)
        label = at(folder).label
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | {"layer_norm_eps": 1e-3}))
        assert at(folder).label != label
        after = np.array(encoded().vectors)
        assert len(list((with_model.home / "encoded").glob("*-contextual-*.npy"))) == 2
        assert not np.array_equal(before, after)
        shutil.rmtree(folder)
        handle = corpus.resolve(str(folder.parent / "drugs.conll"), with_model)
        kept = features.encode(handle, "en_core_web_md", "contextual", own=OwnInContext(label, with_model))
        assert np.array_equal(kept.vectors, before)

    @pytest.mark.repeats
    def test_a_run_uses_the_features_and_records_the_label(self, encoded, with_model, folder) -> None:
        file, label = folder.parent / "drugs.conll", at(folder).label
        encoded()
        config = SimulationConfig.from_flat(
            {"corpus": str(file), "features": "contextual", "language_model": label, "batch_size": 4}
        )
        prepared = prepare(config, with_model)
        assert prepared.sides[0].encoded.vectors.shape == encoded().vectors.shape

        made = worker.provenance(config, corpus.resolve(str(file), with_model), 1.0)
        assert made.vectors.endswith(f", {label}")
        assert f"--language-model {label}" in made.command

    @pytest.mark.repeats
    def test_a_model_that_changes_during_encoding_is_refused(
        self, encoded, with_model, folder, monkeypatch, encodings
    ) -> None:
        shutil.rmtree(encodings, ignore_errors=True)
        real = features.with_projection

        def changed(own, kind, progress):
            result = real(own, kind, progress)
            (folder / "vocab.txt").write_text("\n".join(reversed(PIECES)))
            return result

        monkeypatch.setattr(features, "with_projection", changed)
        with pytest.raises(TrainingFailed, match="was changed while"):
            encoded()
