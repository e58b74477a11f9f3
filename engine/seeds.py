"""Named random streams: what may be shared between runs comes from the seed, what protects from a key of its own run.

A stream depends only on where it comes from, its name and its keys, never on what was drawn before. A run that resumes
at step 731 therefore draws the same sample and the same noise at step 731 as a run that was never interrupted: work
that is done twice releases nothing twice.

:class:`Seeds` give initial weights, shards and pieces: two runs of one seed begin alike, so that comparisons are
paired. :class:`Secrets` give the samples and the noise of private runs. If two runs shared those, their difference
would cancel the noise: from steps with noise multipliers σ₁ and σ₂ the noise-free sum follows by one linear equation.
Their key is therefore worked out from the seed *and* from what is run, or comes from the operating system.
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
        """Uniform draws from [0, 1), float64 [size]."""
        ...

    def permutation(self, size: int) -> np.ndarray:
        """0 … size − 1 in random order, int64 [size]."""
        ...


@dataclass(frozen=True)
class Seeds:
    """Streams of one seed, or of one party of it: ``keys`` are then part of every name."""

    seed: int
    keys: tuple[tuple[str, int], ...] = ()

    def of(self, **keys: int) -> "Seeds":
        """The streams of one party, e.g. ``of(client=3)``."""
        return Seeds(self.seed, (*self.keys, *keys.items()))

    def stream(self, name: str, **keys: int) -> np.random.Generator:
        """A fresh generator for a name and keys, e.g. ``stream("pieces", client=7)``; equal calls give equal draws."""
        digest = hashlib.sha256(_identity(str(self.seed), name, self.keys, keys).encode()).digest()
        return np.random.Generator(np.random.SFC64(int.from_bytes(digest, "little")))


@dataclass(frozen=True)
class Secrets:
    """Streams that protect, of one run or of one party of it. entropy: 32 bytes from which every key is worked out."""

    entropy: bytes = field(repr=False)
    keys: tuple[tuple[str, int], ...] = ()

    @classmethod
    def seeded(cls, seed: int, run: str) -> "Secrets":
        """For simulation: whoever knows the seed and what was run can draw the same. run: the identity of the run."""
        return cls(hashlib.sha256(f"secrets,{seed},{run}".encode()).digest())

    @classmethod
    def drawn(cls) -> "Secrets":
        """For release: from the operating system's entropy, never twice the same."""
        return cls(secrets.token_bytes(32))

    def of(self, **keys: int) -> "Secrets":
        """The streams of one party, e.g. ``of(client=3)``."""
        return Secrets(self.entropy, (*self.keys, *keys.items()))

    def stream(self, name: str, **keys: int) -> "KeyStream":
        """A fresh stream for a name and keys, e.g. ``stream("noise", step=7)``; equal calls give equal draws."""
        return KeyStream(hmac.digest(self.entropy, _identity("", name, self.keys, keys).encode(), "sha256"))


@dataclass(frozen=True)
class KeyStream:
    """What ChaCha20 (RFC 8439) makes of one key of 32 bytes: without the key, nobody tells it from chance."""

    key: bytes = field(repr=False)

    def random(self, size: int) -> np.ndarray:
        """Uniform draws from [0, 1) with 53 bits each, float64 [size]."""
        return (self._words(size) >> np.uint64(11)) * 2.0**-53

    def permutation(self, size: int) -> np.ndarray:
        """0 … size − 1 in random order, int64 [size]."""
        return np.argsort(self._words(size), kind="stable")

    def _words(self, size: int) -> np.ndarray:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms  # pages draw nothing and do without

        cipher = Cipher(algorithms.ChaCha20(self.key, bytes(16)), mode=None).encryptor()
        return np.frombuffer(cipher.update(bytes(8 * size)), dtype="<u8")


def _identity(start: str, name: str, own: tuple[tuple[str, int], ...], more: Mapping[str, int]) -> str:
    return ",".join([start, name, *(f"{key}={value}" for key, value in sorted((*own, *more.items())))])
