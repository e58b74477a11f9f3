"""A pipe through which a process notices that the process that started it has ended, even by SIGKILL."""

import os
import signal
import threading
import time

VARIABLE = "EPSILON_LAUNCHER_PIPE"
"""Variable with the reading end of the pipe. The pipe is closed when the launcher ends."""

GRACE = 3.0
"""Seconds between SIGTERM and SIGKILL."""


def end_with_launcher() -> None:
    """End this process when its launcher ends; do nothing if it was started without one."""
    if descriptor := os.environ.get(VARIABLE):
        threading.Thread(target=_wait, args=(int(descriptor),), daemon=True).start()


def _wait(descriptor: int) -> None:
    os.read(descriptor, 1)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    os.kill(os.getpid(), signal.SIGKILL)
