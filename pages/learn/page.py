"""Learn: lessons that ask first, and then let you play with what they are about."""

import streamlit as st

from pages.learn import classroom, lesson_layout, navigation, overview, url_state
from pages.learn.lessons import LESSONS
from pages.shared import address, browser_history, first_visit

first_visit.greet_no_more()
first_visit.remember()
place, problems = url_state.read(st.query_params.to_dict(), LESSONS)
if place.in_class:
    classroom.begin()
for problem in problems:
    st.warning(address.plain(problem), icon=":material/link_off:")
if place.lesson:
    navigation.remember(place)
    lesson_layout.show(place, place.lesson, LESSONS)
else:
    overview.show(place, LESSONS)
browser_history.follow()
