"""How much there is in the store, for whoever watches over it."""

import time
from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from engine.records import RunState
from engine.store.schema import runs


@dataclass(frozen=True, kw_only=True)
class Counts:
    """states: runs by state, all of them. waited: seconds for which the longest waiting run has waited; silent: seconds
    since the running run that was heard of longest ago was; both 0 where there is none."""

    states: dict[RunState, int]
    waited: float
    silent: float


def read(connection: Connection) -> Counts:
    """As it is now."""
    found = dict.fromkeys(RunState, 0)
    waited = silent = 0.0
    now = time.time()
    longest = select(runs.c.state, func.count(), func.min(runs.c.created), func.min(runs.c.heartbeat))
    for name, number, created, heartbeat in connection.execute(longest.group_by(runs.c.state)):
        state = RunState(name)
        found[state] = int(number)
        if state == RunState.QUEUED:
            waited = max(0.0, now - created)
        elif state == RunState.RUNNING and heartbeat is not None:
            silent = max(0.0, now - heartbeat)
    return Counts(states=found, waited=waited, silent=silent)
