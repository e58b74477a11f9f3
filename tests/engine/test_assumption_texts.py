"""Assumptions of ε in records: readers see today's wording, whichever version wrote the record."""

import json

import pytest

from engine.records import PrivacySpent, assumption_texts
from engine.settings import REPOSITORY

TODAY = {
    *(text for name, text in vars(assumption_texts).items() if name.isupper() and isinstance(text, str)),
    *assumption_texts._EARLIER.values(),
}


def test_earlier_wordings_have_another_text_and_a_sentence_of_today():
    assert not TODAY & assumption_texts._EARLIER.keys()
    assert len(set(assumption_texts._EARLIER.values())) > 12
    for earlier, today in assumption_texts._EARLIER.items():
        spent = {"epsilon": 1.0, "rdp_epsilon": 1.0, "delta": 1e-5, "assumptions": [earlier, "my own"]}
        assert PrivacySpent.from_dict(spent).assumptions == (today, "my own")


@pytest.mark.parametrize("number", ["1", "56", "1,234"])
def test_number_of_left_out_sentences_is_kept(number):
    earlier = (
        f"Each sentence is trained on by one platform alone: {number} that others have too, but for case and "
        "punctuation, were left out, and to find them platforms compare checksums; ε is that of the one who pays most."
    )
    assert assumption_texts.current(earlier) == assumption_texts.APART.format(number=number)
    later = (
        f"Each sentence is used by one client (silo) only: {number} sentences that another silo also has, ignoring "
        "case and punctuation, were left out. Silos compare checksums to find them. Which sentences silos share is "
        "fixed, and ε does not protect it; ε is that of the worst-case silo."
    )
    assert assumption_texts.current(later) == assumption_texts.APART.format(number=number)
    assert not assumption_texts.of_moved_sentences([later]), "these records name their own adjacency"


def test_published_runs_have_the_wording_of_today():
    files = (REPOSITORY / "cached_results").glob("*.json")
    records = (record for file in files for record in json.loads(file.read_text("utf-8"))["records"])
    stated = {text for record in records for text in PrivacySpent.from_dict(record["privacy"]).assumptions}
    apart = assumption_texts.APART.partition("{number}")[0]
    assert len(stated) > 5
    assert {text for text in stated if not text.startswith(apart)} <= TODAY
