"""Text tagging: equal to training, whole or in chunks, for any text; published models."""

import dataclasses

import numpy as np
import pytest

from engine.config import SimulationConfig
from engine.corpus.handle import CorpusHandle
from engine.embeddings.features import encode
from engine.errors import StoreError, VectorsMissing
from engine.service import Application
from engine.settings import REPOSITORY, Settings
from engine.store import published_models
from engine.taggers import build
from engine.tagging import pipeline, published_taggers
from engine.tagging.examples import examples
from engine.tagging.pipeline import TextTagger
from engine.training.model import Model
from tests.browser.chromium import in_ci
from tests.engine.tagging.test_tokenization import HOSTILE

PUBLISHED = REPOSITORY / "cached_results"
TAGS = ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")


@pytest.fixture(scope="module")
def published() -> dict[str, Model]:
    """Return the published models by their ε."""
    app = Application(dataclasses.replace(Settings.from_environment(), published=PUBLISHED))
    return {
        offer.epsilon: app.models.load(offer.run.run_id) for offer in app.tagging.available_models() if offer.epsilon
    }


@pytest.fixture(scope="module")
def text_tagger() -> TextTagger:
    return TextTagger(Settings.from_environment())


@pytest.fixture
def requires_language_model(text_tagger, published):
    """Skip a test if the language model is missing."""
    try:
        text_tagger.encode([["Rosa"]], published["inf"])
    except VectorsMissing as error:
        (pytest.fail if in_ci() else pytest.skip)(str(error))


def random_model(features: str, seed: int = 0) -> Model:
    """Return a model with random weights."""
    wide = {"vectors": (300, 300), "shapes": (317, 317)}[features]
    config = SimulationConfig.from_flat({"features": features, "tagger": "linear-crf", "window": 1})
    size = build(config.tagger, wide[0], len(TAGS), wide[1]).size
    weights = 0.3 * np.random.default_rng(seed).standard_normal(size).astype(np.float32)
    return Model(
        run_id="a" * 16,
        config=config,
        weights=weights,
        tags=TAGS,
        dimensions=wide[0],
        copied=wide[1],
        engine_version="6",
        epsilon=1.0,
        delta=1e-5,
    )


@pytest.mark.repeats
def test_features_equal_those_of_training(trained_settings):
    corpus = CorpusHandle("synthetic", trained_settings)
    sentences = [list(sentence.tokens) for sentence in corpus.load().test[:40]]
    for features in ("vectors", "shapes"):
        known = encode(corpus, "en_core_web_md", features)
        first, last = known.test.offsets[0], known.test.offsets[40]
        ours = TextTagger(trained_settings).encode(sentences, random_model(features))
        np.testing.assert_array_equal(ours.table[ours.split.rows], known.vectors[known.test.rows[first:last]])
        np.testing.assert_array_equal(ours.split.offsets, known.test.offsets[:41] - first)


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_any_text_is_tagged_and_tags_are_well_formed(text_tagger, text):
    (every,) = text_tagger.tag([text], [random_model("shapes")])
    (tagged,) = every
    assert len(tagged.spans) == len(tagged.tags) == len(tagged.confidence)
    assert all(0 <= share <= 1 for share in tagged.confidence)
    for before, tag in zip(["O", *tagged.tags], tagged.tags, strict=False):
        assert tag[0] != "I" or before[1:] == tag[1:]
    for one, name in tagged.inside.items():
        assert tagged.tags[one][2:] == name.type
        assert name.start <= tagged.spans[one][0] < tagged.spans[one][1] <= name.end
        assert 0 <= name.score <= tagged.confidence[one] + 1e-9
    assert len(tagged.inside) == sum(tag != "O" for tag in tagged.tags)


def test_chunked_and_single_texts_are_tagged_equally(text_tagger, monkeypatch):
    texts = [each.text for each in examples().values()]
    models = [random_model("shapes"), random_model("vectors", 1), random_model("shapes", 2)]
    together = text_tagger.tag(texts, models)
    monkeypatch.setattr(pipeline, "_CHUNK_TOKENS", 40)
    for model, expected in zip(models, together, strict=True):
        for text, one in zip(texts, expected, strict=True):
            (again,) = text_tagger.tag([text], [model])[0]
            assert (again.tags, again.spans) == (one.tags, one.spans)
            np.testing.assert_allclose(again.confidence, one.confidence, atol=1e-5)


def test_mismatched_features_are_refused(text_tagger):
    with pytest.raises(StoreError, match=r"\b300 features .*\b317\b"):
        text_tagger.tag(["Rosa"], [dataclasses.replace(random_model("vectors"), config=random_model("shapes").config)])


class TestPublished:
    @pytest.mark.repeats(area="processes")
    def test_published_models_match_their_runs_and_are_small(self, published):
        assert list(published) == ["inf", "8", "3", "1", "0.76"]
        app = Application(dataclasses.replace(Settings.from_environment(), published=PUBLISHED))
        for name, model in published.items():
            run = app.queries.get(model.run_id)
            assert run.published
            assert run.config == model.config == published_taggers.asked_for(name)
            assert model.epsilon == run.final.privacy.epsilon
            assert model.weights.dtype == np.float32
        folder = PUBLISHED / "models"
        assert sum(path.stat().st_size for path in folder.iterdir()) < 5_000_000
        assert set(published_models.sums(PUBLISHED)) == {path.name for path in folder.glob("*.npz")}

    @pytest.mark.repeats(area="processes")
    def test_published_model_scores_as_its_run(self, published, data_dir):
        """Only the paper's model: the features of the others take minutes."""
        settings = Settings.from_environment()
        scored = _scores(published["0.76"], settings)
        app = Application(dataclasses.replace(settings, published=PUBLISHED))
        assert scored.f1 == pytest.approx(app.queries.get(published["0.76"].run_id).final.test.f1, abs=0.002)

    @pytest.mark.repeats
    @pytest.mark.parametrize("with_mpnet", [True, False])
    def test_recommended_settings_find_common_entities(self, text_tagger, requires_language_model, with_mpnet):
        text = "Angela Merkel met officials of the United Nations in Geneva on Monday."
        app = Application(dataclasses.replace(Settings.from_environment(), published=PUBLISHED))
        configs = published_taggers.published(with_mpnet)
        for name in ("inf", "8", "3", "1"):
            model = app.models.load(app.queries.find(configs[name]).run_id)
            ((tagged,),) = text_tagger.tag([text], [model])
            assert [(text[each.start : each.end], each.type) for each in tagged.entities] == [
                ("Angela Merkel", "PER"),
                ("United Nations", "ORG"),
                ("Geneva", "LOC"),
            ]
            assert all(each.score > 0.5 for each in tagged.entities)

    def test_minilm_is_used_without_mpnet(self, monkeypatch):
        for installed in (True, False):
            monkeypatch.setattr(published_taggers, "has_mpnet", lambda installed=installed: installed)
            assert published_taggers.published() == published_taggers.published(installed)
        (with_mpnet, without) = map(published_taggers.published, (True, False))
        assert list(with_mpnet) == list(without)
        assert [name for name in with_mpnet if with_mpnet[name] == without[name]] == [published_taggers.PAPER]

    def test_warning_says_that_the_seed_is_public(self):
        assert "does not protect" in published_taggers.warning(1.0)
        assert "without noise" in published_taggers.warning(float("inf"))


def _scores(model, settings):
    from engine.simulation.setup import prepare

    return prepare(model.config, settings).sides[0].scores("test", model.weights, lambda: None)
