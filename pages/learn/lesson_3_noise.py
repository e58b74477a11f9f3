"""Lesson 3: noise for a count of letters. Sensitivity, clipping, Laplace and Gaussian noise, composition."""

from functools import partial

import numpy as np
import plotly.graph_objects as go
import streamlit as st

from engine.lessons import counting_queries
from engine.lessons.counting_queries import QUESTIONS, Clipped
from engine.lessons.noise_mechanisms import KINDS, fitting
from engine.reports.numbers import epsilon_text
from engine.seeds import Seeds
from pages.learn import guess_markers
from pages.learn.lesson import Guess, Lesson
from pages.shared import palette
from pages.shared.plotly_component import show as draw

VIEWS = ("One answer", "Clipping", "Many answers", "One table")
DELTA = 1e-6
"""δ of Gaussian noise, and of all answers together."""
_EPSILONS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
_BUDGETS = (1, 2, 3, 5, 10, 20)
_DRAWS = 1000
_MOST_CLIP = 24
_FAR = 10
"""Error in letters; the headline says how often the noise exceeds it."""
_NAMES = {"basic": "basic composition", "renyi": "Rényi", "pld": "privacy loss distributions"}
_COLOURS = {"basic": palette.RECALL, "renyi": palette.PRECISION, "pld": palette.PRIVATE}
_DASHES = {"basic": "dot", "renyi": "dash", "pld": "solid"}


def show(guess: float | None) -> None:
    """Show the controls, the headline and the chart. The guess is the mean absolute error in letters."""
    view = st.segmented_control(
        "Show", VIEWS, default=VIEWS[0], key="l3_view", bind="query-params", required=True, label_visibility="collapsed"
    )
    left, right = st.columns([2.6, 1], gap="large")
    with right:
        question = st.selectbox(
            "Letters that …", list(QUESTIONS), format_func=QUESTIONS.__getitem__, key="l3_ask", bind="query-params"
        )
        epsilon = st.select_slider(
            "ε of each answer", _EPSILONS, 1.0, format_func="{:g}".format, key="l3_eps", bind="query-params"
        )
        clip = st.slider("Letters counted per family", 1, _MOST_CLIP, 3, key="l3_clip", bind="query-params")
        kind = st.segmented_control(
            "Noise", KINDS, default="laplace", format_func=str.title, key="l3_noise", bind="query-params", required=True
        )
        budget = st.select_slider("Budget (ε of all answers)", _BUDGETS, 5, key="l3_budget", bind="query-params")
    with left:
        with st.spinner("Loading letters …"):
            per_family = counting_queries.letters().each(question)
            if view == VIEWS[0]:
                count = counting_queries.clipped(per_family, clip, kind, epsilon, DELTA)
                headline, figure = _one(count, epsilon, clip, guess)
            elif view == VIEWS[1]:
                headline, figure = _clipping(per_family, clip, kind, epsilon, guess)
            elif view == VIEWS[2]:
                headline, figure = _many(kind, epsilon, clip, float(budget), guess)
            else:
                headline, figure = _table(kind, epsilon, clip, guess)
        st.markdown(f"#### {headline}")
        draw(figure, key=f"l3_{VIEWS.index(view)}", label=headline)


def _one(count: Clipped, epsilon: float, clip: int, guess: float | None) -> tuple[str, go.Figure]:
    """Return a sentence and a chart on one answer: density and samples, and the density of the other kind of noise."""
    noise, truth = count.noise, count.count + count.lost
    other = fitting(KINDS[1 - KINDS.index(noise.kind)], epsilon, DELTA, clip)
    reach = max(4 * noise.sd, 4 * other.sd, count.lost * 1.2, 5)
    points = count.count + np.linspace(-reach, reach, 301)
    samples = count.count + noise.draws(Seeds(16).stream("one answer", clip=clip), _DRAWS)
    counts, edges = np.histogram(samples, np.linspace(points[0], points[-1], 61))
    width = edges[1] - edges[0]
    figure = go.Figure()
    figure.add_bar(
        x=(edges[:-1] + edges[1:]) / 2,
        y=counts / _DRAWS / width,
        width=width,
        name=f"{_DRAWS:,} answers",
        marker={"color": palette.PRIVATE, "opacity": 0.45, "line": {"width": 0}},
        hoverinfo="skip",
    )
    for shown, colour, dash in ((noise, palette.PRIVATE, "solid"), (other, palette.PRECISION, "dot")):
        figure.add_scatter(
            x=points,
            y=shown.density(points - count.count),
            name=shown.kind.title(),
            line={"color": colour, "width": 3, "dash": dash},
            hovertemplate="%{x:.1f}: %{y:.3g}<extra>" + shown.kind.title() + "</extra>",
        )
    guess_markers.layout(figure, "l3-one", x="published count of letters", y="density")
    figure.update_layout(bargap=0)
    figure.add_vline(x=truth, line={"color": palette.QUIET, "width": 2})
    figure.update_xaxes(range=[points[0], points[-1]])
    if guess is not None:
        guess_markers.vertical_line(
            figure, truth + guess, "your guess", side="top left" if guess > reach / 2 else "top right"
        )
        guess_markers.vertical_line(figure, truth - guess, "", side="top left")
        if guess > reach:
            figure.update_xaxes(range=[truth - 1.1 * guess, truth + 1.1 * guess])
    lost, far = f"; clipping loses {count.lost:,} more" if count.lost else "", noise.beyond(_FAR)
    return (
        f"The published count of {truth:,} letters has a mean absolute error of {_number(noise.mean_error)} "
        f"letters{lost}. An error above {_FAR} letters has a probability of {_percent(far)}. With "
        f"{other.kind.title()} noise at the same ε{' and δ = 1 in a million' if other.kind == 'gaussian' else ''} "
        f"this probability is {_percent(other.beyond(_FAR))}."
    ), figure


def _clipping(
    per_family: np.ndarray, clip: int, kind: str, epsilon: float, guess: float | None
) -> tuple[str, go.Figure]:
    """Return a sentence and a chart on letters lost and noise, by number of letters counted per family.

    Args:
        per_family: Letters of each family, [families].
        clip: The chosen number of letters counted per family.
        kind: Kind of the noise.
        epsilon: ε of the answer.
        guess: Guessed error in letters, or None.
    """
    limits = range(1, _MOST_CLIP + 1)
    counts = [counting_queries.clipped(per_family, limit, kind, epsilon, DELTA) for limit in limits]
    errors = [count.error for count in counts]
    best = int(np.argmin(errors)) + 1
    figure = go.Figure()
    for name, values, colour, dash in (
        ("letters lost", [count.lost for count in counts], palette.RECALL, "dot"),
        ("noise", [count.noise.sd for count in counts], palette.PRECISION, "dash"),
        ("total error", errors, palette.PRIVATE, "solid"),
    ):
        figure.add_scatter(
            x=list(limits),
            y=values,
            name=name,
            line={"color": colour, "width": 3, "dash": dash},
            hovertemplate="%{x} per family: %{y:.3g}<extra>" + name + "</extra>",
        )
    figure.add_scatter(
        x=[clip],
        y=[errors[clip - 1]],
        name="your choice",
        mode="markers",
        marker={"size": 14, "symbol": "star", "color": palette.PRIVATE, "line": {"width": 1.5, "color": "white"}},
    )
    guess_markers.layout(figure, "l3-clip", x="letters counted per family", y="RMS error, letters")
    guess_markers.horizontal_line(figure, guess, "your guess (mean absolute error)")
    return (
        f"With {clip} letters counted per family, the root-mean-square error is about {_number(errors[clip - 1])} "
        f"letters. The smallest at ε = {epsilon_text(epsilon)} is {_number(errors[best - 1])}, with {best} per "
        f"family. A family has up to {per_family.max()} such letters."
    ), figure


def _many(kind: str, epsilon: float, clip: int, budget: float, guess: float | None) -> tuple[str, go.Figure]:
    """Return a sentence and a chart on ε of many answers by three methods of composition, up to the budget."""

    def cost(accounting: str, answers: int) -> float:
        return counting_queries.spent(accounting, kind, epsilon, DELTA, answers)

    last = {
        accounting: counting_queries.until(budget, partial(cost, accounting))
        for accounting in counting_queries.ACCOUNTINGS
    }
    end = min(counting_queries.MOST_ANSWERS, max(4, round(1.25 * max(last.values()))))
    numbers = sorted({int(number) for number in np.linspace(1, end, 12)})
    figure = go.Figure()
    for accounting in counting_queries.ACCOUNTINGS:
        values = [cost(accounting, number) for number in numbers]
        figure.add_scatter(
            x=numbers,
            y=values,
            name=_NAMES[accounting],
            line={"color": _COLOURS[accounting], "width": 3, "dash": _DASHES[accounting]},
            hovertemplate="%{x} answers: ε = %{y:.3g}<extra>" + _NAMES[accounting] + "</extra>",
        )
    guess_markers.layout(figure, "l3-many", x="answers", y="ε of all answers")
    if guess:
        figure.add_scatter(
            x=[0, numbers[-1]],
            y=[0, numbers[-1] * clip / guess],
            name="your guess",
            mode="lines",
            line=guess_markers.GUESS,
            hoverinfo="skip",
        )
    guess_markers.limit_line(figure, budget, "budget")
    figure.update_yaxes(range=[0, 2 * budget])
    smaller = (
        ""
        if len(set(last.values())) > 1 or epsilon == _EPSILONS[0]
        else " Choose a smaller ε of each answer to see a difference."
    )
    return (
        f"A budget of ε = {budget:g} allows {last['basic']:,} answers by basic composition, {last['renyi']:,} by Rényi "
        f"accounting and {last['pld']:,} by privacy loss distributions (δ = 1 in a million).{smaller}"
    ), figure


def _table(kind: str, epsilon: float, clip: int, guess: float | None) -> tuple[str, go.Figure]:
    """Return a sentence and a chart on the counts of all kinds of letters: one noisy table, or separate answers."""
    counts = counting_queries.letters().table(clip)
    once = fitting(kind, epsilon, DELTA, clip)
    apart = counting_queries.apart(kind, epsilon, DELTA, clip, len(counts))
    figure = go.Figure()
    for name, stream, noise, colour, shape in (
        ("one table", "published once", once, palette.PRIVATE, ""),
        ("separate answers", "asked one by one", apart, palette.PRECISION, "/"),
    ):
        published = counts + noise.draws(Seeds(16).stream(stream), len(counts))
        figure.add_bar(
            x=list(counting_queries.KINDS),
            y=published,
            name=f"{name} ± 2 standard deviations of the noise",
            marker={"color": colour, "pattern": {"shape": shape}},
            error_y={"type": "data", "array": [2 * noise.sd] * len(counts), "thickness": 2},
            hovertemplate="%{x}: %{y:.0f}<extra>" + name + "</extra>",
        )
    figure.add_scatter(
        x=list(counting_queries.KINDS),
        y=counts,
        name="true count" if guess is None else "true count ± your guess",
        mode="markers",
        marker={"symbol": "line-ew", "size": 26, "line": {"width": 3, "color": palette.F1}},
        error_y=None if guess is None else {"type": "data", "array": [guess] * len(counts), "color": palette.F1},
        hovertemplate="%{x}: %{y}, true count<extra></extra>",
    )
    guess_markers.layout(figure, "l3-table", x="kind of letter (first match counts)", y="letters")
    figure.update_layout(barmode="group")
    return (
        f"One table of {len(counts)} counts, published once at ε = {epsilon_text(epsilon)}, has a mean "
        f"absolute error of {_number(once.mean_error)} letters per count. {len(counts)} separate answers that share "
        f"this ε have an error of {_number(apart.mean_error)} letters each."
    ), figure


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %"


LESSON = Lesson(
    name="noise",
    title="Noise and sensitivity",
    about="Add noise to a count. See how much noise one answer needs, and how many answers a privacy budget allows.",
    question=(
        "An archive counts how many of its 3,468 letters mention a hospital. The privacy guarantee is ε = 1 for each "
        "family, and a family has up to three such letters. The archive adds **just enough noise** for this. What is "
        "the mean absolute error of the published count, in letters?"
    ),
    guess=Guess(label="Mean absolute error, letters", low=0, high=100, step=1),
    show=show,
    words=(
        "The noise depends on how far *one* family can change the count (the sensitivity), not on the number of "
        "letters. Counting fewer letters per family needs less noise but loses letters. Each answer spends ε. If "
        "the archive plans its counts in advance, one table needs less noise than separate answers."
    ),
    simplifies=(
        "*Laplace and Gaussian noise* are often presented as two shapes to choose from. Their guarantees differ: "
        "Laplace noise has δ = 0, Gaussian noise needs δ > 0. At the same ε one Gaussian answer has a larger error. "
        "Gaussian noise is better when many answers are composed, or when one person changes many numbers at once, as "
        "in training."
    ),
    note=(
        "**Sources.** C. Dwork, F. McSherry, K. Nissim, A. Smith 2006 (Laplace); B. Balle and Y.-X. Wang 2018 (the "
        "smallest Gaussian noise); I. Mironov 2017 (Rényi); dp_accounting (privacy loss distributions). The letters "
        "are those of the corpus *Letters and notes (synthetic)* that name a person. A letter belongs to the family of "
        "the first person that it names.\n\n**Pitfalls.** “More data, more noise.” No: the noise stays the same and "
        "the count grows. “Clipping is a detail.” No. To see its effect, count the letters that name a person, with "
        "one letter per family. The number of letters that clipping loses is itself private: an archive would not "
        "publish it. Noise sampled in floating point has known weaknesses (Mironov 2012).\n\n**Ask the class.** Who "
        "should choose the budget, and who notices when it is spent?"
    ),
)
