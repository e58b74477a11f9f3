"""Many small runs in a row: workers leak neither memory nor handles."""

import dataclasses
import os
import time

import numpy as np
import psutil
import pytest

from engine.cluster import supervisor
from engine.config import FederationConfig, TrainingConfig
from engine.records import RunState
from engine.service import Application
from tests.engine.factories import SMALL

NUMBER = 500
WARM = 100
"""Number of runs after which workers compile and cache nothing more."""
MOST_A_RUN = 50_000
"""Limit of memory growth in bytes a run: 25 MB in 500 runs."""


@pytest.mark.nightly
@pytest.mark.timeout(7200)
def test_500_runs_leak_neither_memory_nor_handles(trained_settings):
    small = dataclasses.replace(SMALL, data_fraction=0.02, training=TrainingConfig(batch_size=8, epochs=1.0))
    app, measurements = Application(trained_settings), []
    try:
        run_ids = []
        for seed in range(NUMBER):
            clients = FederationConfig(clients=2, rounds=2) if seed % 5 == 4 else small.federation
            status = app.runs.submit(dataclasses.replace(small, seed=seed, federation=clients))
            run_ids.append(status.run_id)
        cluster = supervisor.ClusterFiles(trained_settings).process()
        processes = [cluster, *cluster.children(recursive=True)]
        while waiting := sum(not app.queries.status(run).state.final for run in run_ids):
            measurements.append((NUMBER - waiting, [_memory_and_handles(process) for process in processes]))
            time.sleep(2)
        assert {app.queries.status(run).state for run in run_ids} == {RunState.DONE}
    finally:
        app.close()
        supervisor.stop_cluster(trained_settings, os.getpid())
    done = np.array([number for number, _ in measurements], dtype=float)
    held = np.array([usage for _, usage in measurements], dtype=float)  # [measurements, processes, 2]
    late = done >= WARM
    for process in range(held.shape[1]):
        memory, handles = (np.polyfit(done[late], held[late, process, column], 1)[0] for column in (0, 1))
        print(f"process {process}: {memory:,.0f} bytes and {handles:.4f} handles a run, {held[-1, process]}")  # noqa: T201
        assert memory < MOST_A_RUN
        assert handles < 0.01


def _memory_and_handles(process: psutil.Process) -> tuple[int, int]:
    """Return resident memory in bytes, and the number of open files and sockets."""
    return process.memory_info().rss, process.num_fds()
