"""Dask preload: ignore SIGINT in workers, and print no traceback when the scheduler is gone.

Ctrl-C in a terminal signals all of its processes; the nanny handles it and ends the workers in order. A heartbeat that
has begun then fails, as it does when the scheduler is killed. The program that started the workers reports the lost
connection in one line.
"""

import logging
import signal

LOST = "Failed to communicate with scheduler during heartbeat."
"""Dask's message for a lost connection."""

signal.signal(signal.SIGINT, signal.SIG_IGN)
logging.getLogger("distributed.worker").addFilter(lambda record: record.getMessage() != LOST)
