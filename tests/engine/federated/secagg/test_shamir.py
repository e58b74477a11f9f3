"""Shamir's secret sharing: any t shares reconstruct the secret, and t − 1 shares are independent of it."""

import itertools
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.federated.secagg import shamir

SMALL = 7
numbers = st.integers(0, shamir.PRIME - 1)


@st.composite
def secret_sharings(draw):
    """Draw a secret, its coefficients, the number of parties, and t of them."""
    threshold = draw(st.integers(2, 8))
    parties = draw(st.integers(threshold, 15))
    holders = draw(st.permutations(range(parties)))[:threshold]
    coefficients = draw(st.lists(numbers, min_size=threshold - 1, max_size=threshold - 1))
    return draw(st.integers(0, 2**256 - 1)), coefficients, parties, holders


@settings(deadline=None)
@given(secret_sharings())
def test_any_t_shares_reconstruct_the_secret(sharing):
    secret, coefficients, parties, holders = sharing
    shares = shamir.shares(secret, coefficients, parties)
    assert shamir.reconstruct({party: shares[party] for party in holders}) == secret
    assert shamir.reconstruct(dict(enumerate(shares))) == secret
    assert all(share < 256**shamir.SHARE_BYTES for share in shares)


@settings(deadline=None)
@given(secret_sharings(), st.integers(1, shamir.PRIME - 1))
def test_a_wrong_share_reconstructs_another_secret(sharing, error):
    secret, coefficients, parties, holders = sharing
    shares = shamir.shares(secret, coefficients, parties)
    wrong = {party: shares[party] for party in holders}
    wrong[holders[0]] = (wrong[holders[0]] + error) % shamir.PRIME
    assert shamir.reconstruct(wrong) != secret


def view_counts(secret: int, threshold: int, holders: tuple[int, ...]) -> Counter:
    """Return the number of coefficients that give each view of these parties, over all coefficients."""
    counts: Counter = Counter()
    for coefficients in itertools.product(range(SMALL), repeat=threshold - 1):
        shares = shamir.shares(secret, coefficients, 5, SMALL)
        counts[tuple(shares[party] for party in holders)] += 1
    return counts


@pytest.mark.parametrize("threshold", [2, 3, 4])
def test_t_minus_1_shares_are_independent_of_the_secret(threshold):
    for holders in itertools.combinations(range(5), threshold - 1):
        views = [view_counts(secret, threshold, holders) for secret in range(SMALL)]
        assert all(view == views[0] for view in views)
        # All views are equally frequent, so shares are uniformly distributed.
        assert set(views[0].values()) == {1}
        assert len(views[0]) == SMALL ** (threshold - 1)


def test_t_shares_depend_on_the_secret():
    views = [view_counts(secret, 3, (0, 2, 4)) for secret in range(SMALL)]
    assert not any(one.keys() & other.keys() for one, other in itertools.combinations(views, 2))


def test_prime_is_prime():
    """The Miller–Rabin test detects a composite number with probability 1 − 4⁻⁴⁰."""
    odd, twos = shamir.PRIME - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in range(2, 42):
        power = pow(base, odd, shamir.PRIME)
        assert power in (1, shamir.PRIME - 1) or any(
            pow(power, 2**square, shamir.PRIME) == shamir.PRIME - 1 for square in range(1, twos)
        )
    assert shamir.PRIME > 2**256
