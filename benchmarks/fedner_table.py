"""FedNER's Table 2 from nothing, by the clock: ``python -m benchmarks.fedner_table [--seeds N] [--json] [--save]``.

All runs of so many seeds are asked for at once in a home of their own, where nothing is published, worked out or
known; as many are computed side by side as there are cores, vectors in context included. Each is held against the
published one: on the same kind of machine it must be equal to the last digit.
"""

import argparse
import os
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.report import finish, markdown
from engine.cluster.dispatch import stop_cluster
from engine.config import SimulationConfig
from engine.experiments import fedner
from engine.records import RunState
from engine.runs import Runs
from engine.runs.repeats import outcome
from engine.settings import Settings

TABLE = "table2"


def compute(configs: list[SimulationConfig]) -> tuple[float, dict[SimulationConfig, float], int]:
    """Wall seconds for all runs together, from the cluster's start on; those of each; and how many are equal to the
    published ones. Ends where a run fails."""
    published, begun = Runs.from_environment(), time.monotonic()
    with tempfile.TemporaryDirectory() as home:
        nothing = {"home": Path(home), "store_url": f"sqlite:///{home}/runs.sqlite", "published": Path(home) / "none"}
        runs = Runs(replace(Settings.from_environment(), **nothing))
        try:
            asked = runs.submit_all(configs, owner_pid=os.getpid(), batch=True)
            left, took = [status.run_id for status in asked], 0.0
            while left:
                time.sleep(5)
                states = {each: runs.status(each) for each in left}
                if lost := [each for each in states.values() if each.state.final and each.state != RunState.DONE]:
                    raise SystemExit(f"A run failed: {lost[0].error}")
                left = [each for each, status in states.items() if not status.state.final]
                if len(left) < len(states):
                    took = time.monotonic() - begun
                    sys.stderr.write(f"{len(left):,} of {len(asked):,} runs left after {took / 60:.0f} min\n")
            found = {config: runs.find(config) for config in configs}
            known = {config: published.find(config) for config in configs}
        finally:
            stop_cluster(runs.settings, os.getpid())
    seconds = {config: run.final.seconds for config, run in found.items() if run and run.final}
    same = [outcome(known[config].final, run.final) for config, run in found.items() if run and known[config]]  # type: ignore[union-attr]
    return took, seconds, sum(each is not None and each.identical for each in same)


def who(config: SimulationConfig) -> str:
    """The method, in the words of the table."""
    return next(fedner.what(cell) for cell in fedner.cells() if cell.table == TABLE and cell.config == config)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1, help="the first so many; default: 1")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--save", action="store_true", help="keep the result for the page Speed")
    options = parser.parse_args()
    wall, seconds, same = compute(fedner.wanted(options.seeds, [TABLE]))
    methods: dict[str, float] = {}
    for config, took in seconds.items():
        method = who(fedner.with_seed(config, 0))
        methods[method] = methods.get(method, 0.0) + took
    values: dict[str, Any] = {
        "seeds": options.seeds,
        "runs": len(seconds),
        "equal": same,
        "wall_s": round(wall),
        "run_s": {method: round(took) for method, took in methods.items()},
    }
    rows = [(method, f"{took / options.seeds:,.0f}") for method, took in methods.items()]
    text = markdown(("method, its runs on all platforms", "seconds a seed"), rows)
    text += f"\n\n{len(seconds)} runs of {options.seeds} seed{'s' * (options.seeds > 1)} in {wall / 60:.1f} minutes, "
    text += f"{same} of them equal to the published ones to the last digit; all {fedner.SEEDS[TABLE]} seeds at this "
    text += f"pace: {wall / options.seeds * fedner.SEEDS[TABLE] / 3600:.2f} hours."
    finish("fedner_table", values, text, as_json=options.json, save=options.save)


if __name__ == "__main__":
    main()
