"""Audits of trainings that are less private than claimed: ``python -m benchmarks.audit_broken
[--runs N] [--json] [--save]``.

Half the noise, no noise, no clipping: N trainings of each, audited by a white-box attacker; and the same trainings
without a fault, which the audit must not contradict. Takes some minutes.
"""

import argparse
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from benchmarks.report import finish, markdown
from engine.config import SimulationConfig
from engine.experiments import canaries
from engine.settings import Settings
from engine.training.batches import Batch
from engine.training.dpsgd import DPSGD, Backend, GradientSum

SETTING = {
    "corpus": "synthetic",
    "tagger": "linear-crf",
    "window": 2,
    "noise_multiplier": 1.4,
    "clip_norm": 0.1,
    "batch_size": 200,
    "epochs": 4.0,
    "optimiser": "adam",
    "learning_rate": 0.02,
}
CANARIES = 8000


def half_the_noise(learner: DPSGD) -> None:
    """Train with half of the claimed σ."""
    learner.plan = replace(learner.plan, noise_multiplier=learner.plan.noise_multiplier / 2)


def no_noise(learner: DPSGD) -> None:
    """Train without noise."""
    learner.plan = replace(learner.plan, noise_multiplier=0.0)


class _Unclipped:
    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def clipped_gradient(
        self, weights: np.ndarray, batch: Batch, clip_norm: float | None, by_layer: bool = False
    ) -> GradientSum:
        return self._backend.clipped_gradient(weights, batch, None, by_layer)

    def scores(self, weights: np.ndarray, batch: Batch) -> np.ndarray:
        return self._backend.scores(weights, batch)


def no_clipping(learner: DPSGD) -> None:
    """Sum the gradients of sentences without clipping."""
    learner.backend = _Unclipped(learner.backend)


def nothing(learner: DPSGD) -> None:
    """Leave the training without a fault."""


FAULTS: Mapping[str, Callable[[DPSGD], None]] = {
    "half the noise": half_the_noise,
    "no noise": no_noise,
    "no clipping": no_clipping,
    "nothing": nothing,
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10, help="trainings with each fault")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--save", action="store_true", help="save the result for the page Privacy audit")
    options = parser.parse_args()
    settings, cells, claimed = Settings.from_environment(), [], 0.0
    for fault, wrong in FAULTS.items():
        configs = [SimulationConfig.from_flat(SETTING | {"seed": seed}) for seed in range(options.runs)]
        results = [canaries.measure(config, settings, CANARIES, wrong=wrong) for config in configs]
        claimed = results[0].claimed
        cells.append(
            {
                "fault": fault,
                "contradicted": sum(result.contradicted for result in results),
                "bound_mean": float(np.mean([result.best for result in results])),
                "check_failed": sum(result.check_failed is True for result in results),
            }
        )
    rows = [
        (
            cell["fault"],
            f"{cell['contradicted']} of {options.runs}",
            f"{cell['bound_mean']:.2f}",
            f"{cell['check_failed']} of {options.runs}",
        )
        for cell in cells
    ]
    head = (
        "fault",
        f"claimed ε = {claimed:.2f} contradicted in",
        "mean lower bound",
        "noise check fails in",
    )
    values = {"runs": options.runs, "claimed": claimed, "cells": cells}
    finish("audit_broken", values, markdown(head, rows), as_json=options.json, save=options.save)


if __name__ == "__main__":
    main()
