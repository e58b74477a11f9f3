"""Before the first lesson: which ones there are."""

import streamlit as st

from pages.learn import navigation
from pages.learn.lesson import Lesson
from pages.learn.url_state import Place
from pages.shared import address


def show(place: Place, lessons: tuple[Lesson, ...]) -> None:
    """What the lessons are like, and the way to each."""
    st.markdown("### Privacy, tried out")
    st.markdown(
        "Each lesson takes ten minutes. Guess first, then move the controls: the pictures are computed as you do."
    )
    following = next((lesson for lesson in lessons if not navigation.seen(lesson)), None)
    with st.container(gap="xxsmall"):
        for number, lesson in enumerate(lessons, start=1):
            st.button(
                f"{number}. {address.plain(lesson.title)}",
                key=f"lesson_{number}",
                type="primary" if lesson is following else "tertiary",
                icon=":material/check:" if navigation.seen(lesson) else ":material/play_arrow:",
                on_click=navigation.go,
                args=(lesson,),
                kwargs={"in_class": place.in_class},
            )
            st.caption(address.plain(lesson.about))
    navigation.links(place, lessons)
