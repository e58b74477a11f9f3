"""Order in which uploaded files are read: turns between users, and small files beside a large one."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_AT_ONCE = 2
"""Files that are read at once, of which one may be large."""


@dataclass(eq=False)
class _File:
    user: str
    large: bool
    reading: bool = False


class ImportQueue:
    """Files that are read or wait; methods may be called from all threads.

    A large file needs 300 MB and half a minute, a hostile one up to the limits on time and memory. It must not delay
    the small files of others, nor one user's thirty files the single file of another user.
    """

    def __init__(self) -> None:
        self._files: list[_File] = []
        self._turns = 0
        self._last_turn: dict[str, int] = {}  # of each user, for as long as the server runs
        self._changed = threading.Condition()

    @contextmanager
    def turn(self, user: str, *, large: bool, waiting: Callable[[], None], seconds: float = 1.0) -> Iterator[None]:
        """Wait until a file may be read; another file may be read when the context ends.

        Args:
            user: Name of its user, of whom one file is read at a time.
            large: Whether it is large.
            waiting: Called while the file waits, at once and then regularly. An error that it raises ends the waiting.
            seconds: Time between two calls.
        """
        file = _File(user, large)
        with self._changed:
            self._files.append(file)
        try:
            while not self._begins(file, 0):
                waiting()
                if self._begins(file, seconds):
                    break
            yield
        finally:
            with self._changed:
                self._files.remove(file)
                self._changed.notify_all()

    def _begins(self, file: _File, seconds: float) -> bool:
        """Return whether it is the file's turn, after at most the given time; the file then counts as being read."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._next() is file, seconds):
                return False
            file.reading = True
            self._turns += 1
            self._last_turn[file.user] = self._turns
            self._changed.notify_all()
            return True

    def _next(self) -> _File | None:
        """Return the next file that may be read now: that of the user who has waited longest for a turn, if any."""
        reading = [file for file in self._files if file.reading]
        if len(reading) == _AT_ONCE:
            return None
        users, large = {file.user for file in reading}, any(file.large for file in reading)
        able = [each for each in self._files if not (each.reading or each.user in users or (large and each.large))]
        return min(able, key=lambda each: self._last_turn.get(each.user, 0), default=None)  # the first of equal ones
