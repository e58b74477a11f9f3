"""What set-up says, to a person and into a pipe."""

import io
import sys

import pytest

from engine.launch import Failed, telling


class Terminal(io.StringIO):
    """Standard error where a person looks on."""

    def isatty(self) -> bool:
        """It is one."""
        return True


@pytest.fixture(params=[io.StringIO, Terminal])
def standard_error(request, monkeypatch):
    monkeypatch.setattr(sys, "stderr", request.param())
    monkeypatch.setattr(telling, "BETWEEN_LINES", 0.0)
    monkeypatch.setattr(telling, "BETWEEN_LOOKS", 0.0)
    return sys.stderr


def tell(over):
    with telling.part("packages", over=over) as progress:
        progress("3 MB fetched")
        progress("5 MB fetched")


def test_a_part_says_its_name_how_far_it_is_and_its_seconds(standard_error):
    tell(over=True)
    said = standard_error.getvalue()
    alive = standard_error.isatty()
    assert ("\x1b" in said, "\r" in said) == (alive, alive)
    assert said.count("\n") == (1 if alive else 4)
    assert "packages: 3 MB fetched" in said
    assert said.splitlines()[-1].endswith("packages: 5 MB fetched, 0.0 s")


def test_who_has_not_the_terminal_alone_writes_over_nothing(standard_error):
    tell(over=False)
    assert standard_error.getvalue().splitlines() == [
        "packages …",
        "packages: 3 MB fetched",
        "packages: 5 MB fetched",
        "packages: 5 MB fetched, 0.0 s",
    ]


def test_a_part_that_fails_says_why(standard_error):
    with pytest.raises(Failed), telling.part("packages", over=False):
        raise Failed("There is no room.")
    assert standard_error.getvalue().endswith("packages: failed after 0.0 s. There is no room.\n")
