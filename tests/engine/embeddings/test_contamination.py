"""Overlap of a corpus with the fitted sentences, and its consequences."""

import dataclasses
import hashlib
import math
from unicodedata import normalize

import numpy as np
import pytest

from engine import corpus
from engine.corpus import Sentence
from engine.embeddings import contamination
from engine.errors import StoreError
from engine.records import PrivacySpent

LONG = ("The", "Tower", "of", "London", "stands", ".")
SHORT = ("The", "Tower", ".")


def of(text: str) -> int:
    """The first 16 hexadecimal digits of SHA-256."""
    return int(hashlib.sha256(text.encode()).hexdigest()[:16], 16)


@pytest.fixture
def fitted(monkeypatch):
    """Parts that were fitted on other sentences: those that are put into the list."""
    sentences: list[tuple[str, ...]] = []
    monkeypatch.setattr(contamination, "fitted_on", lambda part: contamination.checksums(sentences))
    return sentences


@pytest.fixture
def here(settings, data_dir):
    return dataclasses.replace(settings, data_dir=data_dir)


@pytest.mark.parametrize(
    "tokens",
    [LONG, ("the", "TOWER", "of", "London", "stands"), ("The Tower", "of", "Lon", "don", "stands", "!"), ("“", *LONG)],
)
def test_a_copy_is_known_however_it_was_cut_and_quoted(tokens):
    assert contamination.checksum(tokens) == of("thetoweroflondonstands")


def test_other_words_are_another_sentence():
    assert contamination.checksum(("The", "Tower", "of", "Londons", "tand")) == of("thetoweroflondonstand")
    assert contamination.checksum(("5", ".")) == of("5") != contamination.checksum(("6", "."))
    assert contamination.checksum(("(", "...", ")")) is None
    assert contamination.checksum(("ﬁne", "Straße")) == of("finestrasse")
    assert contamination.words(("5", "km", ",", "2", "-3", ")")) == 4


def test_every_sentence_of_wikigold_is_among_those_that_are_kept(data_dir):
    """The file is read here by other means."""
    text = (data_dir / "wikigold" / "wikigold.conll.txt").read_text(encoding="utf-8")
    blocks = [block.splitlines() for block in text.split("\n\n")]
    sentences = [[line.split(" ")[0] for line in block] for block in blocks if block and "-DOCSTART-" not in block[0]]
    texts = [normalize("NFKC", "".join(tokens)).casefold() for tokens in sentences]
    plain = {"".join(filter(str.isalnum, text)) for text in texts} - {""}
    assert len(sentences) == 1_696
    for part in ("projection", "adapter"):
        assert contamination.fitted_on(part).tolist() == sorted(map(of, plain))
        assert contamination.fitted_on(part).dtype == np.uint64


@pytest.mark.parametrize("features", list(contamination.RESTS_ON))
def test_wikigold_itself_is_not_apart(here, features):
    found = contamination.overlap(corpus.resolve("wikigold", here), features)
    assert found.sentences == (1_356, 170, 170)
    assert [a + b for a, b in zip(found.shared, found.short, strict=True)] == [1_356, 170, 170]
    assert found.breaks_privacy
    assert found.share("train") == found.share("test") == 1.0
    assert len(found.warnings) == 2
    assert contamination.rests_on_corpus(features, corpus.resolve("wikigold", here).checksum)
    assert not contamination.rests_on_corpus("shapes", corpus.resolve("wikigold", here).checksum)
    assert not contamination.rests_on_corpus(features, corpus.resolve("btc", here).checksum)
    for plain in ("vectors", "shapes"):
        assert contamination.overlap(corpus.resolve("wikigold", here), plain) == contamination.NONE


@pytest.mark.parametrize(("name", "short"), [("conll2003", (3, 0, 0)), ("btc", (1, 0, 0)), ("wnut17", (0, 0, 0))])
def test_corpora_that_have_nothing_to_do_with_it_are_apart(here, name, short):
    """Whatever is found in them is a number that stands alone."""
    found = contamination.overlap(corpus.resolve(name, here), "names")
    assert found.shared == (0, 0, 0)
    assert found.short == short
    assert not found.warnings
    assert found.share("train") == 0.0


def test_the_embedded_corpus_is_apart(settings):
    found = contamination.overlap(corpus.resolve("synthetic", settings), "names")
    assert (found.sentences, found.shared, found.short) == ((4_400, 600, 1_000), (0, 0, 0), (0, 0, 0))


def test_one_training_sentence_is_enough_and_a_short_one_is_not(settings, fitted):
    whole = corpus.resolve("synthetic", settings).load()
    fill = tuple(Sentence(("x",), ("O",)) for _ in range(9))
    some = dataclasses.replace(
        whole, train=(*fill, Sentence(SHORT, ("O",) * 3)), validation=(Sentence(LONG, ("O",) * 6),), test=fill
    )
    fitted += [LONG, SHORT]
    found = contamination.of_corpus(some, "contextual")
    assert (found.shared, found.short) == ((0, 1, 0), (1, 0, 0))
    assert not found.breaks_privacy
    assert not found.optimism_bias()
    assert all(part in found.optimism_bias("validation") for part in ("1 of 1 validation", "(100.0%)"))
    worse = dataclasses.replace(some, train=(*some.train, Sentence(LONG, ("O",) * 6)), test=some.validation)
    found = contamination.of_corpus(worse, "contextual")
    assert found.breaks_privacy
    # Beside a long one, the short one is no chance.
    assert all(part in found.privacy_text for part in ("2 of 11 training", "(18.2%)"))
    assert all(part in found.optimism_bias() for part in ("1 of 1 test", "(100.0%)"))
    assert contamination.of_corpus(worse, "shapes").shared == (0, 0, 0)


def test_nothing_is_promised_where_the_features_know_the_sentences():
    spent = PrivacySpent(epsilon=0.5, delta=1e-5, rdp_epsilon=0.6, poisson_epsilon=3.0, assumptions=("a",))
    found = contamination.Overlap((10, 1, 1), (1, 0, 0), (0, 0, 0))
    told = contamination.apply_contamination(spent, found)
    assert math.isinf(told.epsilon)
    assert math.isinf(told.rdp_epsilon)
    assert told.poisson_epsilon is None
    assert told.assumptions == (found.privacy_text,)
    assert contamination.apply_contamination(spent, dataclasses.replace(found, shared=(0, 1, 1))) is spent
    open_ = PrivacySpent(epsilon=math.inf, delta=1e-5)
    assert contamination.apply_contamination(open_, found) is open_


def test_it_is_worked_out_once_for_each_content(settings, monkeypatch):
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


def test_a_home_that_cannot_be_written_is_said(settings):
    settings.home.mkdir()
    (settings.home / "overlaps").write_text("in the way")
    with pytest.raises(StoreError, match="cannot be written"):
        contamination.overlap(corpus.resolve("synthetic", settings), "names")
