"""Linkage attacks, compared with a matcher that scores every record in a loop."""

import math

import numpy as np
import pytest

from engine.errors import InvalidConfig
from engine.lessons import linkage
from engine.lessons.linkage import DEFENCES, Outsider, Release

SMALL = (120, 40)  # people, films
GRAIN = {"day": 1, "month": 30, "year": 365}


def by_hand(shown, known, release, row):
    """Return the score of each record as in the paper, by loops over records and known films."""
    found = []
    films = shown.film
    records = {(int(who), int(film)): at for at, (who, film) in enumerate(zip(shown.person, films, strict=True))}
    for record in range(shown.people):
        score = 0.0
        for film, stars, day in zip(known.film[row], known.stars[row], known.day[row], strict=True):
            if (at := records.get((record, int(film)))) is None:
                continue
            support = int((films == film).sum())
            alike = 0.0
            if release.stars:
                alike += math.exp(-abs(int(shown.stars[at]) - int(stars)) / 1.5)
            if release.dates != "none":
                grain = GRAIN[release.dates]
                there, here = int(shown.day[at]) // grain * grain, int(day) // grain * grain
                alike += math.exp(-abs(there - here) / 30)
            if not release.stars and release.dates == "none":
                alike = 1.0
            score += alike / math.log(max(support, 2))
        found.append(score)
    return found


@pytest.mark.parametrize("release", [*DEFENCES.values(), Release(dates="none", stars=False)])
def test_scores_equal_formula_of_paper(release):
    if release.films:
        release = Release(films=8)
    data = linkage.ratings(*SMALL)
    known = linkage.knowledge(data, Outsider(known=5, wrong=1, days_off=20, stars_off=1), 12)
    shown = linkage.released(data, release)
    scored = linkage.scores(shown, known, release)
    found = linkage.matches(known, scored)
    for row in range(12):
        expected = by_hand(shown, known, release, row)
        np.testing.assert_allclose(scored[row], expected, rtol=1e-9, atol=1e-12)
        best, second = sorted(expected, reverse=True)[:2]
        spread = np.std(expected)
        eccentricity = (best - second) / spread if spread > 0 else 0
        assert found.eccentricity[row] == pytest.approx(eccentricity, abs=1e-9)
        if best > second:
            assert found.best[row] == int(np.argmax(expected))


def test_exact_knowledge_links_and_false_knowledge_does_not():
    data = linkage.ratings()
    right, wrong, _ = linkage.attack(data, Outsider(known=8, wrong=0, days_off=0)).shares
    assert right == 1
    assert wrong == 0
    right, _, unmatched = linkage.attack(data, Outsider(known=6, wrong=6)).shares
    assert right == 0
    assert unmatched > 0.8  # made-up ratings of films that everyone has seen match a few records at random


def test_shares_of_right_wrong_and_no_match():
    found = linkage.Matches(np.arange(4), np.array([0, 1, 3, 3]), np.array([2.0, 1.0, 1.6, 1.5]))
    assert found.shares == (0.5, 0.25, 0.25)
    np.testing.assert_array_equal(found.found, [True, False, False, True])


def test_knowledge_errors_stay_within_limits():
    data = linkage.ratings()
    held = {(int(who), int(film)): at for at, (who, film) in enumerate(zip(data.person, data.film, strict=True))}
    known = linkage.knowledge(data, Outsider(known=9, wrong=3, days_off=10, stars_off=1))
    assert known.true.sum(axis=1).tolist() == [6] * linkage.TARGETS
    days = []
    for row, who in enumerate(known.targets):
        assert len(set(known.film[row])) == 9
        for film, stars, day, true in zip(
            known.film[row], known.stars[row], known.day[row], known.true[row], strict=True
        ):
            at = held.get((int(who), int(film)))
            assert (at is not None) == true
            if true:
                assert abs(data.stars[at] - stars) <= 1
                days.append(int(data.day[at] - day))
    assert (min(days), max(days)) == (-10, 10)


def test_release_removes_and_perturbs_as_configured():
    data = linkage.ratings()
    few = linkage.released(data, Release(films=50))
    assert (few.raters > 0).sum() == 50
    assert few.raters.max() == data.raters.max()
    assert few.raters[few.raters > 0].min() >= np.sort(data.raters)[-50]
    noisy = linkage.released(data, Release(days_noise=30, stars_noise=1))
    assert np.abs(noisy.day - data.day).max() == 30
    assert set(np.unique(noisy.stars)) == {1, 2, 3, 4, 5}
    np.testing.assert_array_equal(noisy.person, data.person)
    as_it_was = linkage.released(data, Release())
    np.testing.assert_array_equal(as_it_was.day, data.day)


def test_ratings_are_long_tailed():
    data = linkage.ratings()
    assert data.people == linkage.PEOPLE
    popular = np.sort(data.raters)[::-1]
    assert popular[:50].sum() > 0.4 * popular.sum()  # a tenth of the films has nearly half of the ratings
    assert np.bincount(data.person).min() >= linkage.MOST_KNOWN
    assert data.stars.min() == 1
    assert data.stars.max() == 5
    assert data.day.min() >= 0
    assert data.day.max() < linkage.DAYS


def test_clues_sum_to_the_score():
    data, outsider = linkage.ratings(), Outsider(known=7, wrong=2)
    known = linkage.knowledge(data, outsider)
    scored = linkage.scores(data, known)
    for row in (0, 5):
        who = int(known.targets[row])
        found = linkage.clues(data, outsider, row, who)
        assert sum(clue.points for clue in found) == pytest.approx(scored[row, who])
        assert [clue.points for clue in found] == sorted((clue.points for clue in found), reverse=True)
        assert all(clue.true == (clue.points > 0) for clue in found)
        assert {clue.film for clue in found} == set(known.film[row].tolist())


def test_settings_reject_out_of_range_values():
    for wrong in ({"known": 0}, {"known": 3, "wrong": 4}, {"days_off": -1}, {"stars_off": 5}):
        with pytest.raises(InvalidConfig, match=list(wrong)[-1]):
            Outsider(**wrong)
    with pytest.raises(InvalidConfig, match="dates"):
        Release(dates="week")
