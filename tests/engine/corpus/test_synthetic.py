"""The embedded corpus is the same everywhere, and cannot be solved without context."""

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


def test_another_process_generates_the_same(corpus):
    code = "from engine.corpus import synthetic as s; print(s.content_checksum(s._generate()))"
    environment = {"PYTHONHASHSEED": "7", "PATH": ""}
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert made.stdout.strip() == synthetic.CHECKSUM == corpus.checksum


def test_no_sentence_occurs_twice(corpus):
    every = [" ".join(sentence.tokens).lower() for sentence in (*corpus.train, *corpus.validation, *corpus.test)]
    assert len(set(every)) == len(every)


def test_every_tag_sequence_is_well_formed(corpus):
    for sentence in (*corpus.train, *corpus.validation, *corpus.test):
        before = "O"
        assert len(sentence.tokens) == len(sentence.tags)
        for tag in sentence.tags:
            assert tag == "O" or tag[0] == "B" or before[2:] == tag[2:]
            before = tag


def test_many_names_of_the_test_part_are_new(corpus):
    there = names(corpus.test)
    assert 0.4 < len(there - names(corpus.train)) / len(there) < 0.7


def test_words_are_names_places_organisations_and_words(corpus):
    tags: dict[str, set[str]] = {}
    for sentence in corpus.train:
        for token, tag in zip(sentence.tokens, sentence.tags, strict=True):
            tags.setdefault(token.lower(), set()).add(tag[2:])
    for word in ("rose", "grant", "may", "lincoln", "mark"):
        assert len(tags[word]) >= 3, word
    assert sum(len(kinds) >= 2 for kinds in tags.values()) > 200


def test_a_tagger_without_context_fails_and_one_with_context_does_not(corpus):
    gold = [sentence.tags for sentence in corpus.test]
    without = score(gold, majority(corpus.train, corpus.test)).f1
    with_context = score(gold, context(corpus.train, corpus.test)).f1
    assert without < 0.6
    assert with_context > without + 0.25
