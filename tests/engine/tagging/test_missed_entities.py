"""Missed entities compared with manual results, and the annotated examples."""

import pytest

from engine.tagging.entities import Entity, Tagged, left
from engine.tagging.examples import FILE, examples
from engine.tagging.missed_entities import Name, gaps, of_others

TEXT = "Rosa Hale-Lund, of Ulm, met Ann."
SPANS = ((0, 4), (5, 14), (14, 15), (16, 18), (19, 22), (22, 23), (24, 27), (28, 31), (31, 32))
WHOLE, ULM, ANN = Entity(0, 14, "PER"), Entity(19, 22, "LOC"), Entity(28, 31, "PER")


def tagged(*names: Entity) -> Tagged:
    tags = []
    for start, end in SPANS:
        inside = [each for each in names if each.start <= start and end <= each.end]
        tags.append(f"{'B' if inside[0].start == start else 'I'}-{inside[0].type}" if inside else "O")
    return Tagged(SPANS, tuple(tags), (1.0,) * len(SPANS), names)


def test_entity_is_left_until_fully_covered():
    names = [WHOLE, ULM]
    assert left(TEXT, names, [WHOLE, ULM]) == []
    assert left(TEXT, names, [Entity(0, 4, "ORG")]) == [WHOLE, ULM]
    assert left(TEXT, names, [Entity(0, 4, "PER"), Entity(5, 9, "PER"), Entity(10, 14, "PER")]) == [ULM]


def test_gaps_map_uncovered_tokens_to_missed_entities():
    every = [Name(WHOLE), Name(ULM), Name(ANN)]
    assert gaps(TEXT, tagged(WHOLE, ULM, ANN), every) == {}
    assert gaps(TEXT, tagged(Entity(0, 4, "PER"), ANN), every) == {1: Name(WHOLE), 4: Name(ULM)}
    assert gaps(TEXT, tagged(), [Name(Entity(14, 16, "ORG"))]) == {}  # a comma alone


def test_equal_entities_of_other_taggers_are_merged():
    every = {"a": tagged(WHOLE), "b": tagged(WHOLE, ULM), "c": tagged(Entity(19, 22, "ORG"))}
    assert of_others("a", every) == [
        Name(Entity(0, 14, "PER"), ("b",)),
        Name(Entity(19, 22, "LOC"), ("b",)),
        Name(Entity(19, 22, "ORG"), ("c",)),
    ]
    assert of_others("c", every)[0] == Name(WHOLE, ("a", "b"))


def test_inside_maps_tokens_to_entities():
    assert tagged(WHOLE, ANN).inside == {0: WHOLE, 1: WHOLE, 7: ANN}


def test_examples_cover_text_kinds_and_entity_types():
    every = list(examples().values())
    assert len(every) == 12
    assert {each.title.split(":")[0] for each in every} >= {"Letter", "News", "Medical", "E-mail"}
    assert {name.type for each in every for name in each.names} == {"PER", "LOC", "ORG", "MISC"}


@pytest.mark.parametrize("example", examples().values(), ids=list(examples()))
def test_example_entities_match_the_annotated_file(example):
    assert not {"[", "]"} & set(example.text)
    assert len(example.names) >= 5
    at = 0
    for name in example.names:
        assert at <= name.start < name.end
        word = example.text[name.start : name.end]
        assert word == word.strip()
        assert not example.text[name.end : name.end + 1].isalnum()
        assert not example.text[name.start - 1 : name.start].isalnum() or name.start == 0
        at = name.end
    text = example.text
    for name in example.names[::-1]:
        text = f"{text[: name.start]}[{name.type} {text[name.start : name.end]}]{text[name.end :]}"
    assert text in FILE.read_text(encoding="utf-8")
