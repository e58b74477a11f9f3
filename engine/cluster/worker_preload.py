"""Dask preload: ignore SIGINT in workers.

Ctrl-C in a terminal signals all of its processes; the nanny handles it and ends the workers in order.
"""

import signal

signal.signal(signal.SIGINT, signal.SIG_IGN)
