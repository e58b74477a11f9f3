"""Counts compared with seqeval, with brute force and with manual values."""

import subprocess
import sys
import warnings
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics import classification_report, f1_score
from seqeval.scheme import IOB2, Entities

from engine import records
from engine.corpus.sentences import entities
from engine.errors import InvalidConfig
from engine.records import Counts, EntityScores, SidedCounts, micro
from engine.scoring import score

TAGS = ("O", "O", "B-PER", "I-PER", "B-LOC", "I-LOC", "B-ORG", "I-ORG")


def tag_pairs(length: int = 12) -> st.SearchStrategy[list[tuple[str, str]]]:
    """Draw one sentence as (gold, predicted) tags in any order, also ill-formed."""
    return st.lists(st.tuples(st.sampled_from(TAGS), st.sampled_from(TAGS)), min_size=1, max_size=length)


def sides(sentences: list[list[tuple[str, str]]]) -> tuple[list[list[str]], list[list[str]]]:
    return [[g for g, _ in s] for s in sentences], [[p for _, p in s] for s in sentences]


@given(st.lists(st.sampled_from(TAGS), max_size=15))
def test_entities_equal_seqeval(tags):
    expected = [(e.tag, e.start, e.end) for e in Entities([tags], IOB2).entities[0]]
    assert list(entities(tags)) == expected


@given(st.lists(tag_pairs(), min_size=1, max_size=6))
def test_strict_scores_equal_seqeval(sentences):
    gold, predicted = sides(sentences)
    scores = score(gold, predicted)
    if not scores.strict:
        assert scores.f1 == 0  # seqeval has no average over no class
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = classification_report(gold, predicted, mode="strict", scheme=IOB2, output_dict=True, zero_division=0)
    ours = {name: counts.ratios for name, counts in scores.strict.items()}
    for average in ("micro", "macro", "weighted"):
        ours[f"{average} avg"] = getattr(records, average)(scores.strict.values())
    assert set(ours) == set(report)
    for name, ratios in ours.items():
        theirs = (report[name]["precision"], report[name]["recall"], report[name]["f1-score"])
        assert (ratios.precision, ratios.recall, ratios.f1) == pytest.approx(theirs), name
    assert {name: counts.gold for name, counts in scores.strict.items()} == {
        n: report[n]["support"] for n in scores.strict
    }


@given(tag_pairs(10))
def test_relaxed_is_maximum_matching(sentence):
    gold, predicted = sides([sentence])
    for kind, counts in score(gold, predicted).relaxed.items():
        there = [set(range(a, b)) for k, a, b in entities(gold[0]) if k == kind]
        found = [set(range(a, b)) for k, a, b in entities(predicted[0]) if k == kind]
        few, many = sorted((there, found), key=len)
        best = max(sum(bool(a & b) for a, b in zip(few, order, strict=False)) for order in permutations(many, len(few)))
        assert counts == Counts(best, len(found), len(there))


@given(st.lists(tag_pairs(15), min_size=1, max_size=4))
def test_many_to_many_counts_all_pairs(sentences):
    expected: dict[str, list[int]] = {}
    for gold_tags, predicted_tags in zip(*sides(sentences), strict=True):
        there = [(k, set(range(a, b))) for k, a, b in entities(gold_tags)]
        found = [(k, set(range(a, b))) for k, a, b in entities(predicted_tags)]
        for own, others, place in ((found, there, 0), (there, found, 2)):
            for kind, tokens in own:
                counts = expected.setdefault(kind, [0, 0, 0, 0])
                counts[place] += any(kind == other and tokens & covered for other, covered in others)
                counts[place + 1] += 1
    many_to_many = score(*sides(sentences)).many_to_many
    assert many_to_many == {kind: SidedCounts(*counts) for kind, counts in expected.items()}
    assert list(many_to_many) == sorted(many_to_many)


@given(st.lists(tag_pairs(), min_size=1, max_size=6))
def test_metrics_are_consistent(sentences):
    gold, predicted = sides(sentences)
    scores = score(gold, predicted)
    for kind in scores.strict:
        strict, relaxed = scores.strict[kind], scores.relaxed[kind]
        assert strict.correct <= relaxed.correct <= min(relaxed.predicted, relaxed.gold)
        assert (strict.predicted, strict.gold) == (relaxed.predicted, relaxed.gold)
        several = scores.many_to_many[kind]
        assert relaxed.correct <= min(several.right, several.found)
        assert (several.predicted, several.gold) == (strict.predicted, strict.gold)
        assert strict.ratios.f1 <= relaxed.ratios.f1 <= several.ratios.f1 + 1e-12
    assert scores.f1 <= micro(scores.relaxed.values()).f1 <= scores.many_to_many_ratios.f1 + 1e-12
    flat = [pair for sentence in sentences for pair in sentence]
    assert set(scores.token) == {tag for pair in flat for tag in pair}
    for tag, counts in scores.token.items():
        assert counts.gold == sum(g == tag for g, _ in flat)
        assert counts.predicted == sum(p == tag for _, p in flat)
        assert counts.correct == sum(g == p == tag for g, p in flat)


def test_ill_formed_entities_do_not_count():
    gold, predicted = [["B-PER", "I-PER", "O"]], [["I-PER", "I-PER", "O"]]
    assert f1_score(gold, predicted) == 1.0  # pitfall: by default, I-PER at the start counts as an entity
    assert score(gold, predicted).strict == {"PER": Counts(0, 0, 1)}
    assert score(gold, predicted).relaxed == {"PER": Counts(0, 0, 1)}


def test_scores_equal_manual_values():
    gold = [
        ["B-PER", "I-PER", "O", "B-LOC"],
        ["O", "B-ORG", "I-ORG", "I-ORG"],
        ["B-LOC", "B-LOC", "O", "O"],
    ]
    predicted = [
        ["B-PER", "I-PER", "O", "B-ORG"],  # PER correct; LOC missed, ORG spurious
        ["O", "O", "B-ORG", "I-ORG"],  # ORG begins too late: correct only when relaxed
        [
            "B-LOC",
            "I-LOC",
            "O",
            "I-LOC",
        ],  # two locations predicted as one: half of it when relaxed; a stray I- counts nothing
    ]
    scores = score(gold, predicted)
    assert scores.strict == {"LOC": Counts(0, 1, 3), "ORG": Counts(0, 2, 1), "PER": Counts(1, 1, 1)}
    assert scores.relaxed == {"LOC": Counts(1, 1, 3), "ORG": Counts(1, 2, 1), "PER": Counts(1, 1, 1)}
    assert scores.many_to_many == {
        "LOC": SidedCounts(right=1, predicted=1, found=2, gold=3),  # the merged prediction finds both
        "ORG": SidedCounts(right=1, predicted=2, found=1, gold=1),
        "PER": SidedCounts(right=1, predicted=1, found=1, gold=1),
    }
    assert (scores.precision, scores.recall, scores.f1) == pytest.approx((1 / 4, 1 / 5, 2 / 9))
    ratios = scores.many_to_many_ratios  # precision 3 of 4, recall 4 of 5
    assert (ratios.precision, ratios.recall, ratios.f1) == pytest.approx((3 / 4, 4 / 5, 24 / 31))
    assert scores.token == {
        "B-LOC": Counts(1, 1, 3),
        "B-ORG": Counts(0, 2, 1),
        "B-PER": Counts(1, 1, 1),
        "I-LOC": Counts(0, 2, 0),
        "I-ORG": Counts(1, 1, 2),
        "I-PER": Counts(1, 1, 1),
        "O": Counts(3, 4, 4),
    }
    assert records.EntityScores.from_dict(scores.to_dict()) == scores


def test_one_entity_predicted_in_three_parts():
    """One-to-one: one of three is correct. Many-to-many: all three are, and the one entity is found."""
    scores = score([["B-ADE"] + ["I-ADE"] * 4], [["B-ADE", "O", "B-ADE", "I-ADE", "B-ADE"]])
    assert scores.relaxed == {"ADE": Counts(1, 3, 1)}
    assert scores.many_to_many == {"ADE": SidedCounts(right=3, predicted=3, found=1, gold=1)}
    assert (micro(scores.relaxed.values()).f1, scores.many_to_many_ratios.f1) == (0.5, 1.0)


def test_many_to_many_requires_type_and_shared_token():
    scores = score([["B-ADE", "I-ADE", "O", "B-Drug"]], [["B-Drug", "I-Drug", "B-Drug", "O"]])
    assert scores.many_to_many == {"ADE": SidedCounts(0, 0, 0, 1), "Drug": SidedCounts(0, 2, 0, 1)}
    assert scores.many_to_many_ratios.f1 == 0


def test_no_entity_found_is_zero_except_with_o_included():
    """A tagger that predicts only O finds no entity but scores 0.746 (CoNLL-2003 test: 38,323 of 46,435 tags are O)."""
    gold = [["O"] * 38_323 + ["B-LOC"] * 8_112]
    scores = score(gold, [["O"] * 46_435])
    assert scores.f1 == 0
    assert records.weighted(scores.tokens(outside=True)).f1 == pytest.approx(0.746, abs=5e-4)
    assert records.weighted(scores.tokens(outside=False)).f1 == 0


def test_scores_without_sentences_or_entities_are_zero():
    assert score([], []).f1 == 0
    assert score([["O", "O"]], [["O", "O"]]).f1 == 0
    assert score([[]], [[]]).token == {}
    nothing = score([["O"]], [["O"]])
    assert nothing.many_to_many_ratios == micro(nothing.relaxed.values())
    assert EntityScores.from_dict(nothing.to_dict()).many_to_many == {}


@pytest.mark.parametrize(
    ("gold", "predicted", "words"),
    [
        ([["O"], ["O", "O"]], [["O"], ["O"]], "predicted sentence 2 has 1 tags, expected 2"),
        ([["O"]], [], "predicted has 0 sentences, expected 1"),
        ([["O"]], [["S-PER"]], "predicted sentence 1 has the tag 'S-PER'"),
        ([["O"], ["B-"]], [["O"], ["O"]], "gold sentence 2 has the tag 'B-'"),
        ([["PER"]], [["O"]], "gold sentence 1 has the tag 'PER'"),
    ],
)
def test_mismatched_sides_raise_invalid_config(gold, predicted, words):
    with pytest.raises(InvalidConfig, match=words):
        score(gold, predicted)


def test_import_loads_no_heavy_packages():
    code = "import sys, engine.scoring; print([m for m in ('pandas', 'sklearn', 'seqeval') if m in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )
