"""The Slurm recipe of docs/deploy.md, with fakes of Slurm's commands that start jobs at once.

dask-jobqueue is not a dependency of the project: the test installs it into its own folder.
"""

import os
import re
import shlex
import subprocess
import sys

import pytest

from engine.cluster import remote_workers
from engine.records import RunState
from engine.reports.cli_command import command_line
from engine.service import Application
from engine.settings import REPOSITORY
from tests.browser.chromium import in_ci
from tests.browser.driving import free_port, wait_for
from tests.engine.reliability.disturbed import CONFIGS

JOBQUEUE = "dask-jobqueue==0.9.0"
MOST_SECONDS = 300
SBATCH = """#!/bin/sh
number=$$
cp "$1" "$JOBS/$number.sh"
setsid sh "$JOBS/$number.sh" > "$JOBS/$number.log" 2>&1 < /dev/null &
echo $! > "$JOBS/$number.pid"
echo "Submitted batch job $number"
"""
SCANCEL = """#!/bin/sh
for number in "$@"; do
  [ -f "$JOBS/$number.pid" ] && kill -TERM -- "-$(cat "$JOBS/$number.pid")" 2>/dev/null
  rm -f "$JOBS/$number.pid"
done
exit 0
"""


@pytest.fixture
def slurm(tmp_path):
    """Return environment variables with the fakes of Slurm's commands, and cancel all jobs after the test."""
    jobs, programs = tmp_path / "jobs", tmp_path / "programs"
    for folder in (jobs, programs):
        folder.mkdir()
    for name, text in (("sbatch", SBATCH), ("scancel", SCANCEL)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    environment = {"JOBS": str(jobs), "PATH": f"{programs}:{os.environ['PATH']}"}
    yield environment
    left = [path.stem for path in jobs.glob("*.pid")]
    subprocess.run([programs / "scancel", *left], env=os.environ | environment, check=True)


@pytest.fixture
def jobqueue(tmp_path):
    """Return a folder with dask-jobqueue installed."""
    folder = tmp_path / "jobqueue"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), JOBQUEUE]
    if (done := subprocess.run(pip, capture_output=True, text=True, check=False)).returncode:
        (pytest.fail if in_ci() else pytest.skip)(
            f"{JOBQUEUE} cannot be installed: {done.stderr.strip().splitlines()[-1]}"
        )
    return folder


def recipe(port: int) -> str:
    """Return the code of the recipe, with a scheduler on the loopback address."""
    text = (REPOSITORY / "docs" / "deploy.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?SLURMCluster.*?)```", text, re.DOTALL)
    local = code.replace('{"port": remote_workers.PORT,', f'{{"host": "127.0.0.1", "port": {port},')
    assert local != code
    return local


def test_recipe_is_valid_python():
    compile(recipe(1), "docs/deploy.md", "exec")


@pytest.mark.nightly
def test_one_job_per_run_computes_the_runs(trained_settings, slurm, jobqueue, tmp_path):
    key, port = tmp_path / "key.pem", free_port()
    remote_workers.make_key(key)
    environment = os.environ | slurm
    environment |= {
        "EPSILON_HOME": str(trained_settings.home),
        "EPSILON_STORE_URL": trained_settings.store_url,
        "EPSILON_DATA_DIR": "",
        "EPSILON_CLUSTER_KEY": str(key),
        "EPSILON_SCHEDULER": f"tls://127.0.0.1:{port}",
        "PYTHONPATH": f"{jobqueue}:{REPOSITORY}",
    }
    app = Application(trained_settings)
    log = (tmp_path / "log").open("wb")
    scheduler = subprocess.Popen(
        [sys.executable, "-c", recipe(port)],
        cwd=REPOSITORY,
        env=environment,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    try:
        for config in CONFIGS:
            words = shlex.split(command_line(config))[4:]
            submit = [sys.executable, "-m", "engine", "submit", *words]
            wait_for(
                lambda submit=submit: not subprocess.run(submit, cwd=REPOSITORY, env=environment).returncode,
                MOST_SECONDS,
            )
        wait_for(
            lambda: all(app.queries.status(app.queries.identity(config)).state == RunState.DONE for config in CONFIGS),
            MOST_SECONDS,
        )
        assert len(list((tmp_path / "jobs").glob("*.sh"))) == len(CONFIGS)
    finally:
        scheduler.terminate()
        scheduler.wait()
        log.close()
        app.close()
        sys.stderr.write((tmp_path / "log").read_text()[-3000:])
