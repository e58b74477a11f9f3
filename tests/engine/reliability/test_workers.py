"""Workers that are suspended, as on a sleeping laptop, and that run out of memory."""

import dataclasses
import os
import signal
import time

import psutil
import pytest

from engine.cluster import supervisor
from engine.config import TaggerConfig, TrainingConfig
from engine.records import RunState
from tests.browser.chromium import in_ci
from tests.engine.factories import SMALL
from tests.engine.reliability.disturbed import CONFIGS, LONG, App, Watch, alone, workers

LARGE = dataclasses.replace(
    SMALL, tagger=TaggerConfig(hidden_size=1024), training=TrainingConfig(batch_size=200, epochs=2.0), seed=7
)
"""A run whose per-sentence gradients need more memory than ``SPARE``."""
SPARE = 60_000_000
"""Bytes that a worker may allocate beyond its current memory."""


@pytest.mark.repeats(area="processes")
@pytest.mark.timeout(2700)
@pytest.mark.parametrize("seconds", [3.0, pytest.param(330.0, marks=pytest.mark.nightly)])
def test_workers_survive_a_sleep_and_a_lack_of_memory(trained_settings, encoded, tmp_path_factory, seconds):
    """Suspend all processes, nightly for longer than Dask's default time-out, then limit the memory of the workers.

    The runs continue after the sleep. A run that needs too much memory fails with a reason, and the same workers
    compute the next one.
    """
    if not hasattr(psutil, "RLIMIT_AS"):
        (pytest.fail if in_ci() else pytest.skip)("this system cannot limit the memory of a running process (prlimit)")
    undisturbed = alone(LONG, tmp_path_factory.mktemp("undisturbed"), encoded)
    app, watch = App(trained_settings, LONG), Watch(trained_settings, LONG)
    try:
        watch.until(4)
        before = workers(trained_settings)
        first = psutil.Process(app.process.pid)
        processes = [first, *first.children(recursive=True)]
        suspend([*processes, supervisor.ClusterFiles(trained_settings).process()], seconds)
        watch.to_the_end(undisturbed)
        assert states(watch) == {RunState.DONE}
        assert pids(workers(trained_settings)) == pids(before)

        for worker in before:  # both have computed already; a new worker would need more than SPARE
            worker.rlimit(psutil.RLIMIT_AS, (most := worker.memory_info().vms + SPARE, most))
        large = final_status(app, trained_settings, LARGE)
        assert large.state == RunState.FAILED
        assert all(part in large.error for part in ("too little memory", "batch size", "hidden size"))
        assert final_status(app, trained_settings, dataclasses.replace(CONFIGS[1], seed=2)).state == RunState.DONE
        assert pids(workers(trained_settings)) == pids(before)
    finally:
        app.end()
        watch.close()
        supervisor.stop_cluster(trained_settings, os.getpid())


def states(watch):
    return {watch.runs.queries.status(identity).state for identity in watch.identities}


def pids(processes):
    return {process.pid for process in processes}


def final_status(app, settings, config):
    """Submit one more run and return its final status."""
    app.submit(config)
    watch = Watch(settings, [config])
    watch.until(10_000)
    (identity,) = watch.identities
    status = watch.runs.queries.status(identity)
    watch.close()
    return status


def suspend(processes, seconds):
    """Suspend all processes for so many seconds."""
    try:
        for process in processes:
            process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
    finally:
        for process in reversed(processes):
            process.send_signal(signal.SIGCONT)
