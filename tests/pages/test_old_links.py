"""Links with labels of older versions select the options that have replaced them."""

import pytest
import streamlit as st

from engine.lessons.ablations import FAULTS
from engine.lessons.counting_queries import QUESTIONS
from engine.lessons.linkage import DEFENCES
from pages.learn import lesson_1_linkage, lesson_2_posterior, lesson_5_gradient_leakage, lesson_7_utility
from pages.startup import old_links

LETTERS = next(iter(old_links.OPTIONS["l3_ask"]))
"""Label of the letters that name a person, in version 0.7.0 or older."""


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("l1_published", DEFENCES),
        ("l1_view", lesson_1_linkage.VIEWS),
        ("l2_view", lesson_2_posterior.VIEWS),
        ("l3_ask", QUESTIONS),
        ("l5_view", lesson_5_gradient_leakage.VIEWS),
        ("l6_missing", FAULTS),
        ("l7_view", lesson_7_utility.VIEWS),
    ],
)
def test_old_labels_of_lessons_select_a_present_option(monkeypatch, name, options):
    for label in old_links.OPTIONS[name]:
        assert label not in options
        monkeypatch.setattr(st, "query_params", {name: label, "l1_known": "8"})
        monkeypatch.setattr(st, "session_state", {})
        old_links.apply()
        assert set(st.session_state) == {name}
        assert st.session_state[name] in options


def test_options_chosen_in_the_session_stay(monkeypatch):
    monkeypatch.setattr(st, "query_params", {"l3_ask": LETTERS})
    monkeypatch.setattr(st, "session_state", {"l3_ask": "date"})
    old_links.apply()
    assert st.session_state == {"l3_ask": "date"}


def test_an_old_link_opens_its_lesson_with_the_selected_question(open_page):
    page = open_page("learn", lesson="noise", guess="none", l3_ask=LETTERS)
    assert page.selectbox(key="l3_ask").value == "person"
    assert not page.warning
