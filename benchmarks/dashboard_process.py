"""A dashboard for a benchmark: started as `make run` does, with a home of its own."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from engine.serve import SERVER
from engine.settings import REPOSITORY
from pages.startup.warm_up import AFTER_SECONDS
from tests.browser.driving import answers, free_port

_POLL_SECONDS = 0.05
_IDLE_SECONDS, _IDLE_PERCENT = 3.0, 10.0
"""An idle server uses less than this share of a core, in per cent, in this time."""


@dataclass(frozen=True, kw_only=True)
class Dashboard:
    """A running dashboard.

    Attributes:
        address: Its address, without a slash at the end.
        launcher: The process that keeps the others running.
        server: The process that serves pages.
        log: File with the output of all processes.
        start_seconds: Seconds from the start of the launcher to the first answer.
    """

    address: str
    launcher: psutil.Process
    server: psutil.Process
    log: Path
    start_seconds: float

    def wait_until_idle(self) -> None:
        """Wait until the server has loaded its pages in the background (:mod:`pages.startup.warm_up`)."""
        time.sleep(max(0.0, self.server.create_time() + AFTER_SECONDS + _IDLE_SECONDS - time.time()))
        while self.server.cpu_percent(_IDLE_SECONDS) > _IDLE_PERCENT:
            pass


@contextmanager
def dashboard(home: Path, port: int | None = None, variables: Mapping[str, str] | None = None) -> Iterator[Dashboard]:
    """Start a dashboard with the local store of ``home``, and stop it at the end.

    Args:
        home: Folder of its data.
        port: Its port; without it, a free one.
        variables: More environment variables.

    Raises:
        SystemExit: If it ends before it answers; with its output.
    """
    port = port or free_port()
    address, log = f"http://localhost:{port}", home / f"server-{port}.log"
    environment = os.environ | {"EPSILON_HOME": str(home), "PORT": str(port), "CI": "true", **(variables or {})}
    environment.pop("EPSILON_STORE_URL", None)
    begun = time.monotonic()
    with log.open("wb") as output:
        serve = subprocess.Popen(
            [sys.executable, "-m", "engine.serve"], cwd=REPOSITORY, env=environment, stdout=output, stderr=output
        )
    try:
        while not answers(f"{address}/_stcore/health"):
            if serve.poll() is not None:
                raise SystemExit(log.read_text())
            time.sleep(_POLL_SECONDS)
        took, launcher = time.monotonic() - begun, psutil.Process(serve.pid)
        (server,) = (child for child in launcher.children() if SERVER in child.cmdline())
        yield Dashboard(address=address, launcher=launcher, server=server, log=log, start_seconds=took)
    finally:
        serve.send_signal(signal.SIGINT)
        serve.wait(60)
