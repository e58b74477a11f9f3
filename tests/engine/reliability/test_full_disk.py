"""A checkpoint on a full file system."""

import os
import subprocess
import sys

import pytest

from engine.cluster.worker import compute
from engine.records import RunState
from engine.service import Application
from engine.store.run_store import RunStore
from tests.engine.reliability.disturbed import CONFIGS, ROOT, alone, comparable

SMALL_DISK = 'mount -t tmpfs -o size=16k tmpfs "$0" && exec "$@"'
COMPUTE = (
    "import sys\n"
    "from engine.cluster.worker import compute\n"
    "from engine.settings import Settings\n"
    "compute(sys.argv[1], Settings.from_environment(), 'here')\n"
)


@pytest.mark.repeats(area="processes")
def test_run_fails_at_a_full_file_system_and_can_be_resumed(own_mounts, trained_settings, encoded, tmp_path_factory):
    """Mount a small file system on the folder of checkpoints, visible only to the worker process."""
    config, app, store = CONFIGS[0], Application(trained_settings), RunStore(trained_settings.store_url)
    identity = app.queries.identity(config)
    checkpoints = trained_settings.home / "checkpoints"
    checkpoints.mkdir()
    store.submit(identity, config, app.queries.corpus(config).checksum)
    subprocess.run(
        [*own_mounts, "sh", "-c", SMALL_DISK, str(checkpoints), sys.executable, "-c", COMPUTE, identity],
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
