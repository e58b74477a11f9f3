"""A linear CRF starts from a public head, as far as the head knows the tags of its corpus."""

import dataclasses
import math
import shutil

import numpy as np
import pytest

from benchmarks import train_public_head
from engine import corpus
from engine.config import FEATURE_SETS, MINILM, SimulationConfig, head_registry, run_key
from engine.config.encoder_registry import MPNET
from engine.config.head_registry import HEADS, head_of
from engine.corpus.tag_schemes import tags_of
from engine.embeddings import contamination
from engine.embeddings.encoding import subset
from engine.errors import InvalidConfig, StoreError
from engine.service import Application
from engine.simulation import pretrained_head
from engine.simulation.run import simulate
from engine.simulation.setup import prepare
from engine.taggers import build
from tests.engine.factories import SMALL

FIELDS = {
    "data_fraction": 0.05,
    "tagger": "linear-crf",
    "features": "layer-names",
    "window": 1,
    "well_formed": True,
    "pretrained": True,
    "optimiser": "adam",
    "loss": "sum",
    "batch_size": 16,
    "epochs": 2.0,
    "clip_norm": 0.3,
}
CONFIG = SimulationConfig.from_flat(FIELDS)
HEAD = head_of("layer-names", MINILM, 1)


def changed(**fields) -> SimulationConfig:
    return SimulationConfig.from_flat(FIELDS | fields)


@pytest.fixture
def with_features(trained_settings, monkeypatch):
    """Return settings in which random numbers replace MiniLM's features, which take a minute."""
    arrays = prepare(SMALL, trained_settings).sides[0].encoded
    features = FEATURE_SETS["layer-names"]
    table = np.random.default_rng(0).normal(0, 0.05, (len(arrays.vectors), features.width())).astype(np.float32)
    made = dataclasses.replace(arrays, vectors=table, copied=features.copied)
    monkeypatch.setattr("engine.embeddings.encode", lambda *_: made)
    return trained_settings


def crf(tags):
    features = FEATURE_SETS["layer-names"]
    return build(CONFIG.tagger, features.width(), len(tags), features.copied)


def scores_by_tag(tags):
    """Return the weights of each tag's score, the bias last, and those of each pair of tags."""
    tagger = crf(tags)
    scores, chain = tagger.views(pretrained_head.initial_weights(tagger, tags, HEAD))[-2:]
    by_tag = {tag: np.append(scores["kernel"][:, n], scores["bias"][n]) for n, tag in enumerate(tags)}
    pairs = {(a, b): chain["transitions"][i, j] for i, a in enumerate(tags) for j, b in enumerate(tags)}
    return by_tag | pairs


@pytest.mark.parametrize("head", HEADS, ids=lambda head: head.file)
def test_files_are_small_finite_and_have_the_registered_checksum(head):
    arrays = pretrained_head.load(head)
    width = FEATURE_SETS[head.features].width(head.language_model) + 2 * head.window * 17
    assert {name: array.shape for name, array in arrays.items()} == {
        "kernel": (width, 9), "bias": (9,), "transitions": (9, 9), "tags": (9,),
    }  # fmt: skip
    assert all(arrays[name].dtype == np.float32 and np.isfinite(arrays[name]).all() for name in list(arrays)[:3])
    assert set(arrays["tags"].tolist()) == set(tags_of(head.types))
    assert (pretrained_head.PUBLIC / head.file).stat().st_size < 200_000


def test_each_weight_belongs_to_its_tag_in_any_order_of_tags():
    in_file = pretrained_head.load(HEAD)
    names = in_file["tags"].tolist()
    usual, other = scores_by_tag(tags_of(("PER", "ORG", "LOC", "MISC"))), scores_by_tag(("I-PER", "O", "B-PER"))
    for number, tag in enumerate(names):
        assert np.array_equal(usual[tag], np.append(in_file["kernel"][:, number], in_file["bias"][number])), tag
    for tag in ("I-PER", "O", "B-PER"):
        assert np.array_equal(other[tag], usual[tag])
        assert (
            other[tag, "I-PER"] == usual[tag, "I-PER"] == in_file["transitions"][names.index(tag), names.index("I-PER")]
        )
    assert usual["B-PER", "I-PER"] > usual["O", "I-PER"]


def test_types_are_recognised_under_other_names():
    usual = scores_by_tag(tags_of(("LOC", "ORG", "PER")))
    found = scores_by_tag(tags_of(("person", "corporation", "group", "Loc")))
    for tag, name in (("B-person", "B-PER"), ("I-corporation", "I-ORG"), ("I-Loc", "I-LOC"), ("O", "O")):
        assert np.array_equal(found[tag], usual[name]), tag
    assert found["B-person", "I-person"] == usual["B-PER", "I-PER"]
    assert not found["B-group"].any()
    assert HEAD.recognises("Person")
    assert not HEAD.recognises("Drug")


def test_types_that_the_head_lacks_start_at_zero():
    found = scores_by_tag(tags_of(("DATE", "LOC")))
    assert not found["B-DATE"].any()
    assert not found["I-DATE"].any()
    assert not any(found[pair] for pair in found if isinstance(pair, tuple) and "B-DATE" in pair)
    assert np.array_equal(found["B-LOC"], scores_by_tag(tags_of(("LOC", "MISC", "ORG", "PER")))["B-LOC"])
    assert found["B-LOC"].any()


def test_a_damaged_file_is_refused(monkeypatch, tmp_path):
    pretrained_head.load.cache_clear()
    monkeypatch.setattr(pretrained_head, "PUBLIC", tmp_path)
    with pytest.raises(StoreError, match="cannot be read"):
        pretrained_head.load(HEAD)
    (tmp_path / HEAD.file).write_bytes(b"other weights")
    with pytest.raises(StoreError, match=f"expected {HEAD.checksum}"):
        pretrained_head.load(HEAD)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"tagger": "linear-softmax"}, "tagger='linear-softmax'.* only for 'linear-crf'"),
        ({"tagger": "bilstm-crf", "window": 0}, "tagger='bilstm-crf'.* only for 'linear-crf'"),
        ({"scheme": "bioes"}, "scheme='bioes'.* only for 'bio2'"),
        ({"window": 2}, "window=2: public weights exist only for features='layer-names'"),
        ({"features": "names"}, "features='names'"),
        ({"language_model": "bert-3x128-0123456789abcdef"}, "language_model='bert-3x128-0123456789abcdef'"),
    ],
)
def test_other_taggers_and_inputs_are_refused(fields, words):
    with pytest.raises(InvalidConfig, match=f"pretrained=True, expected False.*{words}"):
        changed(**fields)
    changed(**fields, pretrained=False)


def test_identity_depends_on_the_head_and_is_unchanged_without_one(monkeypatch):
    assert changed(language_model=MPNET).public_head is not HEAD is CONFIG.public_head
    plain = changed(pretrained=False)
    before = run_key(plain, "c"), run_key(CONFIG, "c")
    # From the version before there were public heads.
    assert run_key(plain, "c", "version") == "6fa995a6915c5555e96f76c33740ce6ad142f8dc377b4f5a8f0e110503099324"
    monkeypatch.setattr(head_registry, "HEADS", [dataclasses.replace(head, checksum="0") for head in HEADS])
    after = run_key(plain, "c"), run_key(CONFIG, "c")
    assert after[0] == before[0]
    assert len({*before, *after}) == 3


@pytest.mark.parametrize("clients", [{}, {"clients": 3, "rounds": 2}, {"clients": 3, "schedule": "gradients"}])
def test_a_run_and_the_server_of_a_federation_start_from_the_head(with_features, clients):
    prepared = prepare(changed(**clients), with_features)
    tags = prepared.sides[0].encoded.tags
    assert tags == tags_of(("DATE", "LOC", "ORG", "PER"))
    assert np.array_equal(prepared.run.weights, pretrained_head.initial_weights(crf(tags), tags, HEAD))
    assert not prepare(changed(pretrained=False, **clients), with_features).run.weights.any()


def test_noise_clipping_and_epsilon_do_not_depend_on_the_start(with_features):
    pretrained, plain = (list(simulate(config, with_features))[-1] for config in (CONFIG, changed(pretrained=False)))
    assert pretrained.noise_check.passed
    assert pretrained.noise_check.clipped_norm_max <= 0.3 * (1 + 1e-5)
    assert pretrained.privacy == plain.privacy
    assert 0 < pretrained.privacy.epsilon < math.inf
    assert pretrained.loss != plain.loss


def test_a_corpus_without_a_type_of_the_head_is_refused(settings, tmp_path):
    file = tmp_path / "drugs.conll"
    file.write_text("Dose O\nAspirin B-Drug\n\n" * 40)
    with pytest.raises(InvalidConfig, match="entity types Drug: the public weights only recognise LOC, MISC, ORG, PER"):
        Application(settings).previews.plan(changed(corpus=str(file), data_fraction=1.0))
    assert Application(settings).previews.plan(CONFIG).steps > 0


def test_overlap_with_the_training_data_of_the_head_gives_infinite_epsilon(with_features, monkeypatch):
    fitted = [corpus.resolve("synthetic", with_features).load().train[7].tokens]
    only_head = {"head": contamination.checksums(fitted)}
    none = np.zeros(0, np.uint64)
    shutil.rmtree(with_features.home / "overlaps", ignore_errors=True)
    contamination._read.cache_clear()
    monkeypatch.setattr(contamination, "fitted_on", lambda part: only_head.get(part, none))
    record = next(simulate(CONFIG, with_features))
    assert math.isinf(record.privacy.epsilon)
    assert "1 of 4,400 training" in record.privacy.assumptions[0]
    assert "these features and initial weights were fitted on" in record.privacy.assumptions[0]
    assert next(simulate(changed(pretrained=False), with_features)).privacy.epsilon < math.inf


def test_wikigold_itself_is_what_the_heads_were_trained_on(settings, data_dir):
    wikigold = corpus.resolve("wikigold", dataclasses.replace(settings, data_dir=data_dir))
    config = changed(corpus="wikigold", data_fraction=1.0)
    overlap = contamination.overlap(wikigold, contamination.kind_of(config))
    assert overlap.share("train") == overlap.share("test") == 1.0
    assert all("initial weights" in warning for warning in overlap.warnings)
    assert contamination.rests_on_corpus(config, wikigold.checksum)


def test_the_trainer_gives_the_same_head_again_and_learns(with_features):
    encoded = prepare(changed(pretrained=False), with_features).sides[0].encoded
    few = np.arange(60)
    small = dataclasses.replace(
        encoded,
        train=subset(encoded.train, few),
        validation=subset(encoded.validation, few),
        test=subset(encoded.test, few),
    )
    first, again = (train_public_head.train(train_public_head.settings_of(HEAD), small) for _ in range(2))
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert first["tags"].tolist() == list(encoded.tags)
    assert first["bias"].argmax() == encoded.tags.index("O")
    assert first["kernel"].dtype == first["transitions"].dtype == np.float32
