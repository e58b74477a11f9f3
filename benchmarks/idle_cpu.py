"""Processor time of an idle dashboard, and start delay of a queued run.

``python -m benchmarks.idle_cpu [--seconds N] [--json] [--save]``: processor time, in per cent of a core, of the
launcher, the server, the dispatcher and the workers of a dashboard without open pages. Also the milliseconds from a
submission until a worker claims the run, with the corpus encoded and the code compiled before.
"""

import argparse
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil

from benchmarks.dashboard_process import dashboard
from benchmarks.report import finish, markdown
from engine.cluster.supervisor import ClusterFiles
from engine.config import SimulationConfig, TrainingConfig
from engine.service import Application
from engine.settings import Settings

STARTS = 9
"""Number of short runs whose start delay is measured."""
SETTLING_SECONDS = 5
"""Seconds between the last work and the first measurement."""


def processes(launcher: psutil.Process, server: psutil.Process, settings: Settings) -> dict[str, list[psutil.Process]]:
    """Return the processes of a dashboard by their role."""
    dispatcher = ClusterFiles(settings).process()
    if dispatcher is None:
        raise SystemExit("The cluster has stopped.")
    return {
        "launcher": [launcher],
        "server": [server, *server.children(recursive=True)],
        "dispatcher": [dispatcher],
        "workers": dispatcher.children(recursive=True),
    }


def processor_seconds(roles: dict[str, list[psutil.Process]]) -> dict[str, float]:
    """Return the processor seconds of each role since its start."""
    return {name: sum(sum(process.cpu_times()[:2]) for process in each) for name, each in roles.items()}


def settle(roles: dict[str, list[psutil.Process]]) -> None:
    """Wait until the workers have finished warming up."""
    still, before = 0, 0.0
    while still < SETTLING_SECONDS:
        now = sum(processor_seconds(roles).values())
        still, before = (still + 1, now) if now - before < 0.3 else (0, now)
        time.sleep(1)


def idle(roles: dict[str, list[psutil.Process]], seconds: float) -> dict[str, float]:
    """Return the per cent of a core used by each role."""
    before, begun = processor_seconds(roles), time.monotonic()
    time.sleep(seconds)
    took, after = time.monotonic() - begun, processor_seconds(roles)
    return {name: 100 * (after[name] - before[name]) / took for name in roles}


def delays(app: Application, owner_pid: int) -> list[float]:
    """Return the milliseconds from submission to claim of sequential runs."""
    milliseconds = []
    for seed in range(STARTS):
        config = SimulationConfig(data_fraction=0.02, training=TrainingConfig(epochs=0.2), seed=seed)
        status = app.runs.submit(config, owner_pid=owner_pid)
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
        with dashboard(home) as started:
            while not ClusterFiles(settings).ready.exists():
                time.sleep(0.1)
            started.wait_until_idle()
            roles = processes(started.launcher, started.server, settings)
            settle(roles)
            app = Application(settings)
            waits = delays(app, started.launcher.pid)
            app.close()
            settle(roles)
            percents = idle(roles, options.seconds)
    values: dict[str, Any] = {
        **{name: round(percent, 2) for name, percent in percents.items()},
        "percent_of_a_core": round(sum(percents.values()), 2),
        "start_ms_median": round(statistics.median(waits)),
        "start_ms_most": round(max(waits)),
    }
    rows = [
        *((f"idle, {name}", f"{percent:.2f} % of a core") for name, percent in percents.items()),
        ("idle, all processes together", f"{values['percent_of_a_core']:.2f} % of a core"),
        ("from submission to its start, median", f"{values['start_ms_median']} ms"),
        ("from submission to its start, slowest", f"{values['start_ms_most']} ms"),
    ]
    finish("idle", values, markdown(("", "measured"), rows), as_json=options.json, save=options.save, module="idle_cpu")


if __name__ == "__main__":
    main()
