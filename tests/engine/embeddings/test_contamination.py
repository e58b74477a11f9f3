"""Overlap of a corpus with the fitted sentences, and its consequences."""

import dataclasses
import hashlib
import math
from unicodedata import normalize

import numpy as np
import pytest

from engine import corpus
from engine.config import SimulationConfig
from engine.corpus import Sentence
from engine.embeddings import contamination
from engine.errors import StoreError
from engine.records import PrivacySpent
from engine.service import Application

LONG = ("The", "Tower", "of", "London", "stands", ".")
SHORT = ("The", "Tower", ".")


def sha256_prefix(text: str) -> int:
    """Return the first 16 hexadecimal digits of SHA-256 as a number."""
    return int(hashlib.sha256(text.encode()).hexdigest()[:16], 16)


@pytest.fixture
def fitted(monkeypatch):
    """Return a list that replaces the sentences that the features were fitted on."""
    sentences: list[tuple[str, ...]] = []
    monkeypatch.setattr(contamination, "fitted_on", lambda part: contamination.checksums(sentences))
    return sentences


@pytest.fixture
def with_corpora(settings, data_dir):
    return dataclasses.replace(settings, data_dir=data_dir)


@pytest.mark.parametrize(
    "tokens",
    [LONG, ("the", "TOWER", "of", "London", "stands"), ("The Tower", "of", "Lon", "don", "stands", "!"), ("“", *LONG)],
)
def test_checksum_ignores_tokenisation_case_and_quotes(tokens):
    assert contamination.checksum(tokens) == sha256_prefix("thetoweroflondonstands")


def test_checksum_depends_on_letters_and_digits():
    assert contamination.checksum(("The", "Tower", "of", "Londons", "tand")) == sha256_prefix("thetoweroflondonstand")
    assert contamination.checksum(("5", ".")) == sha256_prefix("5") != contamination.checksum(("6", "."))
    assert contamination.checksum(("(", "...", ")")) is None
    assert contamination.checksum(("ﬁne", "Straße")) == sha256_prefix("finestrasse")
    assert contamination.words(("5", "km", ",", "2", "-3", ")")) == 4


def test_all_sentences_of_wikigold_are_stored_as_fitted_on(data_dir):
    """An independent reader parses the file."""
    text = (data_dir / "wikigold" / "wikigold.conll.txt").read_text(encoding="utf-8")
    blocks = [block.splitlines() for block in text.split("\n\n")]
    sentences = [[line.split(" ")[0] for line in block] for block in blocks if block and "-DOCSTART-" not in block[0]]
    texts = [normalize("NFKC", "".join(tokens)).casefold() for tokens in sentences]
    plain = {"".join(filter(str.isalnum, text)) for text in texts} - {""}
    assert len(sentences) == 1_696
    for part in ("projection", "adapter", "statistics", "head"):
        assert contamination.fitted_on(part).tolist() == sorted(map(sha256_prefix, plain))
        assert contamination.fitted_on(part).dtype == np.uint64


@pytest.mark.parametrize("features", ["contextual", "tuned", "names"])
def test_wikigold_overlaps_completely(with_corpora, features):
    overlap = contamination.overlap(corpus.resolve("wikigold", with_corpora), features)
    assert overlap.sentences == (1_356, 170, 170)
    assert [a + b for a, b in zip(overlap.shared, overlap.short, strict=True)] == [1_356, 170, 170]
    assert overlap.breaks_privacy
    assert overlap.share("train") == overlap.share("test") == 1.0
    assert len(overlap.warnings) == 2
    checksums = {name: corpus.resolve(name, with_corpora).checksum for name in ("wikigold", "btc")}
    config = SimulationConfig.from_flat({"corpus": "btc", "features": features})
    assert contamination.rests_on_corpus(config, checksums["wikigold"])
    assert not contamination.rests_on_corpus(config, checksums["btc"])
    spelling = SimulationConfig.from_flat({"corpus": "wikigold", "features": "shapes"})
    assert not contamination.rests_on_corpus(spelling, checksums["wikigold"])
    for plain in ("vectors", "shapes"):
        assert contamination.overlap(corpus.resolve("wikigold", with_corpora), plain) == contamination.NONE


@pytest.mark.parametrize("name", ["wikigold", "wikigold@1", "btc + wikigold"])
def test_corpus_that_is_not_available_is_known_by_its_name(settings, name):
    """Without its sentences, a preview would show a finite ε."""
    config = SimulationConfig.from_flat({"corpus": name, "features": "layer-names", "clip_norm": 0.3})
    app = Application(dataclasses.replace(settings, data_dir=None))
    overlap = app.queries.overlap(config)
    assert overlap.breaks_privacy
    assert "sentences of Wikigold, on which these features were fitted" in overlap.privacy_text
    assert overlap.warnings == (overlap.privacy_text,)
    private = PrivacySpent(epsilon=1.0, delta=1e-5)
    assert math.isinf(contamination.apply_contamination(private, overlap).epsilon)
    assert contamination.rests_on_corpus(config)
    for other in ({"features": "shapes"}, {"corpus": "btc"}):
        assert not app.queries.overlap(SimulationConfig.from_flat(config.flat() | other)).breaks_privacy
    app.close()


@pytest.mark.parametrize(("name", "short"), [("conll2003", (3, 0, 0)), ("btc", (1, 0, 0)), ("wnut17", (0, 0, 0))])
@pytest.mark.repeats
def test_other_corpora_share_short_sentences_at_most(with_corpora, name, short):
    """Their only common sentences are single numbers."""
    overlap = contamination.overlap(corpus.resolve(name, with_corpora), "names")
    assert overlap.shared == (0, 0, 0)
    assert overlap.short == short
    assert not overlap.warnings
    assert overlap.share("train") == 0.0


def test_the_embedded_corpus_does_not_overlap(settings):
    overlap = contamination.overlap(corpus.resolve("synthetic", settings), "names")
    assert (overlap.sentences, overlap.shared, overlap.short) == ((4_400, 600, 1_000), (0, 0, 0), (0, 0, 0))


def test_a_long_common_training_sentence_breaks_privacy(settings, fitted):
    whole = corpus.resolve("synthetic", settings).load()
    fill = tuple(Sentence(("x",), ("O",)) for _ in range(9))
    short_only = dataclasses.replace(
        whole, train=(*fill, Sentence(SHORT, ("O",) * 3)), validation=(Sentence(LONG, ("O",) * 6),), test=fill
    )
    fitted += [LONG, SHORT]
    overlap = contamination.of_corpus(short_only, ["contextual"])["contextual"]
    assert (overlap.shared, overlap.short) == ((0, 1, 0), (1, 0, 0))
    assert not overlap.breaks_privacy
    assert not overlap.optimism_bias()
    assert all(part in overlap.optimism_bias("validation") for part in ("1 of 1 validation", "(100.0%)"))
    with_long = dataclasses.replace(
        short_only, train=(*short_only.train, Sentence(LONG, ("O",) * 6)), test=short_only.validation
    )
    found = contamination.of_corpus(with_long, ["contextual", "shapes"])
    overlap = found["contextual"]
    assert overlap.breaks_privacy
    # With a long common sentence, a short one counts too.
    assert all(part in overlap.privacy_text for part in ("2 of 11 training", "(18.2%)"))
    assert all(part in overlap.optimism_bias() for part in ("1 of 1 test", "(100.0%)"))
    assert found["shapes"].shared == (0, 0, 0)


def test_contamination_makes_epsilon_infinite():
    spent = PrivacySpent(epsilon=0.5, delta=1e-5, rdp_epsilon=0.6, poisson_epsilon=3.0, assumptions=("a",))
    overlap = contamination.Overlap((10, 1, 1), (1, 0, 0), (0, 0, 0))
    spent_after = contamination.apply_contamination(spent, overlap)
    assert math.isinf(spent_after.epsilon)
    assert math.isinf(spent_after.rdp_epsilon)
    assert spent_after.poisson_epsilon is None
    assert spent_after.assumptions == (overlap.privacy_text,)
    assert contamination.apply_contamination(spent, dataclasses.replace(overlap, shared=(0, 1, 1))) is spent
    without_privacy = PrivacySpent(epsilon=math.inf, delta=1e-5)
    assert contamination.apply_contamination(without_privacy, overlap) is without_privacy


def test_overlap_is_computed_once_for_each_content(settings, monkeypatch):
    first = contamination.overlap(corpus.resolve("synthetic", settings), "tuned")
    load, loaded = corpus.CorpusHandle.load, []
    monkeypatch.setattr(corpus.CorpusHandle, "load", lambda handle: loaded.append(handle) or load(handle))
    assert contamination.overlap(corpus.resolve("synthetic", settings), "names") == first
    assert not loaded
    (path,) = (settings.home / "overlaps").iterdir()
    path.write_text(path.read_text()[:40])
    contamination._read.cache_clear()
    assert contamination.overlap(corpus.resolve("synthetic", settings), "names") == first
    assert len(loaded) == 1
    assert [each.name for each in (settings.home / "overlaps").iterdir()] == [path.name]


def test_an_unwritable_home_raises_store_error(settings):
    settings.home.mkdir()
    (settings.home / "overlaps").write_text("in the way")
    with pytest.raises(StoreError, match="cannot be written"):
        contamination.overlap(corpus.resolve("synthetic", settings), "names")
