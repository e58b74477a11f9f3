"""Secret sharing: any t shares reconstruct a secret, and t − 1 reveal nothing (Shamir 1979, *How to Share a Secret*).

The secret is the value at zero of a polynomial of degree t − 1, whose other coefficients are random. Client u holds its
value at u + 1. Arithmetic is modulo a prime.
"""

import functools
from collections.abc import Mapping, Sequence

PRIME = 2**256 + 297
"""The smallest prime above all numbers of 32 bytes. Coefficients have 32 random bytes, and so miss 297 of its values: a
distance of 2⁻²⁴⁷ from uniform."""
SHARE_BYTES = 33
"""Bytes of a share, which may exceed 32 bytes by one bit."""


def shares(secret: int, coefficients: Sequence[int], parties: int, prime: int = PRIME) -> tuple[int, ...]:
    """Return one share of a secret for each client.

    Args:
        secret: The secret, below the prime.
        coefficients: t − 1 random numbers, uniform below the prime.
        parties: Number of clients.
        prime: The modulus.
    """
    polynomial = (*reversed(coefficients), secret)
    values = []
    for point in range(1, parties + 1):
        value = 0
        for coefficient in polynomial:
            value = (value * point + coefficient) % prime
        values.append(value)
    return tuple(values)


def reconstruct(shares: Mapping[int, int], prime: int = PRIME) -> int:
    """Return the secret from t shares.

    Too few or wrong shares give another number and no error: the caller must verify the secret.

    Args:
        shares: Shares by number of the client that held them.
        prime: The modulus.
    """
    parties = tuple(sorted(shares))
    weights = _lagrange_weights(parties, prime)
    return sum(weight * shares[party] for party, weight in zip(parties, weights, strict=True)) % prime


@functools.lru_cache(maxsize=16)
def _lagrange_weights(parties: tuple[int, ...], prime: int) -> tuple[int, ...]:
    """Return the weight of each share: the value at zero of the polynomial that is 1 at its point and 0 at others."""
    weights = []
    for party in parties:
        numerator, denominator = 1, 1
        for other in parties:
            if other != party:
                numerator = numerator * (other + 1) % prime
                denominator = denominator * (other - party) % prime
        weights.append(numerator * pow(denominator, -1, prime) % prime)
    return tuple(weights)
