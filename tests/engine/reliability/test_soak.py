"""Many small runs in a row: workers neither grow nor keep handles."""

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
"""Runs after which a worker has compiled and cached what it ever will."""
MOST_A_RUN = 50_000
"""Bytes that a process may grow by for each run: 25 MB in 500 runs."""


@pytest.mark.nightly
@pytest.mark.timeout(7200)
def test_500_runs_in_a_row_leave_no_memory_and_no_handle_behind(trained_settings):
    small = dataclasses.replace(SMALL, data_fraction=0.02, training=TrainingConfig(batch_size=8, epochs=1.0))
    app, seen = Application(trained_settings), []
    try:
        asked = []
        for seed in range(NUMBER):
            clients = FederationConfig(clients=2, rounds=2) if seed % 5 == 4 else small.federation
            status = app.runs.submit(dataclasses.replace(small, seed=seed, federation=clients))
            asked.append(status.run_id)
        cluster = supervisor.ClusterFiles(trained_settings).process()
        family = [cluster, *cluster.children(recursive=True)]
        while waiting := sum(not app.queries.status(each).state.final for each in asked):
            seen.append((NUMBER - waiting, [_held(each) for each in family]))
            time.sleep(2)
        assert {app.queries.status(each).state for each in asked} == {RunState.DONE}
    finally:
        app.close()
        supervisor.stop_cluster(trained_settings, os.getpid())
    done = np.array([number for number, _ in seen], dtype=float)
    held = np.array([each for _, each in seen], dtype=float)  # [looks, processes, 2]
    late = done >= WARM
    for process in range(held.shape[1]):
        memory, handles = (np.polyfit(done[late], held[late, process, what], 1)[0] for what in (0, 1))
        print(f"process {process}: {memory:,.0f} bytes and {handles:.4f} handles a run, {held[-1, process]}")  # noqa: T201
        assert memory < MOST_A_RUN
        assert handles < 0.01


def _held(process: psutil.Process) -> tuple[int, int]:
    """Bytes in memory, and open files and sockets."""
    return process.memory_info().rss, process.num_fds()
