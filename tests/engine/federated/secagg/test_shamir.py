"""Secrets in shares: any t of them give it back, and t − 1 are as likely for one secret as for any other."""

import itertools
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.federated.secagg import shamir

SMALL = 7
numbers = st.integers(0, shamir.PRIME - 1)


@st.composite
def cut(draw):
    """A secret, its coefficients, how many parties there are, and t of them."""
    threshold = draw(st.integers(2, 8))
    parties = draw(st.integers(threshold, 15))
    some = draw(st.permutations(range(parties)))[:threshold]
    coefficients = draw(st.lists(numbers, min_size=threshold - 1, max_size=threshold - 1))
    return draw(st.integers(0, 2**256 - 1)), coefficients, parties, some


@settings(deadline=None)
@given(cut())
def test_any_t_shares_give_the_secret_back(drawn):
    secret, coefficients, parties, some = drawn
    held = shamir.shares(secret, coefficients, parties)
    assert shamir.reconstruct({party: held[party] for party in some}) == secret
    assert shamir.reconstruct(dict(enumerate(held))) == secret
    assert all(share < 256**shamir.SHARE_BYTES for share in held)


@settings(deadline=None)
@given(cut(), st.integers(1, shamir.PRIME - 1))
def test_a_wrong_share_gives_another_secret(drawn, off):
    secret, coefficients, parties, some = drawn
    held = shamir.shares(secret, coefficients, parties)
    wrong = {party: held[party] for party in some}
    wrong[some[0]] = (wrong[some[0]] + off) % shamir.PRIME
    assert shamir.reconstruct(wrong) != secret


def seen(secret: int, threshold: int, who: tuple[int, ...]) -> Counter:
    """How often each choice of coefficients, all of them tried, shows these parties what."""
    found: Counter = Counter()
    for coefficients in itertools.product(range(SMALL), repeat=threshold - 1):
        held = shamir.shares(secret, coefficients, 5, SMALL)
        found[tuple(held[party] for party in who)] += 1
    return found


@pytest.mark.parametrize("threshold", [2, 3, 4])
def test_one_share_less_says_nothing_at_all(threshold):
    for who in itertools.combinations(range(5), threshold - 1):
        views = [seen(secret, threshold, who) for secret in range(SMALL)]
        assert all(view == views[0] for view in views)
        # Each view comes equally often, so that uniform numbers can stand for it.
        assert set(views[0].values()) == {1}
        assert len(views[0]) == SMALL ** (threshold - 1)


def test_t_shares_do_and_the_test_above_would_see_it():
    views = [seen(secret, 3, (0, 2, 4)) for secret in range(SMALL)]
    assert not any(one.keys() & other.keys() for one, other in itertools.combinations(views, 2))


def test_the_prime_is_one():
    """Miller and Rabin's test, whose witnesses find a composite with a chance of 1 − 4⁻⁴⁰."""
    odd, twos = shamir.PRIME - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in range(2, 42):
        power = pow(base, odd, shamir.PRIME)
        assert power in (1, shamir.PRIME - 1) or any(
            pow(power, 2**square, shamir.PRIME) == shamir.PRIME - 1 for square in range(1, twos)
        )
    assert shamir.PRIME > 2**256
