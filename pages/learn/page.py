"""Learn: lessons that ask first, and then let you play with what they are about."""

import streamlit as st

from pages.learn import classroom, frame, link, moving, overview
from pages.learn.lessons import LESSONS
from pages.shared import address, back, newcomer

newcomer.greet_no_more()
newcomer.remember()
place, problems = link.read(st.query_params.to_dict(), LESSONS)
if place.in_class:
    classroom.begin()
for problem in problems:
    st.warning(address.plain(problem), icon=":material/link_off:")
if place.lesson:
    moving.remember(place)
    frame.show(place, place.lesson, LESSONS)
else:
    overview.show(place, LESSONS)
back.follow()
