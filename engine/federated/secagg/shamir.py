"""A secret in shares: any t of them give it back, t − 1 say nothing about it (Shamir 1979, *How to Share a Secret*).

The secret is the value at zero of a polynomial of degree t − 1, whose other coefficients are drawn at random; party u
holds its value at u + 1. Arithmetic is modulo a prime.
"""

import functools
from collections.abc import Mapping, Sequence

PRIME = 2**256 + 297
"""The first above all numbers of 32 bytes. A coefficient that is drawn from 32 bytes is short of 297 values of it: a
distance of 2⁻²⁴⁷ from uniform."""
SHARE_BYTES = 33


def shares(secret: int, coefficients: Sequence[int], parties: int, prime: int = PRIME) -> tuple[int, ...]:
    """What each of ``parties`` is given, in their order. coefficients: t − 1 of them, uniform below the prime."""
    polynomial = (*reversed(coefficients), secret)
    found = []
    for point in range(1, parties + 1):
        value = 0
        for coefficient in polynomial:
            value = (value * point + coefficient) % prime
        found.append(value)
    return tuple(found)


def joined(held: Mapping[int, int], prime: int = PRIME) -> int:
    """The secret, from t shares by the number of the party who held each. From fewer, or from wrong ones, it is some
    other number, and nothing here notices: who joins them must know something about the secret."""
    parties = tuple(sorted(held))
    return sum(weight * held[party] for party, weight in zip(parties, _at_zero(parties, prime), strict=True)) % prime


@functools.lru_cache(maxsize=16)
def _at_zero(parties: tuple[int, ...], prime: int) -> tuple[int, ...]:
    """What each share is multiplied by: the value at zero of the polynomial that is 1 at its point and 0 at others'."""
    found = []
    for party in parties:
        above, below = 1, 1
        for other in parties:
            if other != party:
                above = above * (other + 1) % prime
                below = below * (other - party) % prime
        found.append(above * pow(below, -1, prime) % prime)
    return tuple(found)
