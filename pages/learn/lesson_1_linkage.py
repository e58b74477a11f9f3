"""Lesson 1: a linkage attack on ratings without names (Narayanan and Shmatikov 2008), and defences against it."""

import numpy as np
import plotly.graph_objects as go
import streamlit as st

from engine.lessons import linkage
from engine.lessons.linkage import DEFENCES, MOST_KNOWN, PRINTED, THRESHOLD, Clue, Matches, Outsider, Release
from pages.learn import guess_markers
from pages.learn.lesson import Guess, Lesson
from pages.shared import palette
from pages.shared.plotly_component import show as draw

VIEWS = ("Re-identification rate", "Defences", "Eccentricity")
_OUTCOMES = (
    ("re-identified", palette.RECALL, ""),
    ("wrong person", palette.TYPES[0], "x"),
    ("no match", palette.PRIVATE, ""),
)


def show(guess: float | None) -> None:
    """Show the controls, the headline and the chart. The guess is the number re-identified, of 100 people."""
    view = st.segmented_control(
        "Show", VIEWS, default=VIEWS[0], key="l1_view", bind="query-params", required=True, label_visibility="collapsed"
    )
    left, right = st.columns([2.6, 1], gap="large")
    with right:
        known = st.slider("Known ratings", 1, MOST_KNOWN, 8, key="l1_known", bind="query-params")
        wrong = st.slider("Wrong ratings", 0, 4, 2, key="l1_wrong", bind="query-params")
        days = st.slider("Largest date error (days)", 0, 60, 14, key="l1_days", bind="query-params")
        stars = st.slider("Largest rating error (stars)", 0, 2, 0, key="l1_stars", bind="query-params")
        outsider = Outsider(known=known, wrong=min(wrong, known), days_off=days, stars_off=stars)
        chosen = st.selectbox("Published data", list(DEFENCES), key="l1_published", bind="query-params")
    data = linkage.ratings()
    matches = linkage.attack(data, outsider, DEFENCES[chosen])
    with left:
        st.markdown(f"#### {answer(matches, known, min(wrong, known))}")
        if view == VIEWS[0]:
            draw(_by_known(outsider, DEFENCES[chosen], guess), key="l1_many", label=answer(matches, known, wrong))
            st.caption(
                "Diamonds: results of the Netflix paper for 500,000 people. With 8 known ratings (2 wrong, 14 days): "
                "99 %. With 2 known ratings (3 days): 68 %. Our 4,000 people are easier to distinguish. Each bar "
                "has your share of wrong ratings, rounded down."
            )
        elif view == VIEWS[1]:
            draw(_by_defence(outsider, guess), key="l1_helped", label="People re-identified with each defence")
        else:
            _eccentricity_view(matches, outsider, DEFENCES[chosen], guess)


def answer(matches: Matches, known: int, wrong: int) -> str:
    """Return the result of the attack in a sentence.

    Args:
        matches: The result.
        known: Number of ratings that the attacker knows.
        wrong: Number of wrong ones among them.
    """
    right, other, unmatched = (round(100 * share) for share in matches.shares)
    ratings = f"{known} {'rating' if known == 1 else 'ratings'}"
    parts = [f"An attacker who knows {ratings} ({wrong} wrong) re-identifies {right} of 100 people"]
    parts += [f"confuses {other} with another person"] if other else []
    parts += [f"finds no match for {unmatched}"] if unmatched else []
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1]))) + "."


def _by_known(outsider: Outsider, release: Release, guess: float | None) -> go.Figure:
    """Draw the outcomes by number of known ratings, wrong ones in proportion, and the shares that the paper reports."""
    counts = sorted({1, 2, 4, 6, 8, 12, outsider.known})
    shares = []
    for known in counts:
        same = {"days_off": outsider.days_off, "stars_off": outsider.stars_off}
        attacker = Outsider(known=known, wrong=outsider.wrong * known // outsider.known, **same)
        shares.append(linkage.attack(linkage.ratings(), attacker, release).shares)
    figure = go.Figure()
    opacity = [1.0 if known == outsider.known else 0.5 for known in counts]
    for number, (name, colour, shape) in enumerate(_OUTCOMES):
        figure.add_bar(
            x=[str(known) for known in counts],
            y=[100 * share[number] for share in shares],
            name=name,
            marker={"color": colour, "opacity": opacity, "pattern": {"shape": shape}},
            hovertemplate="%{y:.0f} of 100<extra>" + name + "</extra>",
        )
    figure.add_scatter(
        x=[str(known) for known, _, _, _ in PRINTED],
        y=[100 * share for _, _, _, share in PRINTED],
        mode="markers",
        name="reported, Netflix",
        marker={"symbol": "diamond", "size": 14, "color": "white", "line": {"width": 3, "color": palette.TYPES[5]}},
        text=[f"{known} known, {wrong} wrong, dates off by {days} days" for known, wrong, days, _ in PRINTED],
        hovertemplate="%{text}: %{y:.0f} %<extra>reported</extra>",
    )
    guess_markers.layout(figure, "l1-many", x="known ratings", y="people, of 100")
    figure.update_xaxes(type="category", categoryorder="array", categoryarray=[str(known) for known in counts])
    figure.update_yaxes(range=[0, 104])
    guess_markers.horizontal_line(figure, guess)
    return figure


def _by_defence(outsider: Outsider, guess: float | None) -> go.Figure:
    """Draw the outcomes of the same attack on each alternative publication."""
    names = list(reversed(DEFENCES))
    shares = [linkage.attack(linkage.ratings(), outsider, DEFENCES[name]).shares for name in names]
    figure = go.Figure()
    for number, (name, colour, shape) in enumerate(_OUTCOMES):
        figure.add_bar(
            y=names,
            x=[100 * share[number] for share in shares],
            name=name,
            orientation="h",
            marker={"color": colour, "pattern": {"shape": shape}},
            hovertemplate="%{y}: %{x:.0f} of 100<extra>" + name + "</extra>",
        )
    guess_markers.layout(figure, "l1-helped", x="people, of 100", y="")
    figure.update_layout(margin={"l": 130})
    figure.update_xaxes(range=[0, 104])
    guess_markers.vertical_line(figure, guess)
    return figure


def _eccentricity_view(matches: Matches, outsider: Outsider, release: Release, guess: float | None) -> None:
    """Show the eccentricity of all people, largest first, and the most informative films of one of them."""
    order = np.argsort(-matches.eccentricity, kind="stable")
    rank = st.slider("Person (rank by eccentricity)", 1, len(order), 1, key="l1_person", bind="query-params")
    draw(_eccentricities(matches, order, rank, guess), key="l1_apart", label="Eccentricity of each best match")
    row = int(order[rank - 1])
    record = int(matches.best[row])
    clues = [clue for clue in linkage.clues(linkage.ratings(), outsider, row, record, release) if clue.points]
    whose = "their own record" if record == matches.target[row] else "another person's record"
    ahead = f"{matches.eccentricity[row]:.1f} standard deviations above the second-best match"
    if not clues:
        st.markdown("The published data contain no information about this person.")
        return
    st.markdown(
        f"The best match of person {rank} is **{whose}**, {ahead}. It shares {len(clues)} of the {outsider.known} "
        f"known films. Most informative: {'; '.join(clue_text(clue) for clue in clues[:2])}."
    )


def clue_text(clue: Clue) -> str:
    """Return a film, the number of its raters, and the points that it adds to the score."""
    return f"film {clue.film}, rated by {clue.raters:,} people (+{clue.points:.2f} to the score)"


def _eccentricities(matches: Matches, order: np.ndarray, rank: int, guess: float | None) -> go.Figure:
    """Draw the eccentricity of each best match, largest first; ``order`` sorts the people, ``rank`` selects one."""
    ranks = np.arange(1, len(order) + 1) * 100 / len(order)
    named, right = matches.eccentricity[order] >= THRESHOLD, matches.found[order]
    figure = go.Figure()
    for (name, colour, shape), rows in zip(_OUTCOMES, (right, named & ~right, ~named), strict=True):
        figure.add_bar(
            x=ranks[rows],
            y=matches.eccentricity[order][rows],
            name=name,
            width=100 / len(order),
            marker={"color": colour, "pattern": {"shape": shape}, "line": {"width": 0}},
            hovertemplate="person %{x:.0f}: eccentricity %{y:.1f}<extra>" + name + "</extra>",
        )
    guess_markers.layout(figure, "l1-apart", x="100 people, by eccentricity", y="eccentricity", height=330)
    figure.add_scatter(  # labelled in the legend, because the line crosses the bars
        x=[0, 101],
        y=[THRESHOLD] * 2,
        name="below: no match",
        mode="lines",
        line={"color": palette.QUIET, "width": 2, "dash": "dot"},
        hoverinfo="skip",
    )
    figure.add_annotation(x=ranks[rank - 1], y=float(matches.eccentricity[order[rank - 1]]), text=f"no. {rank}")
    guess_markers.vertical_line(figure, guess)
    figure.update_xaxes(range=[0, 101])
    return figure


LESSON = Lesson(
    name="names",
    title="Removing names is not enough",
    about="Re-identify people in a file without names, as researchers did with Netflix's customers.",
    question=(
        "A film club publishes the ratings of 4,000 people **without names**. An attacker knows eight of your ratings. "
        "Two are wrong, and the dates are right to within two weeks. Of 100 people like you, how many are "
        "re-identified?"
    ),
    guess=Guess(label="People re-identified, of 100", low=0, high=100, step=1),
    show=show,
    words=(
        "These people are simulated; the attack is the published one. It needs no names. Few people watched the same "
        "rare films in the same weeks, so a few ratings identify a person like a fingerprint. Coarser data help, but "
        "lose detail: which column would you remove?"
    ),
    simplifies=(
        "A common claim is that *99 % of the removed personal information* was recovered. The paper's result is "
        "different: an attacker knows eight ratings of a record, two of them wrong, with date errors of up to 14 days. "
        "Then 99 % of the records can be distinguished from all others. The authors looked up only a few people in "
        "IMDb, where members had rated films under their names. The Netflix Prize began in 2006."
    ),
    note=(
        "**Sources.** A. Narayanan and V. Shmatikov, *Robust De-anonymization of Large Sparse Datasets*, IEEE S&P "
        "2008, sections 4 and 5: score, eccentricity, threshold 1.5.\n\n"
        "**Pitfalls.** “It worked because the data were badly anonymised.” No: the method was a usual one. “No one "
        "knows my ratings.” Colleagues do. Even without dates and stars, the list of rated films is informative.\n\n"
        "**Ask the class.** Which data about you are as sparse as these: shopping, places, words? Who would know eight "
        "of their entries?"
    ),
)
