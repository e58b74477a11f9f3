"""Turns of uploaded files between users, and of small files beside a large one."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from engine.service.import_queue import ImportQueue
from tests.browser.driving import wait_for


class Reader:
    """Threads that each read one file, until the test ends the reading."""

    def __init__(self) -> None:
        self.queue = ImportQueue()
        self.begun: list[str] = []
        self.waited: set[str] = set()
        self.ends: dict[str, threading.Event] = {}
        self.pool = ThreadPoolExecutor(40)

    def add(self, name: str, user: str, *, large: bool = False) -> None:
        """Add a file, and return when it is being read or waits."""
        self.ends[name] = threading.Event()

        def read() -> None:
            with self.queue.turn(user, large=large, waiting=lambda: self.waited.add(name), seconds=0.01):
                self.begun.append(name)
                assert self.ends[name].wait(60)

        self.pool.submit(read)
        wait_for(lambda: name in self.begun or name in self.waited, 60)

    def end(self, name: str) -> None:
        """End the reading of a file, and return when its place is free."""
        number = len(self.queue._files)
        self.ends[name].set()
        wait_for(lambda: len(self.queue._files) < number, 60)

    def wait_for_file(self, number: int) -> list[str]:
        """Return the files that were begun so far, when there are so many and no more."""
        wait_for(lambda: len(self.begun) >= number, 60)
        time.sleep(0.1)
        assert len(self.begun) == number
        return self.begun


@pytest.fixture
def reader():
    made = Reader()
    yield made
    for event in made.ends.values():
        event.set()
    made.pool.shutdown()


def test_small_files_pass_a_large_one(reader):
    reader.add("large", "rita", large=True)
    reader.add("second large", "rudi", large=True)
    reader.add("small", "vera")
    assert reader.wait_for_file(2) == ["large", "small"]
    reader.end("small")
    reader.add("another", "vera")
    assert reader.wait_for_file(3)[-1] == "another"
    reader.end("large")
    assert reader.wait_for_file(4)[-1] == "second large"


def test_thirty_files_of_one_user_do_not_delay_others(reader):
    for number in range(30):
        reader.add(f"{number}", "rita")
    reader.add("hers", "vera")
    assert reader.wait_for_file(2) == ["0", "hers"]
    reader.add("his", "rudi")
    reader.end("0")
    assert reader.wait_for_file(3)[-1] == "his"
    reader.end("hers")
    assert reader.wait_for_file(4)[-1] == "1"


def test_new_users_with_many_files_do_not_delay_a_user_of_the_past(reader):
    for name in ("past 0", "past 1", "past 2"):
        reader.add(name, "vera")
        reader.end(name)
    for number in range(8):
        reader.add(f"rita {number}", "rita")
        reader.add(f"rudi {number}", "rudi")
    reader.add("hers", "vera")
    assert reader.wait_for_file(5)[3:] == ["rita 0", "rudi 0"]
    reader.end("rita 0")
    assert reader.wait_for_file(6)[-1] == "hers"
    reader.end("rudi 0")
    assert reader.wait_for_file(7)[-1] == "rita 1"


def test_a_file_that_no_longer_waits_frees_its_place(reader):
    reader.add("first", "rita")

    def leave() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError), reader.queue.turn("rita", large=False, waiting=leave):
        pass
    with pytest.raises(ValueError, match="broken"), reader.queue.turn("rudi", large=False, waiting=leave):
        raise ValueError("broken")
    reader.add("next", "rudi")
    assert reader.wait_for_file(2) == ["first", "next"]
    reader.end("first")
    assert not [file for file in reader.queue._files if file.user == "rita"]
