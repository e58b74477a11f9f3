"""Statistics of the store for monitoring."""

import time
from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from engine.records import RunState
from engine.store.schema import runs


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Numbers of runs and ages of the oldest.

    Attributes:
        states: Number of runs in each state.
        waited: Waiting time of the oldest queued run in seconds; 0 if none is queued.
        silent: Age of the oldest heartbeat of a running run in seconds; 0 if none is running.
    """

    states: dict[RunState, int]
    waited: float
    silent: float


def read(connection: Connection) -> Counts:
    """Return the current statistics."""
    states = dict.fromkeys(RunState, 0)
    waited = silent = 0.0
    now = time.time()
    longest = select(runs.c.state, func.count(), func.min(runs.c.created), func.min(runs.c.heartbeat))
    for name, number, created, heartbeat in connection.execute(longest.group_by(runs.c.state)):
        state = RunState(name)
        states[state] = int(number)
        if state == RunState.QUEUED:
            waited = max(0.0, now - created)
        elif state == RunState.RUNNING and heartbeat is not None:
            silent = max(0.0, now - heartbeat)
    return Counts(states=states, waited=waited, silent=silent)
