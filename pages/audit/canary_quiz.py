"""Quiz *Find the canary*: the learner attacks a model as an auditor does, with eight sentences."""

import math

import streamlit as st

from engine.lessons import find_the_canary
from engine.lessons.find_the_canary import EPSILONS, NUMBER, Canary, Game
from engine.reports.numbers import epsilon_text
from engine.settings import Settings
from pages.shared import session, tables

_ROUND = "canary_round"


def play() -> None:
    """Show a round of the quiz, and the controls of the next one."""
    st.markdown("#### Find the canary")
    st.caption(
        f"The program makes {NUMBER} sentences from words of other sentences, in random order. In each sentence, "
        "it falsely tags two words as **entities**. A coin flip decides for each sentence whether the model is also "
        "trained on it. The percentage is the model's confidence in the false tags. On which of the sentences was the "
        "model trained?"
    )
    with st.container(horizontal=True, vertical_alignment="bottom"):
        target = st.segmented_control(
            "Trained with", EPSILONS, default=math.inf, format_func=lambda e: f"ε = {epsilon_text(e)}", required=True
        )
        if st.button("Draw new sentences", icon=":material/casino:"):
            st.session_state[_ROUND] = st.session_state.get(_ROUND, 0) + 1
    number = st.session_state.get(_ROUND, 0)
    if not st.toggle("Train the model (a few seconds)", key="canary_train"):
        return
    game = _deal(session.application().settings, target, number)
    with st.form(f"canaries-{target}-{number}", border=False):
        guesses = [_checkbox(index, canary) for index, canary in enumerate(game.canaries)]
        submitted = st.form_submit_button("Submit guess", type="primary")
    if submitted:
        _show_result(game, guesses)


@st.cache_data(show_spinner="Training a model on some of the sentences …", max_entries=32)
def _deal(_settings: Settings, target: float, number: int) -> Game:
    return find_the_canary.deal(_settings, target, number)


def _checkbox(index: int, canary: Canary) -> bool:
    marked = zip(map(_plain, canary.words), canary.names, strict=True)
    words = " ".join(f"**{word}**" if name else word for word, name in marked)
    return bool(st.checkbox(f"{words} · confidence {canary.after:.0%}", key=f"canary-{index}"))


def _plain(word: str) -> str:
    """Return a word with its Markdown characters escaped."""
    return "".join(f"\\{sign}" if sign in "\\`*_{}[]()#+-.!|<>$:~" else sign for sign in word)


def _show_result(game: Game, guesses: list[bool]) -> None:
    right = sum(guess == canary.trained_on for guess, canary in zip(guesses, game.canaries, strict=True))
    limit = "Without noise there is no upper limit"
    if math.isfinite(game.epsilon):
        best = NUMBER * game.right_at_most
        limit = f"At ε = {epsilon_text(game.epsilon)} no attacker has more than {best:.1f} correct guesses on average"
    st.markdown(f"**{right} of {NUMBER} guesses are correct.** Random guessing has {NUMBER / 2:g} on average. {limit}.")
    tables.show(
        [
            {
                "": "✓ correct" if guess == canary.trained_on else "✗ wrong",
                "in training set": "yes" if canary.trained_on else "no",
                "your guess": "yes" if guess else "no",
                "confidence before training": f"{canary.before:.0%}",
                "confidence after training": f"{canary.after:.0%}",
                "sentence": " ".join(canary.words),
            }
            for guess, canary in zip(guesses, game.canaries, strict=True)
        ]
    )
