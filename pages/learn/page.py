"""Page Learn: lessons that ask for a guess before they show an interactive chart."""

import streamlit as st

from pages.learn import classroom, lesson_layout, navigation, overview, url_state
from pages.learn.lessons import LESSONS
from pages.shared import address, browser_history

state, problems = url_state.read(st.query_params.to_dict(), LESSONS)
if state.in_class:
    classroom.begin()
for problem in problems:
    st.warning(address.plain(problem), icon=":material/link_off:")
if state.lesson:
    navigation.remember(state)
    lesson_layout.show(state, state.lesson, LESSONS)
else:
    overview.show(state, LESSONS)
browser_history.follow()
