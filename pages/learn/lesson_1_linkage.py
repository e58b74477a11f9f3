"""Lesson 1: removing names is not enough. Who is found again in ratings without names, and what would have helped."""

import numpy as np
import plotly.graph_objects as go
import streamlit as st

from engine.lessons import linkage
from engine.lessons.linkage import DEFENCES, MOST_KNOWN, PRINTED, THRESHOLD, Clue, Matches, Outsider, Release
from pages.learn import guess_markers
from pages.learn.lesson import Guess, Lesson
from pages.shared import palette
from pages.shared.plotly_component import show as draw

VIEWS = ("How many are found", "What would have helped", "How far they stand out")
_OUTCOMES = (
    ("found again", palette.RECALL, ""),
    ("mistaken", palette.TYPES[0], "x"),
    ("nobody named", palette.PRIVATE, ""),
)


def show(guess: float | None) -> None:
    """The controls, the picture and its answer."""
    view = st.segmented_control(
        "Show", VIEWS, default=VIEWS[0], key="l1_view", bind="query-params", required=True, label_visibility="collapsed"
    )
    left, right = st.columns([2.6, 1], gap="large")
    with right:
        known = st.slider("Ratings that an outsider knows", 1, MOST_KNOWN, 8, key="l1_known", bind="query-params")
        wrong = st.slider("Wrong ones among them", 0, 4, 2, key="l1_wrong", bind="query-params")
        days = st.slider("Dates off by up to (days)", 0, 60, 14, key="l1_days", bind="query-params")
        stars = st.slider("Stars off by up to", 0, 2, 0, key="l1_stars", bind="query-params")
        outsider = Outsider(known=known, wrong=min(wrong, known), days_off=days, stars_off=stars)
        chosen = st.selectbox("Published", list(DEFENCES), key="l1_published", bind="query-params")
    data = linkage.ratings()
    found = linkage.attack(data, outsider, DEFENCES[chosen])
    with left:
        st.markdown(f"#### {answer(found, known, min(wrong, known))}")
        if view == VIEWS[0]:
            draw(_by_known(outsider, DEFENCES[chosen], guess), key="l1_many", label=answer(found, known, wrong))
            st.caption(
                "Diamonds: what the paper prints (8 known, 2 wrong, 14 days: 99 %; 2 known, 3 days: 68 %), for 500,000 "
                "people. Among our 4,000 it is easier to stand out. Other bars have wrong ratings in proportion."
            )
        elif view == VIEWS[1]:
            draw(_by_defence(outsider, guess), key="l1_helped", label="Who is found under each defence")
        else:
            _standing_out(found, outsider, DEFENCES[chosen], guess)


def answer(found: Matches, known: int, wrong: int) -> str:
    """What the picture shows, in a sentence."""
    right, other, nobody = (round(100 * share) for share in found.shares)
    parts = [
        f"Who knows {known} {'rating' if known == 1 else 'ratings'} ({wrong} wrong) finds {right} of 100 people again"
    ]
    parts += [f"takes {other} for somebody else"] if other else []
    parts += [f"names nobody for {nobody}"] if nobody else []
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1]))) + "."


def _by_known(outsider: Outsider, release: Release, guess: float | None) -> go.Figure:
    """Shares against the number of ratings known, wrong ones in proportion, with the printed shares."""
    counts = sorted({1, 2, 4, 6, 8, 12, outsider.known})
    shares = []
    for known in counts:
        same = {"days_off": outsider.days_off, "stars_off": outsider.stars_off}
        one = Outsider(known=known, wrong=outsider.wrong * known // outsider.known, **same)
        shares.append(linkage.attack(linkage.ratings(), one, release).shares)
    figure = go.Figure()
    opacity = [1.0 if known == outsider.known else 0.5 for known in counts]
    for number, (name, colour, shape) in enumerate(_OUTCOMES):
        figure.add_bar(
            x=[str(known) for known in counts],
            y=[100 * each[number] for each in shares],
            name=name,
            marker={"color": colour, "opacity": opacity, "pattern": {"shape": shape}},
            hovertemplate="%{y:.0f} of 100<extra>" + name + "</extra>",
        )
    figure.add_scatter(
        x=[str(known) for known, _, _, _ in PRINTED],
        y=[100 * share for _, _, _, share in PRINTED],
        mode="markers",
        name="printed, Netflix",
        marker={"symbol": "diamond", "size": 14, "color": "white", "line": {"width": 3, "color": palette.TYPES[5]}},
        text=[f"{known} known, {wrong} wrong, dates off by {days} days" for known, wrong, days, _ in PRINTED],
        hovertemplate="%{text}: %{y:.0f} %<extra>printed</extra>",
    )
    guess_markers.layout(figure, "l1-many", x="ratings that an outsider knows", y="of 100 people")
    figure.update_xaxes(type="category", categoryorder="array", categoryarray=[str(known) for known in counts])
    figure.update_yaxes(range=[0, 104])
    guess_markers.horizontal_line(figure, guess)
    return figure


def _by_defence(outsider: Outsider, guess: float | None) -> go.Figure:
    """The same outsider, and what might have been published instead."""
    names = list(reversed(DEFENCES))
    shares = [linkage.attack(linkage.ratings(), outsider, DEFENCES[name]).shares for name in names]
    figure = go.Figure()
    for number, (name, colour, shape) in enumerate(_OUTCOMES):
        figure.add_bar(
            y=names,
            x=[100 * each[number] for each in shares],
            name=name,
            orientation="h",
            marker={"color": colour, "pattern": {"shape": shape}},
            hovertemplate="%{y}: %{x:.0f} of 100<extra>" + name + "</extra>",
        )
    guess_markers.layout(figure, "l1-helped", x="of 100 people", y="")
    figure.update_layout(margin={"l": 130})
    figure.update_xaxes(range=[0, 104])
    guess_markers.vertical_line(figure, guess)
    return figure


def _standing_out(found: Matches, outsider: Outsider, release: Release, guess: float | None) -> None:
    """Everybody's eccentricity in order, and what gave one of them away."""
    order = np.argsort(-found.eccentricity, kind="stable")
    place = st.slider("One of them", 1, len(order), 1, key="l1_person", bind="query-params")
    draw(_eccentricities(found, order, place, guess), key="l1_apart", label="How far each best match stands out")
    row = int(order[place - 1])
    record = int(found.best[row])
    clues = [each for each in linkage.clues(linkage.ratings(), outsider, row, record, release) if each.points]
    whose = "their own record" if record == found.target[row] else "somebody else's record"
    ahead = f"{found.eccentricity[row]:.1f} standard deviations ahead of the next one"
    if not clues:
        st.markdown("Nothing that is published says anything about this one.")
        return
    st.markdown(
        f"The best match of no. {place} is **{whose}**, {ahead}. It shares {len(clues)} of the {outsider.known} known "
        f"films; most telling: {'; '.join(clue_text(clue) for clue in clues[:2])}."
    )


def clue_text(clue: Clue) -> str:
    """What one film says."""
    return f"film {clue.film}, rated by {clue.raters:,} (+{clue.points:.2f})"


def _eccentricities(found: Matches, order: np.ndarray, place: int, guess: float | None) -> go.Figure:
    ranks = np.arange(1, len(order) + 1) * 100 / len(order)
    named, right = found.eccentricity[order] >= THRESHOLD, found.found[order]
    figure = go.Figure()
    for (name, colour, shape), these in zip(_OUTCOMES, (right, named & ~right, ~named), strict=True):
        figure.add_bar(
            x=ranks[these],
            y=found.eccentricity[order][these],
            name=name,
            width=100 / len(order),
            marker={"color": colour, "pattern": {"shape": shape}, "line": {"width": 0}},
            hovertemplate="no. %{x:.0f}: %{y:.1f}<extra>" + name + "</extra>",
        )
    guess_markers.layout(figure, "l1-apart", x="100 people, by how far they stand out", y="eccentricity", height=330)
    figure.add_scatter(  # in the legend, since its place is among the bars
        x=[0, 101],
        y=[THRESHOLD] * 2,
        name="below: no name",
        mode="lines",
        line={"color": palette.QUIET, "width": 2, "dash": "dot"},
        hoverinfo="skip",
    )
    figure.add_annotation(x=ranks[place - 1], y=float(found.eccentricity[order[place - 1]]), text=f"no. {place}")
    guess_markers.vertical_line(figure, guess)
    figure.update_xaxes(range=[0, 101])
    return figure


LESSON = Lesson(
    name="names",
    title="Removing names is not enough",
    about="Find people in a file that has no names, as Netflix's customers were found.",
    question=(
        "A film club publishes 4,000 people's ratings **without names**. Somebody knows eight of yours: two are "
        "wrong, the dates are right to within two weeks. Of 100 people like you, how many does that somebody find?"
    ),
    guess=Guess(label="Found again, of 100", low=0, high=100, step=1),
    show=show,
    words=(
        "These people are simulated; the attack is the published one. It needs no name: few people watched the same "
        "rare films in the same weeks, so a handful of ratings is a fingerprint. Coarser data helps, and costs: which "
        "column would you give up?"
    ),
    simplifies=(
        "It is often said that *99 % of the removed personal information* was recovered. The paper says something "
        "else: of records of which eight ratings are known, two of them quite wrong, with dates off by up to 14 days, "
        "99 % can be told apart from all others. Only a few people were really looked up in IMDb, whose members had "
        "rated films there under their names. The prize began in 2006."
    ),
    note=(
        "**Sources.** A. Narayanan and V. Shmatikov, *Robust De-anonymization of Large Sparse Datasets*, IEEE S&P "
        "2008, sections 4 and 5: score, eccentricity, threshold 1.5.\n\n"
        "**Pitfalls.** *They were found because the data was badly anonymised*: no, it was what is usually done. "
        "*Nobody knows my ratings*: colleagues do. With no date and no stars released, which films somebody rated "
        "still says something.\n\n"
        "**Ask the class.** Which data about you is as sparse as this: shopping, places, words? Who would know eight "
        "entries of it?"
    ),
)
