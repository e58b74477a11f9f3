"""Find the canary: the learner does what an auditor does, on eight sentences."""

import math

import streamlit as st

from engine.lessons import find_the_canary
from engine.lessons.find_the_canary import EPSILONS, NUMBER, Canary, Game
from engine.reports.numbers import epsilon_text
from engine.settings import Settings
from pages.shared import session, tables

_ROUND = "canary_round"


def play() -> None:
    """One round, and the next."""
    st.markdown("#### Find the canary")
    st.caption(
        f"{NUMBER} sentences were made up: words of others, shuffled, with two **names** that are none. A coin "
        "decided of each whether a tagger was trained on it too. The tagger says how sure it is of those tags. On "
        "which of them was it trained?"
    )
    with st.container(horizontal=True, vertical_alignment="bottom"):
        target = st.segmented_control(
            "Trained with", EPSILONS, default=math.inf, format_func=lambda e: f"ε = {epsilon_text(e)}", required=True
        )
        if st.button("Other sentences", icon=":material/casino:"):
            st.session_state[_ROUND] = st.session_state.get(_ROUND, 0) + 1
    number = st.session_state.get(_ROUND, 0)
    if not st.toggle("Train the tagger (some seconds)", key="canary_train"):
        return
    game = _deal(session.application().settings, target, number)
    with st.form(f"canaries-{target}-{number}", border=False):
        said = [_ask(place, canary) for place, canary in enumerate(game.canaries)]
        asked = st.form_submit_button("That is my guess", type="primary")
    if asked:
        _answer(game, said)


@st.cache_data(show_spinner="A tagger is being trained on some of them …", max_entries=32)
def _deal(_settings: Settings, target: float, number: int) -> Game:
    return find_the_canary.deal(_settings, target, number)


def _ask(place: int, canary: Canary) -> bool:
    marked = zip(map(_plain, canary.words), canary.names, strict=True)
    words = " ".join(f"**{word}**" if name else word for word, name in marked)
    return bool(st.checkbox(f"{words} · {canary.after:.0%} sure", key=f"canary-{place}"))


def _plain(word: str) -> str:
    return "".join(f"\\{sign}" if sign in "\\`*_{}[]()#+-.!|<>$:~" else sign for sign in word)


def _answer(game: Game, said: list[bool]) -> None:
    right = sum(guess == canary.trained_on for guess, canary in zip(said, game.canaries, strict=True))
    most = "nothing limits how many can be"
    if math.isfinite(game.epsilon):
        best = NUMBER * game.right_at_most
        most = f"at ε = {epsilon_text(game.epsilon)} nobody has more than {best:.1f} right on average"
    st.markdown(f"**{right} of {NUMBER} are right.** Who tosses a coin has {NUMBER / 2:g}; {most}.")
    tables.show(
        [
            {
                "": "✓ right" if guess == canary.trained_on else "✗ wrong",
                "was trained on": "yes" if canary.trained_on else "no",
                "your guess": "yes" if guess else "no",
                "sure before": f"{canary.before:.0%}",
                "sure after": f"{canary.after:.0%}",
                "sentence": " ".join(canary.words),
            }
            for guess, canary in zip(said, game.canaries, strict=True)
        ]
    )
