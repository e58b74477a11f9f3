"""BIO2 and BIOES: all rows of up to four tags, compared with seqeval and the file reader."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval.scheme import IOB2, IOBES, Entities

from engine.corpus import conll
from engine.corpus.sentences import entities
from engine.corpus.tag_schemes import from_bioes, to_bioes
from engine.scoring import score

BIO2 = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
BIOES = (*BIO2, "E-PER", "S-PER", "E-LOC", "S-LOC")


def rows(tags: tuple[str, ...], longest: int = 4) -> list[list[str]]:
    return [list(row) for length in range(1, longest + 1) for row in itertools.product(tags, repeat=length)]


def seqeval_entities(row: list[str], scheme: type) -> set[tuple[str, int, int]]:
    """Return the entities that seqeval finds; it drops ill-formed ones."""
    return {(each.tag, each.start, each.end) for each in Entities([row], scheme).entities[0]}


def test_conversion_equals_a_result_by_hand():
    tags = ["B-PER", "I-PER", "O", "B-LOC", "B-LOC", "B-ORG", "I-ORG", "I-ORG"]
    other = ["B-PER", "E-PER", "O", "S-LOC", "S-LOC", "B-ORG", "I-ORG", "E-ORG"]
    assert to_bioes(tags) == other
    assert from_bioes(other) == tags
    assert to_bioes([]) == from_bioes([]) == []


def test_types_that_look_like_prefixes_are_kept():
    assert to_bioes(["B-S-X", "I-S-X", "B-E"]) == ["B-S-X", "E-S-X", "S-E"]
    assert from_bioes(["B-S-X", "E-S-X", "S-E"]) == ["B-S-X", "I-S-X", "B-E"]


def test_short_rows_round_trip_with_equal_entities():
    for row in rows(BIO2):
        bioes = to_bioes(row)
        assert from_bioes(bioes) == row
        assert seqeval_entities(bioes, IOBES) == seqeval_entities(row, IOB2) == set(entities(row))


@given(st.lists(st.sampled_from(BIO2), max_size=15))
def test_longer_rows_round_trip(row):
    assert from_bioes(to_bioes(row)) == row
    repaired = conll.to_bio2(row)
    assert conll.to_bio2(to_bioes(repaired)) == repaired


def test_from_bioes_uses_entity_beginnings():
    """An entity begins at each B- and S- and extends while I- and E- of its type follow, also in ill-formed rows."""
    for row in rows(BIOES):
        expected = set()
        for start, tag in enumerate(row):
            if tag[0] in "BS":
                end = start + 1
                while end < len(row) and row[end] in (f"I-{tag[2:]}", f"E-{tag[2:]}"):
                    end += 1
                expected.add((tag[2:], start, end))
        assert set(entities(from_bioes(row))) == expected


def test_well_formed_bioes_equals_seqeval():
    for row in rows(BIOES):
        after = [*row, "O"]
        complete = {
            each for each in seqeval_entities(row, IOBES) if after[each[2]] not in (f"I-{each[0]}", f"E-{each[0]}")
        }
        assert complete <= set(entities(from_bioes(row)))


@pytest.mark.parametrize(
    ("predicted", "names"),
    [
        (["E-PER", "O"], []),  # no entity has begun
        (["I-PER", "E-PER"], []),
        (["B-LOC", "E-PER"], [("LOC", 0, 1)]),
        (["B-PER", "O"], [("PER", 0, 1)]),  # no end
        (["S-PER", "E-PER"], [("PER", 0, 2)]),  # continues after its end
        (["B-PER", "B-PER"], [("PER", 0, 1), ("PER", 1, 2)]),
    ],
)
def test_ill_formed_rows_equal_results_by_hand(predicted, names):
    assert list(entities(from_bioes(predicted))) == names


def test_dropping_or_repairing_ill_formed_tags_could_score_better():
    gold = ["B-PER", "O", "O"]
    left_open = ["S-PER", "O", "B-PER"]
    assert score([gold], [from_bioes(left_open)]).f1 == pytest.approx(2 / 3)
    # If dropped, the wrong entity would not lower the score.
    assert seqeval_entities(left_open, IOBES) == {("PER", 0, 1)}
    not_begun = ["E-PER", "O", "O"]
    assert score([gold], [from_bioes(not_begun)]).f1 == 0
    assert score([gold], [conll.to_bio2(not_begun)]).f1 == 1  # repaired, it would count as correct


@pytest.mark.parametrize("tag", ["S-PER", "E-PER", "PER", "B"])
def test_other_tags_are_refused(tag):
    with pytest.raises(ValueError, match=tag):
        to_bioes(["O", tag])
