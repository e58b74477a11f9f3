"""Linkage attack on ratings without names: removing names is not enough (Narayanan and Shmatikov 2008).

*Robust De-anonymization of Large Sparse Datasets*, sections 4 and 5. The attacker knows approximate values of a few of
a person's ratings and scores every record:

    score(record) = Σ over known films in the record of  1/ln|supp(film)| · (e^(−|Δstars|/1.5) + e^(−|Δdays|/30)),

where supp(film) are the people who rated the film. The attacker selects the best record if its eccentricity is large
enough: (best − second)/σ ≥ 1.5, where σ is the standard deviation of all scores. Otherwise there is no match.

People, films, stars and dates are simulated (:func:`ratings`), and the attacker's knowledge is drawn from them; both
are reproducible. The ratings of a film are contiguous, so that scoring reads only the people who rated it.
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
"""Number of people whom the attacker wants to identify; each has rated at least ``MOST_KNOWN`` films."""
MOST_KNOWN = 12
THRESHOLD = 1.5
"""Eccentricity below which the attacker claims no match (section 5)."""
PRINTED = ((8, 2, 14, 0.99), (2, 0, 3, 0.68))
"""Results in section 1 of the paper: known ratings, wrong ones among them, date error in days, share of matches."""
_STARS_SCALE, _DAYS_SCALE = 1.5, 30.0
_SEED = 16


@dataclass(frozen=True, eq=False)
class Ratings:
    """Ratings, sorted by film and within a film by person.

    Attributes:
        people: Number of people.
        starts: Index of the first rating of each film, [films + 1].
        person: Person of each rating, [ratings].
        stars: Stars of each rating, 1 to 5, [ratings].
        day: Day of each rating, [ratings].
    """

    people: int
    starts: "NDArray[np.int64]"
    person: "NDArray[np.int32]"
    stars: "NDArray[np.int32]"
    day: "NDArray[np.int32]"

    @property
    def raters(self) -> "NDArray[np.int64]":
        """Number of people who rated each film, [films]."""
        return np.diff(self.starts)

    @property
    def film(self) -> "NDArray[np.int64]":
        """Film of each rating, [ratings]."""
        return np.repeat(np.arange(len(self.starts) - 1), self.raters)


@dataclass(frozen=True, kw_only=True)
class Outsider:
    """The attacker's background knowledge of a person.

    Attributes:
        known: Number of ratings that the attacker knows.
        wrong: Number of these that are of films the person never rated, with invented stars and dates.
        days_off: Largest error of the other dates, in days.
        stars_off: Largest error of the other ratings, in stars.
    """

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
    """The form in which ratings are published without names.

    Attributes:
        dates: Precision of dates: "day", "month", "year" or "none".
        stars: Whether stars are published.
        films: Number of best-known films that are published; 0 for all.
        days_noise: Largest random change of a date in days, drawn uniformly.
        stars_noise: Largest random change of a number of stars, drawn uniformly.
    """

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
    "unchanged": Release(),
    "dates by month": Release(dates="month"),
    "dates by year": Release(dates="year"),
    "no dates": Release(dates="none"),
    "no stars": Release(stars=False),
    "50 best-known films": Release(films=50),
    "noise": Release(days_noise=90, stars_noise=2),
}
"""Possible forms of publication, by the label that links hold."""


@dataclass(frozen=True, eq=False)
class Knowledge:
    """The known ratings of all targets.

    Attributes:
        targets: Person of each target, [targets].
        film: Film of each known rating, [targets, known].
        stars: Its stars, [targets, known].
        day: Its day, [targets, known].
        true: Whether the target rated this film, [targets, known].
    """

    targets: "NDArray[np.int64]"
    film: "NDArray[np.int64]"
    stars: "NDArray[np.int64]"
    day: "NDArray[np.int64]"
    true: "NDArray[np.bool_]"


@dataclass(frozen=True, eq=False)
class Matches:
    """The result of the attack.

    Attributes:
        target: True record of each target, [targets].
        best: Record with the highest score, [targets].
        eccentricity: Its eccentricity, [targets].
    """

    target: "NDArray[np.int64]"
    best: "NDArray[np.int64]"
    eccentricity: "NDArray[np.float64]"

    @property
    def found(self) -> "NDArray[np.bool_]":
        """Whether the correct record is matched, [targets]."""
        return np.asarray(np.logical_and(self.eccentricity >= THRESHOLD, self.best == self.target))

    @property
    def shares(self) -> tuple[float, float, float]:
        """Shares of the targets with a correct match, a false match and no match."""
        matched = float(np.mean(self.eccentricity >= THRESHOLD))
        correct = float(np.mean(self.found))
        return correct, matched - correct, 1 - matched


@lru_cache(maxsize=4)
def ratings(people: int = PEOPLE, films: int = FILMS) -> Ratings:
    """Simulate ratings.

    Popularity decreases as 1/rank^1.1. The number of ratings per person is log-normal around 30. Stars depend on film
    and person, and the dates of a person are within the months in which the person was active.
    """
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
    """Return these ratings as published."""
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
    """Return the attacker's knowledge of ``targets`` people.

    Correct films are drawn uniformly from those that the person rated, wrong ones from the others by popularity. The
    people, and the order of each person's films, are the same for every ``outsider``.
    """
    random = Seeds(_SEED).stream("knowledge", people=data.people)
    whom = np.sort(random.choice(data.people, min(targets, data.people), replace=False))
    films = len(data.starts) - 1
    index = np.full((data.people, films), -1)
    index[data.person, data.film] = np.arange(len(data.person))
    index = index[whom]  # of each target's rating of each film, −1 without one
    size = (len(whom), outsider.known)
    shuffled = np.argsort(np.where(index >= 0, random.random(index.shape), 2), axis=1)[:, : outsider.known]
    popular = np.log(np.maximum(data.raters, 1)) + random.gumbel(size=index.shape)
    never = np.argsort(np.where(index < 0, -popular, np.inf), axis=1)[:, : outsider.known]
    true = np.broadcast_to(np.arange(outsider.known) >= outsider.wrong, size)
    film = np.where(true, shuffled, never)
    at = np.take_along_axis(index, film, axis=1)
    off = np.rint((2 * random.random((len(whom), MOST_KNOWN)) - 1)[:, : outsider.known] * outsider.days_off)
    stars_off = np.rint((2 * random.random((len(whom), MOST_KNOWN)) - 1)[:, : outsider.known] * outsider.stars_off)
    made_up = random.integers(1, 6, (len(whom), MOST_KNOWN)), random.integers(0, DAYS, (len(whom), MOST_KNOWN))
    stars = np.where(true, np.clip(data.stars[at] + stars_off.astype(int), 1, 5), made_up[0][:, : outsider.known])
    day = np.where(true, data.day[at] + off.astype(int), made_up[1][:, : outsider.known])
    return Knowledge(whom, film, stars, day, true)


def scores(data: Ratings, known: Knowledge, release: Release = Release()) -> "NDArray[np.float64]":
    """Return the score of each record for each target, [targets, people].

    Args:
        data: The ratings as published.
        known: The attacker's knowledge.
        release: The form of publication, which decides whether dates and stars count.
    """
    scored = np.zeros((len(known.film), data.people))
    for row, column in np.ndindex(known.film.shape):
        film = known.film[row, column]
        raters = slice(data.starts[film], data.starts[film + 1])
        stars, day = int(known.stars[row, column]), int(known.day[row, column])
        scored[row, data.person[raters]] += _points(data, raters, stars, day, release)
    return scored


@lru_cache(maxsize=256)
def attack(data: Ratings, outsider: Outsider, release: Release = Release(), targets: int = TARGETS) -> Matches:
    """Run the attack of ``outsider`` on the published ratings."""
    known = knowledge(data, outsider, targets)
    return matches(known, scores(released(data, release), known, release))


def matches(known: Knowledge, scored: "NDArray[np.float64]") -> Matches:
    """Return the best record for each target, with its eccentricity."""
    rows = np.arange(len(scored))
    best = scored.argmax(axis=1)
    highest = scored[rows, best]
    others = scored.copy()
    others[rows, best] = -np.inf
    second = others.max(axis=1)
    spread = scored.std(axis=1)
    # If no record has a score, the eccentricity is 0.
    eccentricity = np.divide(highest - second, spread, out=np.zeros(len(best)), where=spread > 0)
    return Matches(known.targets, best, eccentricity)


@dataclass(frozen=True, kw_only=True)
class Clue:
    """The contribution of one known rating to the score of a record.

    Attributes:
        film: Index of the film.
        raters: Number of people who rated it.
        true: Whether the target did.
        days: Published day minus known day.
        stars: Published stars minus known stars.
        points: Contribution to the score; 0 if the record does not contain the film.
    """

    film: int
    raters: int
    true: bool
    days: int = 0
    stars: int = 0
    points: float = 0.0


def clues(data: Ratings, outsider: Outsider, row: int, record: int, release: Release = Release()) -> list[Clue]:
    """Return the contribution of each known rating of a target to the score of one record, largest first.

    Args:
        data: The ratings before publication.
        outsider: The attacker.
        row: Index of the target.
        record: The record.
        release: The form of publication.
    """
    known = knowledge(data, outsider)
    published = released(data, release)
    result = []
    for column, film in enumerate(known.film[row]):
        raters = slice(published.starts[film], published.starts[film + 1])
        stars, day = int(known.stars[row, column]), int(known.day[row, column])
        points = _points(published, raters, stars, day, release)
        matching = np.flatnonzero(published.person[raters] == record)
        clue = Clue(film=int(film), raters=raters.stop - raters.start, true=bool(known.true[row, column]))
        if len(matching):
            at = raters.start + matching[0]
            added = float(np.broadcast_to(points, raters.stop - raters.start)[matching[0]])
            clue = replace(
                clue, days=int(published.day[at] - day), stars=int(published.stars[at] - stars), points=added
            )
        result.append(clue)
    return sorted(result, key=lambda clue: -clue.points)


def _points(data: Ratings, ratings: slice, stars: int, day: int, release: Release) -> "NDArray[np.float64] | float":
    """Return the contribution of one known rating to the scores of the records that contain its film.

    Args:
        data: The ratings as published.
        ratings: Indices of the ratings of the film.
        stars: Known stars.
        day: Known day.
        release: The form of publication.
    """
    similarity: NDArray[np.float64] | float = 0.0
    if release.stars:
        similarity = _STARS[np.abs(data.stars[ratings] - stars)]
    if grain := _GRAIN[release.dates]:
        similarity = similarity + _DAYS[np.abs(data.day[ratings] - day // grain * grain)]
    elif not release.stars:
        similarity = 1.0  # only the film itself matches
    # A film that only one person rated would have a denominator of ln 1 = 0: it counts as rated by two.
    return similarity / math.log(max(ratings.stop - ratings.start, 2))


_STARS = np.exp(-np.arange(5) / _STARS_SCALE)
_DAYS = np.exp(-np.arange(3 * DAYS) / _DAYS_SCALE)
