"""Named random streams: draws that runs may share come from the seed, protective draws from a key of each run.

A stream depends only on its origin, its name and its keys, never on earlier draws. A run that resumes at step 731 draws
the same sample and noise there as a run without interruption. Repeated work therefore releases nothing twice.

:class:`Seeds` give initial weights, partitions and pieces. Two runs of one seed start alike, so that comparisons are
paired. :class:`Secrets` give the samples and the noise of private runs. If two runs shared those, their difference
would cancel the noise: from steps with noise multipliers σ₁ and σ₂ the noise-free sum follows by one linear equation.
Their key is therefore derived from the seed *and* the configuration, or comes from the operating system.
"""

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np


class Stream(Protocol):
    """Random draws of one name; a ``numpy.random.Generator`` is one too."""

    def random(self, size: int) -> np.ndarray:
        """Return uniform draws from [0, 1), float64 [size]."""
        ...

    def permutation(self, size: int) -> np.ndarray:
        """Return 0 … size − 1 in random order, int64 [size]."""
        ...


@dataclass(frozen=True)
class Seeds:
    """Streams of one seed, or of one client of it.

    Attributes:
        seed: The seed.
        keys: Keys that are part of every name.
    """

    seed: int
    keys: tuple[tuple[str, int], ...] = ()

    def of(self, **keys: int) -> "Seeds":
        """Return the streams of one client, e.g. ``of(client=3)``."""
        return Seeds(self.seed, (*self.keys, *keys.items()))

    def stream(self, name: str, **keys: int) -> np.random.Generator:
        """Return a new generator for a name and keys, e.g. ``stream("pieces", client=7)``.

        Equal calls give equal draws.
        """
        return np.random.Generator(np.random.SFC64(int.from_bytes(self.key(name, **keys), "little")))

    def key(self, name: str, **keys: int) -> bytes:
        """Return the 32 bytes from which the stream of a name and keys is derived."""
        return hashlib.sha256(_identity(str(self.seed), name, self.keys, keys).encode()).digest()


@dataclass(frozen=True)
class Secrets:
    """Streams of protective draws, of one run or of one client of it.

    Attributes:
        entropy: 32 bytes from which every key is derived.
        keys: Keys that are part of every name.
    """

    entropy: bytes = field(repr=False)
    keys: tuple[tuple[str, int], ...] = ()

    @classmethod
    def seeded(cls, seed: int, run: str) -> "Secrets":
        """Return streams for simulation: anyone who knows the seed and the run can reproduce them.

        Args:
            seed: The seed.
            run: Identity of the run.
        """
        return cls(hashlib.sha256(f"secrets,{seed},{run}".encode()).digest())

    @classmethod
    def drawn(cls) -> "Secrets":
        """Return streams for release, from the operating system's entropy: different on every call."""
        return cls(secrets.token_bytes(32))

    def of(self, **keys: int) -> "Secrets":
        """Return the streams of one client, e.g. ``of(client=3)``."""
        return Secrets(self.entropy, (*self.keys, *keys.items()))

    def stream(self, name: str, **keys: int) -> "KeyStream":
        """Return a new stream for a name and keys, e.g. ``stream("noise", step=7)``.

        Equal calls give equal draws.
        """
        return KeyStream(hmac.digest(self.entropy, _identity("", name, self.keys, keys).encode(), "sha256"))


@dataclass(frozen=True)
class KeyStream:
    """ChaCha20 (RFC 8439) keystream of a 32-byte key; indistinguishable from random without the key."""

    key: bytes = field(repr=False)

    def random(self, size: int) -> np.ndarray:
        """Return uniform draws from [0, 1) with 53 bits each, float64 [size]."""
        return (self._words(size) >> np.uint64(11)) * 2.0**-53

    def permutation(self, size: int) -> np.ndarray:
        """Return 0 … size − 1 in random order, int64 [size]."""
        return np.argsort(self._words(size), kind="stable")

    def _words(self, size: int) -> np.ndarray:
        from cryptography.hazmat.primitives.ciphers import (
            Cipher,
            algorithms,
        )  # pages draw nothing, so they need no import

        cipher = Cipher(algorithms.ChaCha20(self.key, bytes(16)), mode=None).encryptor()
        return np.frombuffer(cipher.update(bytes(8 * size)), dtype="<u8")


def _identity(start: str, name: str, own: tuple[tuple[str, int], ...], more: Mapping[str, int]) -> str:
    return ",".join([start, name, *(f"{key}={value}" for key, value in sorted((*own, *more.items())))])
