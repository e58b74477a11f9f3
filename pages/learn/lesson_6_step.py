"""Lesson 6: DP-SGD, one step at a time. A batch of real sentences, its clipped sum, the noise beside it, the step."""

from typing import TypeVar

import streamlit as st

from engine.errors import EpsilonError
from engine.lessons import ablations, dpsgd_step, fixtures
from engine.lessons.ablations import FAULTS, HONEST
from engine.lessons.dpsgd_step import Setting
from pages.learn import step_figures
from pages.learn.lesson import Guess, Lesson
from pages.shared import session
from pages.shared.plotly_component import show as draw

VIEWS = ("The batch", "Sum and noise", "Larger batches", "Leave one out")
CLIPS = (0.1, 0.3, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0)
STEPS = (1, 10, 100, 300, 1000, 3000, 10_000)
SAME = ("steps", "sentences")
_COMPARED = (16, 64, 256, 1024)
_Option = TypeVar("_Option", int, float)


def show(guess: float | None) -> None:
    """The controls, the picture and its answer. guess: how many times as long as the sum the noise is."""
    view = st.segmented_control(
        "Show", VIEWS, default=VIEWS[1], key="l6_view", bind="query-params", required=True, label_visibility="collapsed"
    )
    left, right = st.columns([2.6, 1], gap="large")
    missing, same = HONEST.name, SAME[0]
    with right:
        setting, steps = _controls(fixed=view == VIEWS[3])
    with left:
        if view == VIEWS[3]:
            missing = st.selectbox(
                "Leave out", list(FAULTS), 1, lambda name: FAULTS[name].title, key="l6_missing", bind="query-params"
            )
        if view == VIEWS[2]:
            same = st.segmented_control(
                "Compared at as many", SAME, default=SAME[0], key="l6_same", bind="query-params", required=True
            )
        try:
            with st.spinner("Taking the step …"):
                table = _bench()
                if view == VIEWS[3]:
                    said, figure, more = step_figures.left_out(ablations.run_with_noise_check(table, missing))
                elif view == VIEWS[2]:
                    said, figure, more = _larger(table, setting, steps, guess, passes=same == SAME[1])
                else:
                    said, figure, more = _one(table, setting, steps, guess, whole=view == VIEWS[1])
        except EpsilonError as error:
            st.error(str(error))
            return
        st.markdown(f"#### {said}")
        draw(figure, key=f"l6_{VIEWS.index(view)}", label=said)
        st.caption(more)


def _controls(*, fixed: bool) -> tuple[Setting, int]:
    """What is chosen. fixed: the controls are shown, but have no say."""

    def chosen(
        label: str, options: tuple[_Option, ...], default: _Option, key: str, form: str, about: str | None = None
    ) -> _Option:
        return st.select_slider(
            label,
            options,
            default,
            format_func=form.format,
            key=f"l6_{key}",
            bind="query-params",
            disabled=fixed,
            help=about,
        )

    sigma = chosen("Noise multiplier σ", dpsgd_step.NOISES, 1.0, "sigma", "{:g}")
    clip = chosen("Clip norm C", CLIPS, 1.5, "clip", "{:g}")
    batch = chosen("Sentences a step, on average", dpsgd_step.BATCHES, 32, "batch", "{:,}")
    steps = chosen("Steps in all, which ε counts", STEPS, 1000, "steps", "{:,}")
    before = chosen(
        "Look after so many steps",
        dpsgd_step.BEFORE,
        0,
        "before",
        "{:,}",
        "Steps that the tagger took before the one you see: without noise, so that you see the same tagger at each σ.",
    )
    return Setting(noise_multiplier=sigma, clip_norm=clip, batch_size=batch, before=before), steps


def _bench() -> fixtures.LessonModel:
    place = st.empty()

    def tell(stage: str) -> None:
        place.caption(stage)

    found = fixtures.load(session.application().settings, tell)
    place.empty()
    return found


def _one(
    table: fixtures.LessonModel, setting: Setting, steps: int, guess: float | None, *, whole: bool
) -> step_figures.Drawn:
    """One step. whole: its sum and its noise, and not each of its sentences."""
    price, step = dpsgd_step.price(table, setting, steps), dpsgd_step.step(table, setting)
    if whole:
        return step_figures.sum_and_noise(step, price, guess)
    return step_figures.batch(step, price, [table.words[number] for number in step.sentences], guess)


def _larger(
    table: fixtures.LessonModel, setting: Setting, steps: int, guess: float | None, *, passes: bool
) -> step_figures.Drawn:
    curves = {size: dpsgd_step.prices(table, setting, steps, size, passes=passes) for size in _COMPARED}
    return step_figures.larger(dpsgd_step.price(table, setting, steps), curves, guess)


LESSON = Lesson(
    name="step",
    title="DP-SGD, one step at a time",
    about="Take a step of private training apart: clip, add up, add noise; leave one out.",
    question=(
        "A tagger learns names, about 32 sentences a step. Each sentence's gradient, the way it pulls the weights, is "
        "cut to a length of C = 1.5, and all are added up. Then **noise is added once** to the sum, on each weight as "
        "strong as one whole sentence may be (σ = 1). How many times as long as the sum is the noise?"
    ),
    guess=Guess(label="Noise, times the sum", low=0, high=100, step=1),
    show=show,
    words=(
        "Still it learns: noise points another way each step and cancels out, what was learned adds up. Clipping "
        "bounds one sentence, noise hides it, chance decides who joins: without one of them ε does not hold. More "
        "weights, more noise; more sentences a step, more signal."
    ),
    simplifies=(
        "*Noise is added to the data*, says the primer. Not here: the sentences stay as they are, and noise comes to "
        "the sum of what they teach, once a step, scaled to one sentence and not to the batch. And *ε determines the "
        "noise* only with the number of steps and the share of sentences that joins each."
    ),
    note=(
        "**Sources.** M. Abadi et al. 2016, *Deep Learning with Differential Privacy*, algorithm 1; N. Ponomareva et "
        "al. 2023, *How to DP-fy ML* (large batches, choosing C and σ); I. Mironov, K. Talwar, L. Zhang 2019 (Rényi "
        "accounting: an upper bound, above the ε of other pages, and quicker). The tagger is the paper's (A. Jana and "
        "C. Biemann 2021), at its first weights or after steps without noise; sentences: the embedded corpus.\n\n"
        "**Pitfalls.** *A smaller C means less noise*: signal shrinks with it, as long as all gradients are longer "
        "than C. *One step's ratio says how good the tagger will be*: gradients of the first step agree, later ones do "
        "not; look after 100 steps. Lengths shown here without noise are private too: no real release shows them. A "
        "check that finds nothing is no proof: it sees neither who knows the key nor sums that it did not look at.\n\n"
        "**Ask the class.** Twice the weights, the same sentences: what becomes of signal to noise? Then why does good "
        "practice learn few weights?"
    ),
)
