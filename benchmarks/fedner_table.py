"""Wall time of FedNER's Table 2 from scratch: ``python -m benchmarks.fedner_table [--seeds N] [--json] [--save]``.

All runs of N seeds are queued together in an empty home without published runs or caches. As many run in parallel as in
the dashboard, contextual vectors included. The corpora must be in EPSILON_DATA_DIR, and set-up must have compiled the
training step. Each run is compared with the published one: on the same kind of processor it must be bit-identical.
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
from engine.cluster.supervisor import stop_cluster
from engine.config import SimulationConfig
from engine.experiments.papers import fedner_2020
from engine.records import RunState
from engine.service import Application
from engine.service.reproducibility import compare
from engine.settings import Settings

TABLE = "table2"


def compute(configs: list[SimulationConfig]) -> tuple[float, dict[SimulationConfig, float], tuple[int, int]]:
    """Compute the runs; exit if one fails.

    Returns:
        The wall seconds of all runs together, from the start of the cluster; the seconds of each run, some in parallel;
        and how many are equal to the published ones, of how many.
    """
    with tempfile.TemporaryDirectory() as home:
        settings = replace(
            Settings.from_environment(),
            home=Path(home),
            store_url=f"sqlite:///{home}/runs.sqlite",
            published=Path(home) / "none",
            shared=None,
            scheduler=None,
        )
        app = Application(settings)
        begun = time.monotonic()
        try:
            asked = app.runs.submit_all(configs, owner_pid=os.getpid(), batch=True)
            left, took = [status.run_id for status in asked], 0.0
            while left:
                time.sleep(5)
                states = {run_id: app.queries.status(run_id) for run_id in left}
                failed = [status for status in states.values() if status.state.final and status.state != RunState.DONE]
                if failed:
                    raise SystemExit(f"A run failed: {failed[0].error}")
                left = [run_id for run_id, status in states.items() if not status.state.final]
                if len(left) < len(states):
                    took = time.monotonic() - begun
                    sys.stderr.write(f"{len(left):,} of {len(asked):,} runs left after {took / 60:.0f} min\n")
            found = {config: app.queries.find(config) for config in configs}
        finally:
            stop_cluster(settings, os.getpid())
    seconds = {config: run.final.seconds for config, run in found.items() if run and run.final}
    known = {run.config: run.final for run in Application.from_environment().queries.published() if not run.outdated}
    pairs = [(known[config], run.final) for config, run in found.items() if run and config in known]
    same = [result for one, rerun in pairs if (result := compare(one, rerun)) and result.identical]
    return took, seconds, (len(same), len(pairs))


def method_of(config: SimulationConfig) -> str:
    """Return the name of a run's method in the table."""
    return next(fedner_2020.what(cell) for cell in fedner_2020.cells() if cell.table == TABLE and cell.config == config)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    most = fedner_2020.SEEDS[TABLE]
    parser.add_argument("--seeds", type=int, choices=range(1, most + 1), default=1, help="number of seeds, default 1")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--save", action="store_true", help="save the result for the page Performance")
    options = parser.parse_args()
    wall, seconds, (same, known) = compute(fedner_2020.wanted(options.seeds, [TABLE]))
    methods: dict[str, float] = {}
    for config, took in seconds.items():
        method = method_of(fedner_2020.with_seed(config, 0))
        methods[method] = methods.get(method, 0.0) + took
    values: dict[str, Any] = {
        "seeds": options.seeds,
        "runs": len(seconds),
        "equal": same,
        "published": known,
        "wall_s": round(wall),
        "run_s": {method: round(took) for method, took in methods.items()},
    }
    rows = [(method, f"{took / options.seeds:,.0f}") for method, took in methods.items()]
    text = markdown(("method, all its runs", "seconds a seed, in parallel with others"), rows)
    text += f"\n\n{len(seconds)} runs of {options.seeds} of the {most} seeds in {wall / 60:.1f} minutes; {same} of the "
    hours = wall / options.seeds * most / 3600
    text += f"{known} published runs are bit-identical to these. All seeds at this rate: {hours:.2f} "
    text += f"hours, of which {fedner_2020.share_printed(methods) * hours:.2f} are for the rows of the paper."
    finish("fedner_table", values, text, as_json=options.json, save=options.save)


if __name__ == "__main__":
    main()
