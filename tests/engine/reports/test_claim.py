"""Texts and document on a privacy claim."""

import dataclasses
import json

import pytest

from engine.privacy.claim import FACTS, UNITS, Claim
from engine.reports import claim as texts
from engine.reports.document.formats import FORMATS

CLAIM = Claim(epsilon=0.7, examples=2000, batch_size=200, epochs=2.0)
STATED = dataclasses.replace(CLAIM, unit="person", known=frozenset(FACTS))


@pytest.mark.parametrize(
    ("epsilon", "delta", "number"),
    [(0.7, 0.0, 67), (0.7, 1e-5, 67), (1e-3, 0.0, 51), (5.0, 0.0, 100), (20.0, 1e-5, 100), (0.1, 0.5, 77)],
)
def test_success_rates_are_rounded_to_the_safe_side(epsilon, delta, number) -> None:
    assert texts.successes(epsilon, delta) == number


def test_headline_names_the_unit_or_says_that_it_is_missing() -> None:
    assert texts.headline(CLAIM) == "An attacker may be right about one sentence in at most 67 of 100 guesses."
    assert "does not state whom or what ε protects" in texts.headline(dataclasses.replace(CLAIM, unit="unknown"))
    assert "limits nothing in practice" in texts.headline(dataclasses.replace(CLAIM, epsilon=20.0))


def test_a_large_delta_is_named() -> None:
    paragraphs = texts.meaning(dataclasses.replace(CLAIM, delta=1e-3))
    assert "too large" in paragraphs[-1]
    assert any("Why is δ" in question for question in texts.questions(dataclasses.replace(CLAIM, delta=1e-3)))
    assert len(texts.meaning(dataclasses.replace(CLAIM, delta=0.0))) == 1


def test_each_missing_fact_has_a_row_and_a_question() -> None:
    rows = texts.consequence_rows(CLAIM)
    assert [row["missing fact"] for row in rows] == [*(fact.title for fact in FACTS.values()), "Together"]
    assert rows[3]["ε could be"] == "∞ (no limit)"
    assert rows[4]["ε could be"] == "unknown"
    assert texts.largest(CLAIM).startswith("8 facts are missing. If they are as they often are, only ε = ")
    assert len(texts.questions(CLAIM)) == len(FACTS) + 1
    assert texts.letter(CLAIM).count("\n") == len(FACTS) + 2


def test_a_complete_claim_has_neither() -> None:
    assert texts.consequence_rows(STATED) == []
    assert texts.questions(STATED) == []
    assert "states every fact" in texts.largest(STATED)
    assert "the same limit holds for each person" in texts.person(STATED)


@pytest.mark.parametrize("made", [CLAIM, STATED, *(dataclasses.replace(STATED, unit=unit) for unit in UNITS)])
def test_document_is_complete_in_each_format(made) -> None:
    document = texts.document(made, "2026-01-02T03:04:05+00:00")
    drawn = {name: format.draw(document) for name, format in FORMATS.items() if name != "pdf"}
    for name in ("html", "md"):
        assert all(field in drawn[name].decode() for field in ("Controller", "Signature", "Review date"))
    assert json.loads(drawn["json"])["figures"]["epsilon"] == 0.7


@pytest.mark.repeats
def test_document_becomes_a_pdf() -> None:
    assert FORMATS["pdf"].draw(texts.document(CLAIM, "2026-01-02T03:04:05+00:00")).startswith(b"%PDF")
