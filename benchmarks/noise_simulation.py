"""Simulated runs of the noise check: random draws replace gradients, so that thousands of runs take minutes."""

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
    """Size of a simulated run.

    Attributes:
        weights: Number of weights.
        examples: Number of sentences.
        batch: Expected sentences of a step.
        steps: Number of steps.
        sampled: Whether samples are drawn too.
        verdicts: Evaluations of an honest run, evenly spaced; they take most of its time.
    """

    weights: int
    examples: int
    batch: int
    steps: int
    sampled: bool = True
    verdicts: int = 2

    def plan(self) -> PrivacyPlan:
        """Return a plan with noise of standard deviation 1."""
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
        """Return a new monitor of a model with two layers, body and head."""
        neck = self.weights - min(_HEAD, self.weights // 2)
        layers = (("body", slice(0, neck)), ("head", slice(neck, self.weights)))
        return NoiseMonitor([self.plan()], self.weights, layers=layers, secrets=Secrets.seeded(seed, "toy"))

    def moments(self) -> list[int]:
        """Return the steps after which an honest run is evaluated."""
        return [self.steps * (number + 1) // self.verdicts for number in range(self.verdicts)]


def honest_faults(toy: Toy, seed: int) -> set[str]:
    """Return the faults that the check reports for a run whose noise and samples are as planned.

    At each step the noise is added to the noise of all steps before, the worst case of what a run learns from them.
    """
    random, monitor, moments = np.random.default_rng(seed), toy.monitor(seed), toy.moments()
    fixed, probability = monitor.watch.fixed, toy.batch / toy.examples
    before, error, found = np.zeros(toy.weights), np.zeros(toy.weights + len(fixed)), set()
    for step in range(toy.steps):
        noise, where = random.standard_normal(toy.weights), monitor.watch.stretch(step)
        seen, held = (np.concatenate((vector[where], vector[fixed])) for vector in (noise, before))
        monitor.saw_noise(step, seen, error[: len(seen)], [held])
        monitor.saw_sample(np.flatnonzero(random.random(toy.examples) < probability))
        before += noise
        if step + 1 in moments:
            found |= set(monitor.verdict().faults)
    return found


@contextmanager
def budget(alarm: float, families: int, verdicts: int) -> Iterator[None]:
    """Replace the budget of false alarms, shared by this number of families and evaluations, within the block."""
    kept = critical_values.FALSE_ALARM, critical_values.FAMILIES, critical_values.VERDICTS
    critical_values.FALSE_ALARM, critical_values.FAMILIES, critical_values.VERDICTS = alarm, families, verdicts
    try:
        yield
    finally:
        critical_values.FALSE_ALARM, critical_values.FAMILIES, critical_values.VERDICTS = kept
