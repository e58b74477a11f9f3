"""Processor time of the idle background processes, and start delay of a queued run.

``python -m benchmarks.idle_cpu [--seconds N] [--json] [--save]``: processor time of the cluster's process and of each
of its workers, in per cent of a core, and the milliseconds from a submission until a worker claims the run, with the
corpus encoded and the code compiled before.
"""

import argparse
import os
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil

from benchmarks.report import finish, markdown
from engine.cluster.supervisor import ClusterFiles, ensure_cluster, stop_cluster
from engine.config import SimulationConfig, TrainingConfig
from engine.service import Application
from engine.settings import Settings

STARTS = 9
"""Number of short runs whose start delay is measured."""
SETTLING_SECONDS = 5
"""Seconds between the last work and the first measurement."""


def family(settings: Settings) -> list[psutil.Process]:
    """Return the cluster's process, followed by its child processes."""
    process = ClusterFiles(settings).process()
    if process is None:
        raise SystemExit("The cluster has stopped.")
    return [process, *process.children(recursive=True)]


def processor_seconds(processes: list[psutil.Process]) -> list[float]:
    """Return the processor seconds of each process since its start."""
    return [sum(process.cpu_times()[:2]) for process in processes]


def settle(settings: Settings) -> None:
    """Wait until the workers have finished warming up."""
    still, before = 0, 0.0
    while still < SETTLING_SECONDS:
        now = sum(processor_seconds(family(settings)))
        still, before = (still + 1, now) if now - before < 0.3 else (0, now)
        time.sleep(1)


def idle(settings: Settings, seconds: float) -> list[float]:
    """Return the per cent of a core used by each process, the cluster's first."""
    processes = family(settings)
    before, begun = processor_seconds(processes), time.monotonic()
    time.sleep(seconds)
    took = time.monotonic() - begun
    return [100 * (b - a) / took for a, b in zip(before, processor_seconds(processes), strict=True)]


def delays(app: Application) -> list[float]:
    """Return the milliseconds from submission to claim of sequential runs."""
    milliseconds = []
    for seed in range(STARTS):
        config = SimulationConfig(data_fraction=0.02, training=TrainingConfig(epochs=0.2), seed=seed)
        status = app.runs.submit(config, owner_pid=os.getpid())
        while not status.state.final:
            time.sleep(0.05)
            status = app.queries.status(status.run_id)
        if status.started is None or status.created is None:
            raise SystemExit(f"The run ended before it began: {status.error}")
        milliseconds.append(1000 * (status.started - status.created))
    return milliseconds


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="seconds of measuring the idle processes; default: 60"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--save", action="store_true", help="save the result")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        settings = replace(Settings.from_environment(), home=home, store_url=f"sqlite:///{home / 'runs.sqlite'}")
        app = Application(settings)
        try:
            ensure_cluster(settings, os.getpid())
            settle(settings)
            waits = delays(app)
            settle(settings)
            percents = idle(settings, options.seconds)
        finally:
            stop_cluster(settings, os.getpid())
            app.close()
    values: dict[str, Any] = {
        "processes": [round(percent, 2) for percent in percents],
        "percent_of_a_core": round(sum(percents), 2),
        "start_ms_median": round(statistics.median(waits)),
        "start_ms_most": round(max(waits)),
    }
    rows = [
        ("idle, all processes together", f"{values['percent_of_a_core']:.2f} % of a core"),
        ("from submission to its start, median", f"{values['start_ms_median']} ms"),
        ("from submission to its start, slowest", f"{values['start_ms_most']} ms"),
    ]
    finish("idle", values, markdown(("", "measured"), rows), as_json=options.json, save=options.save, module="idle_cpu")


if __name__ == "__main__":
    main()
