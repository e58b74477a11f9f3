"""Replacements of entities, and their positions in both texts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import InvalidConfig
from engine.tagging.entities import Entity
from engine.tagging.examples import examples
from engine.tagging.redaction import MASK, REPLACEMENTS, redact

TYPES = ("PER", "LOC", "ORG", "MISC", "Disease")


@st.composite
def texts_with_entities(draw):
    """Draw a text with ordered, disjoint entities."""
    text = draw(st.text(st.characters(exclude_categories=()), min_size=1, max_size=80))
    borders = sorted(draw(st.sets(st.integers(0, len(text)), max_size=8)))
    pairs = zip(borders[::2], borders[1::2], strict=False)
    return text, [Entity(start, end, draw(st.sampled_from(TYPES)), 0.5) for start, end in pairs]


@given(texts_with_entities(), st.sampled_from(REPLACEMENTS))
def test_positions_match_both_texts(given_text, replace):
    text, names = given_text
    new = redact(text, names, replace)
    assert [each.entity for each in new.replaced] == names
    at = there = 0
    for each in new.replaced:
        assert new.text[there : each.start] == text[at : each.entity.start]
        assert new.text[each.start : each.end] == each.replacement
        at, there = each.entity.end, each.end
    assert new.text[there:] == text[at:]
    for fields, each in zip(new.fields["entities"], new.replaced, strict=True):
        assert new.fields["text"][fields["new_start"] : fields["new_end"]] == fields["replacement"]
        assert (fields["start"], fields["end"]) == (each.entity.start, each.entity.end)


@given(texts_with_entities())
def test_masks_keep_text_length(given_text):
    text, names = given_text
    new = redact(text, names, "mask").text
    assert len(new) == len(text)
    hidden = {place for name in names for place in range(name.start, name.end)}
    assert all(sign == (MASK if place in hidden else text[place]) for place, sign in enumerate(new))


def entities_of_words(text: str, *names: tuple[str, str]) -> list[Entity]:
    """Return entities by their words, each after the previous one."""
    found, at = [], 0
    for name, kind in names:
        start = text.index(name, at)
        at = start + len(name)
        found.append(Entity(start, at, kind))
    return found


def test_type_placeholders():
    text = "Rosa Hale met Ann in Ulm."
    assert (
        redact(text, entities_of_words(text, ("Rosa Hale", "PER"), ("Ulm", "LOC")), "type").text
        == "[PER] met Ann in [LOC]."
    )


def test_equal_names_get_equal_pseudonyms_in_their_case():
    text = "Rosa Hale wrote to Ann. ROSA\nHALE came; Hale and Rosa left ulm for Ulm."
    names = entities_of_words(
        text,
        *[("Rosa Hale", "PER"), ("Ann", "PER"), ("ROSA\nHALE", "PER"), ("Hale", "PER"), ("Rosa", "PER")],
        *[("ulm", "LOC"), ("Ulm", "LOC")],
    )
    whole, ann, loud, last, first, small, large = (
        each.replacement for each in redact(text, names, "pseudonym").replaced
    )
    assert len({whole, ann, last, first, large}) == 5
    assert loud == whole.upper()
    assert whole.split() == [first, last]
    assert small == large.lower()
    assert not {"rosa", "hale", "ann", "ulm"} & {word.lower() for word in [*whole.split(), ann, large]}


def test_pseudonyms_depend_on_the_text_only():
    one = examples()["Letter: To the landlord"]
    assert redact(one.text, one.names, "pseudonym") == redact(one.text, one.names, "pseudonym")
    other = redact(one.text + " ", one.names, "pseudonym")
    assert other.text.strip() != redact(one.text, one.names, "pseudonym").text


@pytest.mark.parametrize("example", examples().values(), ids=list(examples()))
def test_pseudonyms_are_new_and_distinct(example):
    new = redact(example.text, example.names, "pseudonym")
    for kind in ("PER", "LOC", "ORG"):
        given_names = {}
        for each in new.replaced:
            if each.entity.type == kind:
                name = " ".join(example.text[each.entity.start : each.entity.end].casefold().split())
                assert given_names.setdefault(name, each.replacement.casefold()) == each.replacement.casefold()
                assert each.replacement.casefold() not in example.text.casefold()
        assert len(set(given_names.values())) == len(given_names)


def test_unknown_replacement_is_rejected():
    with pytest.raises(InvalidConfig, match=r"replace='hide',.* type, pseudonym, mask"):
        redact("Rosa", [], "hide")
