"""One seed, many named random streams.

A stream depends only on the seed, its name and its keys, never on what was drawn before. A run that resumes at
step 731 therefore draws the same sample and the same noise at step 731 as a run that was never interrupted: work
that is done twice releases nothing twice.

Seeded noise is for simulation: whoever knows the seed can subtract the noise. A deployment must draw it from the
operating system's entropy instead.
"""

import hashlib
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Seeds:
    """Named random streams of one run, or of one party of it: ``keys`` are then part of every name."""

    seed: int
    keys: tuple[tuple[str, int], ...] = ()

    def of(self, **keys: int) -> "Seeds":
        """The streams of one party, e.g. ``of(client=3)``."""
        return Seeds(self.seed, (*self.keys, *keys.items()))

    def stream(self, name: str, **keys: int) -> np.random.Generator:
        """A fresh generator for a name and keys, e.g. ``stream("noise", step=7)``; equal calls give equal draws."""
        named = sorted((*self.keys, *keys.items()))
        identity = ",".join([str(self.seed), name, *(f"{key}={value}" for key, value in named)])
        digest = hashlib.sha256(identity.encode()).digest()
        return np.random.Generator(np.random.SFC64(int.from_bytes(digest, "little")))
