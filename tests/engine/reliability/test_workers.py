"""Workers of one cluster that stand still, as on a laptop that sleeps, and to which the system then refuses memory."""

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

IMPATIENT = {"DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "1s"}
"""Dask would end a worker that was silent for five minutes: so would be a short sleep, with this."""
LARGE = dataclasses.replace(
    SMALL, tagger=TaggerConfig(hidden_size=1024), training=TrainingConfig(batch_size=200, epochs=2.0), seed=7
)
"""Its gradients of single sentences alone take more than ``SPARE``."""
SPARE = 60_000_000
"""Bytes that the worker may have beside what it has."""


@pytest.mark.timeout(2700)
@pytest.mark.parametrize(
    ("seconds", "limits"), [(3.0, IMPATIENT), pytest.param(330.0, {}, marks=pytest.mark.nightly)], ids=["short", "real"]
)
def test_workers_survive_a_sleep_and_a_lack_of_memory(trained_settings, encoded, tmp_path_factory, seconds, limits):
    """All processes stand still longer than Dask waits, and the runs go on; a run that needs too much memory fails with
    a reason, and the next one is computed by the same workers."""
    if not hasattr(psutil, "RLIMIT_AS"):
        (pytest.fail if in_ci() else pytest.skip)("this system bounds the memory of no running process (prlimit)")
    undisturbed = alone(LONG, tmp_path_factory.mktemp("undisturbed"), encoded)
    app, watch = App(trained_settings, LONG, **limits), Watch(trained_settings, LONG)
    try:
        watch.until(4)
        before = workers(trained_settings)
        first = psutil.Process(app.process.pid)
        family = [first, *first.children(recursive=True)]
        asleep([*family, supervisor.ClusterFiles(trained_settings).process()], seconds)
        watch.to_the_end(undisturbed)
        assert states(watch) == {RunState.DONE}
        assert pids(workers(trained_settings)) == pids(before)

        for worker in before:  # both are warm: a cold one would need more than SPARE
            worker.rlimit(psutil.RLIMIT_AS, (most := worker.memory_info().vms + SPARE, most))
        large = ended(app, trained_settings, LARGE)
        assert large.state == RunState.FAILED
        assert all(part in large.error for part in ("too little memory", "batch size", "hidden size"))
        assert ended(app, trained_settings, dataclasses.replace(CONFIGS[1], seed=2)).state == RunState.DONE
        assert pids(workers(trained_settings)) == pids(before)
    finally:
        app.end()
        watch.close()
        supervisor.stop_cluster(trained_settings, os.getpid())


def states(watch):
    return {watch.runs.queries.status(each).state for each in watch.identities}


def pids(processes):
    return {each.pid for each in processes}


def ended(app, settings, config):
    """Submit one more run; return its status when it has ended."""
    app.submit(config)
    watch = Watch(settings, [config])
    watch.until(10_000)
    (identity,) = watch.identities
    status = watch.runs.queries.status(identity)
    watch.close()
    return status


def asleep(processes, seconds):
    """Stop them all, and have them go on together after so many seconds."""
    try:
        for each in processes:
            each.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
    finally:
        for each in reversed(processes):
            each.send_signal(signal.SIGCONT)
