"""Background installation of the parts that pages do not need: ``python -m engine.setup.background_install``.

A separate process of low priority, so that it delays pages and runs as little as possible. At most one runs in each
virtual environment: a second one waits, and then finds nothing missing. If it is interrupted, the next start continues
with the parts that are still missing.
"""

import signal
import sys

from engine import setup_status
from engine.hardware import lower_priority
from engine.setup.install import make_missing
from engine.setup.progress import say

NICENESS = 10
"""Nice value of the process; 10 is the usual value for low priority."""


def main() -> int:
    """Install the missing parts; return the exit code, 1 if one failed."""
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    lower_priority(NICENESS)
    try:
        with setup_status.alone(lambda: None):
            failed = make_missing(over=False)
    except KeyboardInterrupt:  # Ctrl-C signals all processes of `make run`
        return 128 + signal.SIGINT
    if not failed:
        say("Set-up is done.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
