"""What is left of set-up once pages can be drawn, made behind them: ``python -m engine.setup.background_install``.

A process of its own, at low priority, so that neither pages nor runs wait for it longer than they must. One at a time
in each virtual environment: another one waits, and finds that all is there. Ended before it is done, it goes on at the
next start where it was.
"""

import signal
import sys

from engine import setup_status
from engine.hardware import lower_priority
from engine.setup.install import make_missing
from engine.setup.progress import say

NICENESS = 10
"""What a process of low priority usually has."""


def main() -> int:
    """Make what is missing; returns the exit code, 1 when something failed."""
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    lower_priority(NICENESS)
    try:
        with setup_status.alone(lambda: None):
            failed = make_missing(over=False)
    except KeyboardInterrupt:  # Ctrl-C reaches all that `make run` has started
        return 128 + signal.SIGINT
    if not failed:
        say("Set-up is done.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
