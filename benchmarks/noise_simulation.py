"""Runs of the noise check without training: draws in place of gradients, so that thousands of runs fit in minutes."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from engine.privacy.noise_check import critical_values
from engine.privacy.noise_check.monitor import NoiseMonitor
from engine.privacy.plan import PrivacyPlan
from engine.seeds import Secrets

_HEAD = 81
"""Weights of the last layer: a CRF's transitions between nine tags."""


@dataclass(frozen=True)
class Toy:
    """weights: of a run. examples, batch, steps: sentences, expected sentences a step, steps. sampled: whether samples
    are drawn too. verdicts: of an honest toy, evenly spaced; they are most of what it costs."""

    weights: int
    examples: int
    batch: int
    steps: int
    sampled: bool = True
    verdicts: int = 2

    def plan(self) -> PrivacyPlan:
        """With noise of standard deviation 1."""
        return PrivacyPlan(
            examples=self.examples,
            batch_size=self.batch,
            steps=self.steps,
            noise_multiplier=2.0,
            clip_norm=0.5,
            delta=1e-5,
            sampling="poisson" if self.sampled else "shuffle",
        )

    def monitor(self, seed: int) -> NoiseMonitor:
        """Return a new monitor of a body and a head."""
        neck = self.weights - min(_HEAD, self.weights // 2)
        layers = (("body", slice(0, neck)), ("head", slice(neck, self.weights)))
        return NoiseMonitor([self.plan()], self.weights, layers=layers, secrets=Secrets.seeded(seed, "toy"))

    def moments(self) -> list[int]:
        """After how many steps an honest toy is judged."""
        return [self.steps * (number + 1) // self.verdicts for number in range(self.verdicts)]


def honest_faults(toy: Toy, seed: int) -> set[str]:
    """All that the check says of a run whose noise and samples are as planned.

    What the noise is added to is, at each step, the noise of all steps before: what a run learns from them, at worst.
    """
    random, monitor, moments = np.random.default_rng(seed), toy.monitor(seed), toy.moments()
    fixed, probability = monitor.watch.fixed, toy.batch / toy.examples
    before, error, found = np.zeros(toy.weights), np.zeros(toy.weights + len(fixed)), set()
    for step in range(toy.steps):
        noise, where = random.standard_normal(toy.weights), monitor.watch.stretch(step)
        seen, held = (np.concatenate((each[where], each[fixed])) for each in (noise, before))
        monitor.saw_noise(step, seen, error[: len(seen)], [held])
        monitor.saw_sample(np.flatnonzero(random.random(toy.examples) < probability))
        before += noise
        if step + 1 in moments:
            found |= set(monitor.verdict().faults)
    return found


@contextmanager
def budget(alarm: float, families: int, verdicts: int) -> Iterator[None]:
    """Bounds for this chance of a false alarm, shared by so many families and verdicts."""
    kept = critical_values.FALSE_ALARM, critical_values.FAMILIES, critical_values.VERDICTS
    critical_values.FALSE_ALARM, critical_values.FAMILIES, critical_values.VERDICTS = alarm, families, verdicts
    try:
        yield
    finally:
        critical_values.FALSE_ALARM, critical_values.FAMILIES, critical_values.VERDICTS = kept
