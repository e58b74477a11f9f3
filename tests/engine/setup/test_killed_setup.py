"""Set-up that is killed at any moment: the next one continues."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from engine.settings import REPOSITORY

MOMENTS = (0.5, 1.5, 3.0, 5.0, 7.0, 9.0, 9.0, 9.0, 11.0, 11.0)
"""Seconds after its start at which each set-up is killed. Each one finishes parts that the earlier ones began."""


@pytest.mark.nightly
def test_set_up_that_was_killed_ten_times_continues(tmp_path: Path):
    """Kill set-up in a fresh clone with all its processes."""
    checkout = tmp_path / "checkout"
    subprocess.run(["git", "clone", "--quiet", REPOSITORY, checkout], check=True)
    variables = {name: value for name, value in os.environ.items() if name != "MAKEFLAGS"}
    variables["EPSILON_HOME"] = str(tmp_path / "home")

    def make(*arguments: str, seconds: float | None = None) -> int | None:
        """Run ``make``; after ``seconds``, kill it and return None."""
        with (tmp_path / "log.txt").open("a") as log:
            process = subprocess.Popen(
                ["make", *arguments], cwd=checkout, env=variables, stdout=log, stderr=log, start_new_session=True
            )
            try:
                return process.wait(seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return None

    outcomes = [make("setup", seconds=seconds) for seconds in MOMENTS]
    assert outcomes.count(None) >= 8, "it was too fast to be killed"
    assert make("setup") == 0, (tmp_path / "log.txt").read_text()[-2000:]
    python = checkout / ".venv" / "bin" / "python"
    short = ["--corpus", "synthetic", "--epochs", "1", "--data-fraction", "0.02"]
    command = [python, "-m", "engine", "train", *short]
    trained = subprocess.run(command, cwd=checkout, env=variables, capture_output=True, text=True, check=False)
    assert trained.returncode == 0, trained.stderr
