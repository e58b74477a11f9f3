"""The embedded corpus is deterministic, and tagging it requires context."""

import subprocess
import sys

import pytest

from benchmarks.synthetic_baseline import context, majority
from engine.corpus import synthetic
from engine.corpus.sentences import entities
from engine.scoring import score


@pytest.fixture(scope="module")
def corpus():
    return synthetic.corpus()


def names(part):
    return {
        " ".join(sentence.tokens[start:end]).lower()
        for sentence in part
        for kind, start, end in entities(sentence.tags)
        if kind != "DATE"
    }


def test_sizes_and_types(corpus):
    assert (len(corpus.train), len(corpus.validation), len(corpus.test)) == (4_400, 600, 1_000)
    assert corpus.entity_types == ("DATE", "LOC", "ORG", "PER")
    assert corpus.synthetic


def test_generation_is_equal_in_another_process(corpus):
    code = "from engine.corpus import synthetic as s; print(s.content_checksum(s._generate()))"
    environment = {"PYTHONHASHSEED": "7", "PATH": ""}
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert process.stdout.strip() == synthetic.CHECKSUM == corpus.checksum


def test_sentences_are_unique(corpus):
    texts = [" ".join(sentence.tokens).lower() for sentence in (*corpus.train, *corpus.validation, *corpus.test)]
    assert len(set(texts)) == len(texts)


def test_tag_sequences_are_well_formed(corpus):
    for sentence in (*corpus.train, *corpus.validation, *corpus.test):
        before = "O"
        assert len(sentence.tokens) == len(sentence.tags)
        for tag in sentence.tags:
            assert tag == "O" or tag[0] == "B" or before[2:] == tag[2:]
            before = tag


def test_half_of_the_test_entities_are_unseen_in_training(corpus):
    in_test = names(corpus.test)
    assert 0.4 < len(in_test - names(corpus.train)) / len(in_test) < 0.7


def test_words_are_ambiguous_between_entity_types(corpus):
    tags: dict[str, set[str]] = {}
    for sentence in corpus.train:
        for token, tag in zip(sentence.tokens, sentence.tags, strict=True):
            tags.setdefault(token.lower(), set()).add(tag[2:])
    for word in ("rose", "grant", "may", "lincoln", "mark"):
        assert len(tags[word]) >= 3, word
    assert sum(len(kinds) >= 2 for kinds in tags.values()) > 200


@pytest.mark.repeats
def test_context_baseline_beats_majority_baseline(corpus):
    gold = [sentence.tags for sentence in corpus.test]
    without = score(gold, majority(corpus.train, corpus.test)).f1
    with_context = score(gold, context(corpus.train, corpus.test)).f1
    assert without < 0.6
    assert with_context > without + 0.25
