"""Page Check a claim: its inputs, its answer and the worked examples."""

import pytest

from pages.claim.examples import EXAMPLES


def test_the_answer_follows_the_inputs(open_page) -> None:
    test = open_page("claim")
    assert test.markdown[0].value == "### An attacker may be right about one sentence in at most 67 of 100 guesses."
    assert test.code[0].value.count("?") == 9
    test.checkbox(key="known_sampling").check().run()
    assert test.code[0].value.count("?") == 8
    test.selectbox(key="unit").select("unknown").run()
    assert "promises nothing yet" in test.markdown[0].value
    test.number_input(key="epsilon").set_value(3.0)
    test.selectbox(key="unit").select("person").run()
    assert "one person, with all their data in at most 96 of 100" in test.markdown[0].value
    assert test.number_input(key="records").disabled
    assert not test.exception


def test_a_link_restores_the_claim(open_page) -> None:
    test = open_page("claim", epsilon="2.5", unit="a document", known_seed="true")
    assert test.number_input(key="epsilon").value == 2.5
    assert test.selectbox(key="unit").value == "document"
    assert test.checkbox(key="known_seed").value


def test_numbers_without_an_answer_are_explained(open_page) -> None:
    test = open_page("claim", delta="1e-300")
    assert test.markdown[0].value == "### No answer for these numbers"
    assert test.error


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_each_example_fills_in_its_claim(open_page, number) -> None:
    test = open_page("claim")
    test.button(key=f"example_{number}").click().run()
    claim = EXAMPLES[number].claim
    assert test.number_input(key="epsilon").value == claim.epsilon
    assert {box.key.removeprefix("known_") for box in test.checkbox if box.value} == claim.known
    assert not test.exception
    assert not test.error
