"""Lesson 6: one step of DP-SGD. A batch of sentences, its clipped gradient sum, the noise, and ablations."""

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
    """Show the controls, the headline and the chart. The guess is the length of the noise ÷ that of the sum."""
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
                "Left-out part", list(FAULTS), 1, lambda name: FAULTS[name].title, key="l6_missing", bind="query-params"
            )
        if view == VIEWS[2]:
            same = st.segmented_control(
                "Equal number of", SAME, default=SAME[0], key="l6_same", bind="query-params", required=True
            )
        try:
            with st.spinner("Computing the step …"):
                model = _load_model()
                if view == VIEWS[3]:
                    headline, figure, caption = step_figures.left_out(ablations.run_with_noise_check(model, missing))
                elif view == VIEWS[2]:
                    headline, figure, caption = _larger(model, setting, steps, guess, passes=same == SAME[1])
                else:
                    headline, figure, caption = _one(model, setting, steps, guess, whole=view == VIEWS[1])
        except EpsilonError as error:
            st.error(str(error))
            return
        st.markdown(f"#### {headline}")
        draw(figure, key=f"l6_{VIEWS.index(view)}", label=headline)
        st.caption(caption)


def _controls(*, fixed: bool) -> tuple[Setting, int]:
    """Show the controls and return the setting and the number of steps. ``fixed`` disables the controls."""

    def chosen(
        label: str, options: tuple[_Option, ...], default: _Option, key: str, template: str, about: str | None = None
    ) -> _Option:
        return st.select_slider(
            label,
            options,
            default,
            format_func=template.format,
            key=f"l6_{key}",
            bind="query-params",
            disabled=fixed,
            help=about,
        )

    sigma = chosen("Noise multiplier σ", dpsgd_step.NOISES, 1.0, "sigma", "{:g}")
    clip = chosen("Clip norm C", CLIPS, 1.5, "clip", "{:g}")
    batch = chosen("Expected batch size", dpsgd_step.BATCHES, 32, "batch", "{:,}")
    steps = chosen("Total training steps", STEPS, 1000, "steps", "{:,}")
    before = chosen(
        "Steps before this one",
        dpsgd_step.BEFORE,
        0,
        "before",
        "{:,}",
        "Number of earlier training steps. They have no noise, so the NER tagger is the same at each σ.",
    )
    return Setting(noise_multiplier=sigma, clip_norm=clip, batch_size=batch, before=before), steps


def _load_model() -> fixtures.LessonModel:
    """Load the NER tagger and its sentences, and show the progress."""
    container = st.empty()

    def on_progress(stage: str) -> None:
        container.caption(stage)

    model = fixtures.load(session.application().settings, on_progress)
    container.empty()
    return model


def _one(
    model: fixtures.LessonModel, setting: Setting, steps: int, guess: float | None, *, whole: bool
) -> step_figures.View:
    """Return the view of one step: the sum and its noise if ``whole``, otherwise the gradient of each sentence."""
    price, step = dpsgd_step.price(model, setting, steps), dpsgd_step.step(model, setting)
    if whole:
        return step_figures.sum_and_noise(step, price, guess)
    return step_figures.batch(step, price, [model.words[number] for number in step.sentences], guess)


def _larger(
    model: fixtures.LessonModel, setting: Setting, steps: int, guess: float | None, *, passes: bool
) -> step_figures.View:
    """Return the view of larger batches, at equal passes over the sentences if ``passes``, otherwise at equal steps."""
    curves = {size: dpsgd_step.prices(model, setting, steps, size, passes=passes) for size in _COMPARED}
    return step_figures.larger(dpsgd_step.price(model, setting, steps), curves, guess)


LESSON = Lesson(
    name="step",
    title="DP-SGD step by step",
    about="Follow one step of private training: clip, sum, add noise. Then leave out one of these operations.",
    question=(
        "A NER tagger learns from about 32 sentences per step. The gradient of a sentence says how the sentence would "
        "change the weights. Training clips each gradient to a length of C = 1.5 and sums all gradients. Then **it "
        "adds noise once** to the sum. With σ = 1, the noise on each weight is as large as one whole gradient may be. "
        "The noise is how many times as long as the sum?"
    ),
    guess=Guess(label="Noise ÷ sum", low=0, high=100, step=1),
    show=show,
    words=(
        "The tagger still learns: the noise changes direction at each step and cancels out, while the signal adds up. "
        "Clipping bounds the effect of one sentence, noise hides it, and sampling is random. ε holds only with all "
        "three. More weights add noise; larger batches add signal."
    ),
    simplifies=(
        "A primer may say: “Noise is added to the data.” But DP-SGD does not change the sentences. It adds noise to "
        "the sum of their gradients, once per step. The size of the noise depends on C and σ, not on the batch size. "
        "And *ε determines the noise* only together with the number of steps and the sampling rate."
    ),
    note=(
        "**Sources.** M. Abadi et al. 2016, *Deep Learning with Differential Privacy*, algorithm 1; N. Ponomareva et "
        "al. 2023, *How to DP-fy ML* (large batches, choosing C and σ); I. Mironov, K. Talwar, L. Zhang 2019 (Rényi "
        "accounting: a fast upper bound, larger than the ε of other pages). The NER tagger is the paper's (A. Jana "
        "and C. Biemann 2021), with its initial weights or after steps without noise; the sentences are those of the "
        "corpus *Letters and notes (synthetic)*.\n\n"
        "**Pitfalls.** “A smaller C means less noise.” The signal shrinks too, as long as all gradients are longer "
        "than C. “The ratio of one step predicts the quality of the tagger.” No. In the first step the gradients "
        "point in similar directions, later they do not: set *Steps before this one* to 100. The lengths shown without "
        "noise are private too: no real release shows them. A passed noise check is no proof: it cannot detect that "
        "an attacker knows the key of the noise, nor a fault in a sum that it did not measure.\n\n"
        "**Ask the class.** With twice the weights and the same sentences, how does the signal-to-noise ratio change? "
        "So why do the recommended settings train few weights?"
    ),
)
