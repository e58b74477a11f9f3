"""A background computation that runs only while a page polls it.

A server receives no event when a user leaves a page. Therefore the page polls the computation. Without a poll for some
seconds, the computation pauses; the next poll resumes it.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from engine.errors import EpsilonError

IDLE_TIMEOUT = 4.0
"""Seconds without a poll after which the computation pauses. Pages poll every second."""

Result = TypeVar("Result")


@dataclass(frozen=True)
class Snapshot(Generic[Result]):
    """The state of a computation at a poll.

    Attributes:
        found: The results so far.
        stage: Current activity until the first result, in words.
        done: Whether the results are complete.
        error: Why the computation failed; None if it did not.
    """

    found: tuple[Result, ...]
    stage: str
    done: bool
    error: str | None


class PollDrivenTask(Generic[Result]):
    """A computation that pauses without polls.

    Args:
        make: Starts the computation; receives a function that reports its stage. The computation yields results, and
            None where it may pause.
        patience: Seconds without a poll after which it pauses.
    """

    def __init__(
        self, make: Callable[[Callable[[str], None]], Iterator[Result | None]], patience: float = IDLE_TIMEOUT
    ) -> None:
        self._make, self._patience = make, patience
        self._steps: Iterator[Result | None] | None = None
        self._results: list[Result] = []
        self._stage, self._error = "starting", ""
        self._done = self._running = False
        self._polled = 0.0
        self._lock = threading.Lock()

    @property
    def going(self) -> bool:
        """Whether the computation is running."""
        return self._running

    def poll(self) -> Snapshot[Result]:
        """Return the state of the computation, and resume it if it was paused."""
        with self._lock:
            self._polled = time.monotonic()
            if not (self._done or self._error or self._running):
                self._running = True
                threading.Thread(target=self._run, daemon=True).start()
            return Snapshot(tuple(self._results), self._stage, self._done, self._error or None)

    def _on_progress(self, stage: str) -> None:
        self._stage = stage

    def _run(self) -> None:
        try:
            if self._steps is None:
                self._steps = self._make(self._on_progress)
            for result in self._steps:
                with self._lock:
                    if result is not None:
                        self._results.append(result)
                    if time.monotonic() - self._polled > self._patience:
                        self._running = False
                        return
            with self._lock:
                self._done, self._running = True, False
        except EpsilonError as error:
            self._fail(str(error))
        except Exception:
            logging.getLogger(__name__).exception("a background computation of a lesson failed")
            self._fail("The computation failed because of a bug in this program; the log has the details.")

    def _fail(self, reason: str) -> None:
        with self._lock:
            self._error, self._running = reason, False
