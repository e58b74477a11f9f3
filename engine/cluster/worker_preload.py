"""Loaded by each worker process as it starts: Ctrl-C in a terminal reaches all of its processes at once, and is for the
one that looks after the workers, which ends them in order."""

import signal

signal.signal(signal.SIGINT, signal.SIG_IGN)
