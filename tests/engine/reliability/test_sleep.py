"""A laptop asleep and awake: all processes stand still at once, longer than anybody waits for another, and go on."""

import os
import signal
import time

import psutil
import pytest

from engine.cluster import supervisor
from engine.records import RunState
from tests.engine.reliability.disturbed import LONG, App, Watch, alone, workers

IMPATIENT = {"DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "1s"}
"""Dask would end a worker that was silent for five minutes: so would be a short sleep, with this."""


@pytest.mark.timeout(2700)
@pytest.mark.parametrize(
    ("seconds", "limits"), [(3.0, IMPATIENT), pytest.param(330.0, {}, marks=pytest.mark.nightly)], ids=["short", "real"]
)
def test_runs_go_on_in_the_same_workers(trained_settings, encoded, tmp_path_factory, seconds, limits):
    undisturbed = alone(LONG, tmp_path_factory.mktemp("undisturbed"), encoded)
    app, watch = App(trained_settings, LONG, **limits), Watch(trained_settings, LONG)
    try:
        watch.until(4)
        before = {each.pid for each in workers(trained_settings)}
        first = psutil.Process(app.process.pid)
        family = [first, *first.children(recursive=True)]
        asleep([*family, supervisor.ClusterFiles(trained_settings).process()], seconds)
        watch.to_the_end(undisturbed)
        assert {watch.runs.queries.status(each).state for each in watch.identities} == {RunState.DONE}
        assert {each.pid for each in workers(trained_settings)} == before
    finally:
        app.end()
        watch.close()
        supervisor.stop_cluster(trained_settings, os.getpid())


def asleep(processes, seconds):
    """Stop them all, and have them go on together after so many seconds."""
    try:
        for each in processes:
            each.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
    finally:
        for each in reversed(processes):
            each.send_signal(signal.SIGCONT)
