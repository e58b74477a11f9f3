"""Power of audits by their size: ``python -m benchmarks.audit_power [--repetitions N] [--write] [--train SEEDS]``.

Calibration runs with the recommended settings with MiniLM for CoNLL-2003 at ε = 1, 3 and 8. White box: simulated steps
of DP-SGD with canaries, audited N times. Black box: the published audits of these settings and of the paper settings,
five seeds each. ``--write`` writes the table that reports and pages quote; it takes some minutes. ``--train`` trains
the recommended linear tagger with 8,000 white-box canaries instead, and prints bounds and seconds.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.audits import CORPUS, SEEDS, SENTENCES, SETTINGS, wanted
from benchmarks.report import markdown
from engine.experiments import recommended_settings
from engine.privacy.accounting import privacy_spent
from engine.privacy.audit import calibration, canary_bounds, multi_run, power
from engine.privacy.audit.one_run import Guesses
from engine.privacy.plan import PrivacyPlan
from engine.records import Audit
from engine.service import Application

SIZES = (250, 1000, 2000, 4000, 8000)
"""Canaries of a run."""
OLD = 1000
"""Canaries of older audits."""
TRAINED = 8000
"""Canaries of ``--train``."""


def plan_at(epsilon: float, canaries: int) -> PrivacyPlan:
    """Return the plan of the recommended settings with MiniLM, with canaries among the sentences."""
    config = recommended_settings.recipe_step(recommended_settings.WITH_MINILM, CORPUS, SENTENCES, epsilon)
    return PrivacyPlan.from_config(config, SENTENCES + canaries)


def white_box(repetitions: int) -> Iterator[dict[str, Any]]:
    """Yield a cell for each size, number of seeds and ε."""
    for number, (canaries, epsilon) in enumerate(
        (canaries, epsilon) for canaries in SIZES for epsilon in recommended_settings.EPSILONS
    ):
        plan, random = plan_at(epsilon, canaries), np.random.default_rng(number)
        claimed, fields = privacy_spent(plan, plan.steps).epsilon, {"kind": "directions", "canaries": canaries}
        methods: dict[tuple[str, int], list[float]] = {}
        for _ in range(repetitions):
            runs = [calibration.dp_sgd_steps(plan, canaries, random) for _ in range(SEEDS)]
            found = [canary_bounds.of_one_run(*run, plan, independent=True) for run in runs[:1]]
            methods.setdefault((power.COUNT, 1), []).append(found[0].best)
            trials = [multi_run.correct(*run) for run in runs]
            none = [Guesses(canaries, canaries, 0)] * SEEDS
            methods.setdefault((power.COUNT, SEEDS), []).append(canary_bounds.of_seeds(none, trials, plan))
            if canaries == OLD:
                methods.setdefault((power.RATES, 1), []).append(calibration.error_rate_bound(*runs[0], plan))
        for (method, seeds), bounds in methods.items():
            yield fields | {"method": method, "seeds": seeds} | _cell(epsilon, claimed, np.array(bounds))


def black_box(app: Application) -> Iterator[dict[str, Any]]:
    """Yield a cell for each ε, from the published audits: single runs, and five seeds together."""
    published: dict[Any, Audit] = {audit.config: audit for audit in app.audits.all().values()}
    for epsilon in recommended_settings.EPSILONS:
        alone, together, claims = [], [], []
        for step in SETTINGS.values():
            audits = [published[config].black for config in wanted(step, epsilon)]
            found = [audit for audit in audits if audit and audit.canaries == OLD]
            (config, *_), claim = wanted(step, epsilon), found[0].claimed
            plan = PrivacyPlan.from_config(config, SENTENCES + OLD)
            guesses = [Guesses(audit.canaries, audit.made, audit.right) for audit in found]
            alone += [audit.best / claim for audit in found]
            together.append(canary_bounds.of_seeds(guesses, [None] * len(guesses), plan) / claim)
            claims.append(claim)
        for seeds, ratios in ((1, alone), (SEEDS, together)):
            fields = {"kind": "sentences", "canaries": OLD, "method": power.GUESSES, "seeds": seeds}
            yield fields | _cell(epsilon, 1.0, np.array(ratios)) | {"claimed": float(np.mean(claims))}


def _cell(epsilon: float, claimed: float, bounds: np.ndarray) -> dict[str, Any]:
    return {
        "epsilon": epsilon,
        "claimed": round(claimed, 4),
        "repetitions": len(bounds),
        "median": round(float(np.median(bounds)) / claimed, 4),
        "coverage": float((bounds <= claimed).mean()),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=40)
    parser.add_argument("--write", action="store_true", help="write the table that reports and pages quote")
    parser.add_argument("--train", type=int, metavar="SEEDS", help="train the linear tagger with canaries instead")
    options = parser.parse_args()
    app = Application.from_environment()
    if options.train:
        sys.stdout.write(_trained(app, options.train) + "\n")
        return
    cells = [*white_box(options.repetitions), *black_box(app)]
    if options.write:
        command = f"python -m benchmarks.audit_power --repetitions {options.repetitions} --write"
        lines = ",\n  ".join(json.dumps(cell) for cell in cells)
        power.TABLE.write_text(f'{{"command": "{command}", "cells": [\n  {lines}\n]}}\n', encoding="utf-8")
    heads = ("canaries", "method", "runs together", "ε", "median bound ÷ ε", "coverage", "bounds")
    names = ("kind", "canaries", "method", "seeds", "epsilon", "median", "coverage", "repetitions")
    sys.stdout.write(markdown(("kind", *heads), [tuple(str(cell[name]) for name in names) for cell in cells]) + "\n")


def _trained(app: Application, seeds: int) -> str:
    """Return a table of white-box audits of the trained linear tagger."""
    from engine.experiments import canaries

    rows = []
    for epsilon in recommended_settings.EPSILONS:
        start, configs = time.perf_counter(), list(wanted(recommended_settings.WITH_MINILM, epsilon))[:seeds]
        found = [canaries.measure(config, app.settings, TRAINED) for config in configs]
        ratio = float(np.median([audit.best / audit.claimed for audit in found]))
        rows.append(
            (f"{found[0].claimed:.3f}", f"{ratio:.2f}", str(len(found)), f"{time.perf_counter() - start:.0f} s")
        )
    return markdown(("ε claimed", "median bound ÷ ε", "seeds", "time"), rows)


if __name__ == "__main__":
    main()
