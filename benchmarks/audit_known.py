"""Audits of mechanisms with known ε: ``python -m benchmarks.audit_known [--repetitions N] [--json] [--save]``.

One release of the Gaussian mechanism at ε = 1, 3 and 8 with 100,000 canaries, audited N times with each of the bounds;
and the same with half of the claimed noise. Takes half an hour with 1,000 repetitions.
"""

import argparse

from benchmarks.report import finish, markdown
from engine.privacy.audit import calibration

EPSILONS = (1.0, 3.0, 8.0)
DELTA = 1e-5


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=1000)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--save", action="store_true", help="save the result for the page Privacy audit")
    options = parser.parse_args()
    rows, cells = [], []
    for family in calibration.FAMILIES:
        for epsilon in EPSILONS:
            honest = calibration.gaussian_mechanism(epsilon, repetitions=options.repetitions, family=family)
            truth = calibration.epsilon_at(epsilon, DELTA, noise=0.5)
            broken = calibration.gaussian_mechanism(truth, repetitions=options.repetitions, family=family)
            power = float((broken.bounds > epsilon).mean())
            cells.append(
                {
                    "family": family,
                    "epsilon": epsilon,
                    "coverage": honest.coverage,
                    "median": honest.median,
                    "half_the_noise_caught": power,
                }
            )
            rows.append(
                (
                    family,
                    f"{epsilon:g}",
                    f"{100 * honest.coverage:.1f} %",
                    f"{honest.median:.2f}",
                    f"{honest.median / epsilon:.2f}",
                    f"{100 * power:.1f} %",
                )
            )
    head = ("assumption", "ε", "coverage", "median bound", "median bound ÷ ε", "power at half the noise")
    values = {"repetitions": options.repetitions, "delta": DELTA, "cells": cells}
    finish("audit_known", values, markdown(head, rows), as_json=options.json, save=options.save)


if __name__ == "__main__":
    main()
