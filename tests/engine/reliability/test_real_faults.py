"""Faults that the system makes itself: a disk that is really full, memory that it really refuses to a worker."""

import dataclasses
import os
import subprocess
import sys

import psutil
import pytest

from engine.cluster import supervisor
from engine.cluster.worker import compute
from engine.config import TaggerConfig, TrainingConfig
from engine.records import RunState
from engine.service import Application
from engine.store.run_store import RunStore
from tests.browser.chromium import in_ci
from tests.engine.factories import SMALL
from tests.engine.reliability.disturbed import CONFIGS, ROOT, App, Watch, alone, comparable, workers

SMALL_DISK = 'mount -t tmpfs -o size=16k tmpfs "$0" && exec "$@"'
COMPUTE = (
    "import sys\n"
    "from engine.cluster.worker import compute\n"
    "from engine.settings import Settings\n"
    "compute(sys.argv[1], Settings.from_environment(), 'here')\n"
)
LARGE = dataclasses.replace(
    SMALL, tagger=TaggerConfig(hidden_size=1024), training=TrainingConfig(batch_size=200, epochs=2.0), seed=7
)
"""Its gradients of single sentences alone take more than ``SPARE``."""
SPARE = 60_000_000
"""Bytes that the worker may have beside what it has."""


def test_a_disk_that_is_really_full_at_a_checkpoint(apart, trained_settings, encoded, tmp_path_factory):
    """The folder of checkpoints is a small file system of its own, for the process that computes alone."""
    config, app, store = CONFIGS[0], Application(trained_settings), RunStore(trained_settings.store_url)
    identity = app.queries.identity(config)
    checkpoints = trained_settings.home / "checkpoints"
    checkpoints.mkdir()
    store.submit(identity, config, app.queries.corpus(config).checksum)
    subprocess.run(
        [*apart, "sh", "-c", SMALL_DISK, str(checkpoints), sys.executable, "-c", COMPUTE, identity],
        cwd=ROOT,
        env=os.environ | {"EPSILON_HOME": str(trained_settings.home), "EPSILON_STORE_URL": "", "EPSILON_DATA_DIR": ""},
        check=True,
        timeout=600,
    )
    failed = store.get(identity)
    assert failed.status.state == RunState.FAILED
    assert "No space left on device" in failed.status.error
    assert len(failed.records) == 1
    assert list(checkpoints.iterdir()) == []
    store.submit(identity, config, app.queries.corpus(config).checksum)
    compute(identity, trained_settings, "here")
    done = store.get(identity)
    assert done.status.state == RunState.DONE
    assert done.records[:1] == failed.records
    assert comparable(done.records) == alone([config], tmp_path_factory.mktemp("alone"), encoded)[config.seed]
    store.close()
    app.close()


def test_a_worker_whose_memory_the_system_bounds_says_so_and_goes_on(trained_settings):
    if not hasattr(psutil, "RLIMIT_AS"):
        (pytest.fail if in_ci() else pytest.skip)(
            "this system bounds the memory of no process that runs already (prlimit)"
        )
    app, watch = App(trained_settings, CONFIGS[:2]), Watch(trained_settings, CONFIGS[:2])
    try:
        watch.until(10_000)  # to their ends: two workers are warm, and a cold one would want more than SPARE
        assert watch.over()
        before = workers(trained_settings)
        for worker in before:
            worker.rlimit(psutil.RLIMIT_AS, (most := worker.memory_info().vms + SPARE, most))
        app.submit(LARGE)
        large = Watch(trained_settings, [LARGE])
        large.until(10_000)
        (identity,) = large.identities
        status = large.runs.queries.status(identity)
        assert status.state == RunState.FAILED
        assert all(part in status.error for part in ("too little memory", "batch size", "hidden size"))
        app.submit(again := dataclasses.replace(CONFIGS[1], seed=2))
        small = Watch(trained_settings, [again])
        small.until(10_000)
        assert {small.runs.queries.status(each).state for each in small.identities} == {RunState.DONE}
        assert {each.pid for each in workers(trained_settings)} == {each.pid for each in before}
        large.close()
        small.close()
    finally:
        app.end()
        watch.close()
        supervisor.stop_cluster(trained_settings, os.getpid())
