"""A computation that goes on beside a page, as long as somebody looks at it.

Nothing tells a server that a learner has left. So the page says when it looks, and who has not looked for some seconds
has left: the computation waits where it is, and goes on when somebody is back.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from engine.errors import EpsilonError

IDLE_TIMEOUT = 4.0
"""Seconds without a look after which it waits. Pages look every second."""

Found = TypeVar("Found")


@dataclass(frozen=True)
class Snapshot(Generic[Found]):
    """What is there so far. stage: what it waits for, in words, until the first is there. done: whether that is all.
    error: why no more comes."""

    found: tuple[Found, ...]
    stage: str
    done: bool
    error: str | None


class PollDrivenTask(Generic[Found]):
    """make: begins the computation, and is given what to call with its stage; it yields what it finds, and None where
    it may be stopped. patience: in seconds."""

    def __init__(
        self, make: Callable[[Callable[[str], None]], Iterator[Found | None]], patience: float = IDLE_TIMEOUT
    ) -> None:
        self._make, self._patience = make, patience
        self._steps: Iterator[Found | None] | None = None
        self._found: list[Found] = []
        self._stage, self._error = "beginning", ""
        self._done = self._going = False
        self._looked = 0.0
        self._lock = threading.Lock()

    @property
    def going(self) -> bool:
        """Whether it computes just now."""
        return self._going

    def poll(self) -> Snapshot[Found]:
        """What is there; it goes on."""
        with self._lock:
            self._looked = time.monotonic()
            if not (self._done or self._error or self._going):
                self._going = True
                threading.Thread(target=self._go_on, daemon=True).start()
            return Snapshot(tuple(self._found), self._stage, self._done, self._error or None)

    def _tell(self, stage: str) -> None:
        self._stage = stage

    def _go_on(self) -> None:
        try:
            if self._steps is None:
                self._steps = self._make(self._tell)
            for found in self._steps:
                with self._lock:
                    if found is not None:
                        self._found.append(found)
                    if time.monotonic() - self._looked > self._patience:
                        self._going = False
                        return
            with self._lock:
                self._done, self._going = True, False
        except EpsilonError as error:
            self._fail(str(error))
        except Exception:
            logging.getLogger(__name__).exception("a computation of a lesson ended")
            self._fail("It ended by a fault of its own; the terminal has the details")

    def _fail(self, why: str) -> None:
        with self._lock:
            self._error, self._going = why, False
