"""Removing names is not enough: finding people again in ratings without names (Narayanan and Shmatikov 2008).

*Robust De-anonymization of Large Sparse Datasets*, sections 4 and 5: somebody who knows a few of a person's ratings,
not exactly, scores every record,

    score(record) = Σ over known films in the record of  1/ln|supp(film)| · (e^(−|Δstars|/1.5) + e^(−|Δdays|/30)),

where supp(film) are those who rated it, and takes the best record if it stands out: (best − second)/σ ≥ 1.5, σ the
standard deviation of all scores. Else there is no match.

People, films, stars and dates are simulated (:func:`ratings`), what is known of them is drawn from them, and both are
the same each time. The ratings of a film lie together, so that a score looks at those who rated it alone.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from engine.seeds import Seeds
from engine.validation import integer, one_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

PEOPLE, FILMS, DAYS = 4000, 500, 2190
TARGETS = 100
"""People who are looked for; each has rated ``MOST_KNOWN`` films at least."""
MOST_KNOWN = 12
THRESHOLD = 1.5
"""Of the eccentricity, below which nobody is named (section 5)."""
PRINTED = ((8, 2, 14, 0.99), (2, 0, 3, 0.68))
"""Section 1 of the paper: ratings known, wrong ones among them, days that dates may be off, share of records found."""
_STARS_SCALE, _DAYS_SCALE = 1.5, 30.0
_SEED = 16


@dataclass(frozen=True, eq=False)
class Ratings:
    """Ratings of a number of people, film by film.

    starts: where each film begins in the others [films + 1]. person, stars (1 to 5), day: of each rating [ratings];
    within a film, by person.
    """

    people: int
    starts: "NDArray[np.int64]"
    person: "NDArray[np.int32]"
    stars: "NDArray[np.int32]"
    day: "NDArray[np.int32]"

    @property
    def raters(self) -> "NDArray[np.int64]":
        """How many rated each film, [films]."""
        return np.diff(self.starts)

    @property
    def film(self) -> "NDArray[np.int64]":
        """Of each rating, [ratings]."""
        return np.repeat(np.arange(len(self.starts) - 1), self.raters)


@dataclass(frozen=True, kw_only=True)
class Outsider:
    """What somebody knows of a person. known: ratings. wrong: of these, films that the person never rated, with made-up
    stars and dates. days_off, stars_off: the others are wrong by up to so many days and stars."""

    known: int = 8
    wrong: int = 2
    days_off: int = 14
    stars_off: int = 0

    def __post_init__(self) -> None:
        integer("known", self.known, 1, MOST_KNOWN)
        integer("wrong", self.wrong, 0, self.known)
        integer("days_off", self.days_off, 0, DAYS)
        integer("stars_off", self.stars_off, 0, 4)


@dataclass(frozen=True, kw_only=True)
class Release:
    """What is published without names. dates: "day", "month", "year" or "none". stars: whether they are. films: so many
    of the best-known ones, 0 for all. days_noise, stars_noise: each date and each number of stars is moved by up to so
    much, evenly drawn."""

    dates: str = "day"
    stars: bool = True
    films: int = 0
    days_noise: int = 0
    stars_noise: int = 0

    def __post_init__(self) -> None:
        one_of("dates", self.dates, tuple(_GRAIN))
        integer("films", self.films, 0, FILMS)
        integer("days_noise", self.days_noise, 0, DAYS)
        integer("stars_noise", self.stars_noise, 0, 4)


_GRAIN = {"day": 1, "month": 30, "year": 365, "none": 0}

DEFENCES = {
    "as it was": Release(),
    "dates by month": Release(dates="month"),
    "dates by year": Release(dates="year"),
    "no dates": Release(dates="none"),
    "no stars": Release(stars=False),
    "50 best-known films": Release(films=50),
    "noise": Release(days_noise=90, stars_noise=2),
}
"""What a publisher might have done instead."""


@dataclass(frozen=True, eq=False)
class Knowledge:
    """What is known of each target: film, stars, day, and whether it is true of them, all [targets, known]."""

    targets: "NDArray[np.int64]"
    film: "NDArray[np.int64]"
    stars: "NDArray[np.int64]"
    day: "NDArray[np.int64]"
    true: "NDArray[np.bool_]"


@dataclass(frozen=True, eq=False)
class Matches:
    """What the attack says. best: the record with the highest score, eccentricity: how far it stands out, target: who
    it was, all [targets]."""

    target: "NDArray[np.int64]"
    best: "NDArray[np.int64]"
    eccentricity: "NDArray[np.float64]"

    @property
    def found(self) -> "NDArray[np.bool_]":
        """Whether the right record is named, [targets]."""
        return np.logical_and(self.eccentricity >= THRESHOLD, self.best == self.target)

    @property
    def shares(self) -> tuple[float, float, float]:
        """Of the targets: rightly named, wrongly named, not named."""
        named = float(np.mean(self.eccentricity >= THRESHOLD))
        right = float(np.mean(self.found))
        return right, named - right, 1 - named


@lru_cache(maxsize=4)
def ratings(people: int = PEOPLE, films: int = FILMS) -> Ratings:
    """Simulated ratings: popularity falls as 1/rank^1.1, the numbers of a person's ratings spread log-normally around
    30, stars follow film and person, dates lie within the months in which somebody was active."""
    random = Seeds(_SEED).stream("ratings", people=people, films=films)
    popularity = np.log(1 / np.arange(1, films + 1) ** 1.1)
    least = min(MOST_KNOWN + 3, films // 2)
    sizes = np.clip(np.exp(random.normal(math.log(30), 0.7, people)), least, films * 0.6).astype(int)
    # The largest of ln(weight) + Gumbel draws are a sample without replacement by these weights.
    order = np.argsort(-(popularity + random.gumbel(size=(people, films))), axis=1, kind="stable")
    rated = np.zeros((people, films), dtype=bool)
    np.put_along_axis(rated, order, np.arange(films) < sizes[:, None], axis=1)
    film, person = np.nonzero(rated.T)
    liking = random.normal(3.6, 0.5, films)[film] + random.normal(0, 0.4, people)[person]
    stars = np.clip(np.rint(liking + random.normal(0, 0.9, len(film))), 1, 5)
    begin = random.integers(0, DAYS - 60, people)
    active = np.minimum(60 + random.exponential(400, people), DAYS - begin)
    day = begin[person] + random.random(len(film)) * active[person]
    starts = np.append(0, np.cumsum(rated.sum(axis=0)))
    return Ratings(people, starts, person.astype(np.int32), stars.astype(np.int32), day.astype(np.int32))


@lru_cache(maxsize=32)
def released(data: Ratings, release: Release) -> Ratings:
    """What is published of these ratings."""
    random = Seeds(_SEED).stream("release", days=release.days_noise, stars=release.stars_noise)
    size = len(data.person)
    moved = random.integers(-release.stars_noise, release.stars_noise + 1, size, np.int32)
    stars = np.clip(data.stars + moved, 1, 5)
    day = data.day + random.integers(-release.days_noise, release.days_noise + 1, size, np.int32)
    if grain := _GRAIN[release.dates]:
        day = day // grain * grain
    kept = np.ones(size, dtype=bool)
    raters = data.raters
    if release.films:
        best_known = np.argsort(-raters, kind="stable")[: release.films]
        kept = np.isin(data.film, best_known)
        raters = np.where(np.isin(np.arange(len(raters)), best_known), raters, 0)
    starts = np.append(0, np.cumsum(raters))
    return Ratings(data.people, starts, data.person[kept], stars[kept], day[kept])


@lru_cache(maxsize=256)
def knowledge(data: Ratings, outsider: Outsider, targets: int = TARGETS) -> Knowledge:
    """What such an outsider knows of ``targets`` people: films drawn evenly from those that a person rated; those that
    are wrong from the others, by how well known they are. The same people, and of each the same films in the same
    order, whatever else is chosen."""
    random = Seeds(_SEED).stream("knowledge", people=data.people)
    whom = np.sort(random.choice(data.people, min(targets, data.people), replace=False))
    films = len(data.starts) - 1
    place = np.full((data.people, films), -1)
    place[data.person, data.film] = np.arange(len(data.person))
    place = place[whom]  # of each target's rating of each film, −1 without one
    size = (len(whom), outsider.known)
    shuffled = np.argsort(np.where(place >= 0, random.random(place.shape), 2), axis=1)[:, : outsider.known]
    popular = np.log(np.maximum(data.raters, 1)) + random.gumbel(size=place.shape)
    never = np.argsort(np.where(place < 0, -popular, np.inf), axis=1)[:, : outsider.known]
    true = np.broadcast_to(np.arange(outsider.known) >= outsider.wrong, size)
    film = np.where(true, shuffled, never)
    at = np.take_along_axis(place, film, axis=1)
    off = np.rint((2 * random.random((len(whom), MOST_KNOWN)) - 1)[:, : outsider.known] * outsider.days_off)
    stars_off = np.rint((2 * random.random((len(whom), MOST_KNOWN)) - 1)[:, : outsider.known] * outsider.stars_off)
    made_up = random.integers(1, 6, (len(whom), MOST_KNOWN)), random.integers(0, DAYS, (len(whom), MOST_KNOWN))
    stars = np.where(true, np.clip(data.stars[at] + stars_off.astype(int), 1, 5), made_up[0][:, : outsider.known])
    day = np.where(true, data.day[at] + off.astype(int), made_up[1][:, : outsider.known])
    return Knowledge(whom, film, stars, day, true)


def scores(data: Ratings, known: Knowledge, release: Release = Release()) -> "NDArray[np.float64]":
    """The score of each record for each target, [targets, people]; ``data``: as released, ``release``: what dates and
    stars in it can say."""
    scored = np.zeros((len(known.film), data.people))
    for row, place in np.ndindex(known.film.shape):
        film = known.film[row, place]
        raters = slice(data.starts[film], data.starts[film + 1])
        stars, day = int(known.stars[row, place]), int(known.day[row, place])
        scored[row, data.person[raters]] += _points(data, raters, stars, day, release)
    return scored


@lru_cache(maxsize=256)
def attack(data: Ratings, outsider: Outsider, release: Release = Release(), targets: int = TARGETS) -> Matches:
    """Who is found by such an outsider in such a release."""
    known = knowledge(data, outsider, targets)
    return matches(known, scores(released(data, release), known, release))


def matches(known: Knowledge, scored: "NDArray[np.float64]") -> Matches:
    """The best record for each target, and how far it stands out from the second."""
    rows = np.arange(len(scored))
    best = scored.argmax(axis=1)
    highest = scored[rows, best]
    others = scored.copy()
    others[rows, best] = -np.inf
    second = others.max(axis=1)
    spread = scored.std(axis=1)
    # Where no record has any score, nobody stands out.
    eccentricity = np.divide(highest - second, spread, out=np.zeros(len(best)), where=spread > 0)
    return Matches(known.targets, best, eccentricity)


@dataclass(frozen=True, kw_only=True)
class Clue:
    """What one known rating says about a record. film: its number. raters: how many rated it. true: whether the target
    did. days, stars: by how much the record differs from what is known. points: added to the record's score, 0 where it
    does not have the film."""

    film: int
    raters: int
    true: bool
    days: int = 0
    stars: int = 0
    points: float = 0.0


def clues(data: Ratings, outsider: Outsider, row: int, record: int, release: Release = Release()) -> list[Clue]:
    """What each rating that is known of the target in that row adds to one record's score, the most telling first."""
    known = knowledge(data, outsider)
    shown = released(data, release)
    found = []
    for place, film in enumerate(known.film[row]):
        raters = slice(shown.starts[film], shown.starts[film + 1])
        stars, day = int(known.stars[row, place]), int(known.day[row, place])
        points = _points(shown, raters, stars, day, release)
        here = np.flatnonzero(shown.person[raters] == record)
        clue = Clue(film=int(film), raters=raters.stop - raters.start, true=bool(known.true[row, place]))
        if len(here):
            at = raters.start + here[0]
            more = float(np.broadcast_to(points, raters.stop - raters.start)[here[0]])
            clue = replace(clue, days=int(shown.day[at] - day), stars=int(shown.stars[at] - stars), points=more)
        found.append(clue)
    return sorted(found, key=lambda clue: -clue.points)


def _points(data: Ratings, ratings: slice, stars: int, day: int, release: Release) -> "NDArray[np.float64] | float":
    """What one known rating adds to the scores of records with these ratings of its film; ``data``: as released."""
    alike: NDArray[np.float64] | float = 0.0
    if release.stars:
        alike = _STARS[np.abs(data.stars[ratings] - stars)]
    if grain := _GRAIN[release.dates]:
        alike = alike + _DAYS[np.abs(data.day[ratings] - day // grain * grain)]
    elif not release.stars:
        alike = 1.0  # that a film is in there at all
    # A film that one person alone rated has ln 1 = 0 under the line: it weighs as one that two rated.
    return alike / math.log(max(ratings.stop - ratings.start, 2))


_STARS = np.exp(-np.arange(5) / _STARS_SCALE)
_DAYS = np.exp(-np.arange(3 * DAYS) / _DAYS_SCALE)
