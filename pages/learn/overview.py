"""Overview of the lessons, shown before the first one."""

import streamlit as st

from pages.learn import navigation
from pages.learn.lesson import Lesson
from pages.learn.url_state import UrlState
from pages.shared import address


def show(state: UrlState, lessons: tuple[Lesson, ...]) -> None:
    """Show a button and a sentence for each lesson. The first unseen lesson is highlighted."""
    st.markdown("### Privacy lessons")
    st.markdown("Each lesson takes ten minutes. Enter a guess first. Then move the controls: the charts react at once.")
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
                kwargs={"in_class": state.in_class},
            )
            st.caption(address.plain(lesson.about))
    navigation.links(state, lessons)
