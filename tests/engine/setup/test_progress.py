"""What set-up says, to a person and into a pipe."""

import io
import sys

import pytest

from engine.setup import Failed
from engine.setup import progress as setup_progress


class Terminal(io.StringIO):
    """Standard error where a person looks on."""

    def isatty(self) -> bool:
        """It is one."""
        return True


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(setup_progress, "BETWEEN_LINES", 0.0)
    monkeypatch.setattr(setup_progress, "BETWEEN_LOOKS", 0.0)


def told(monkeypatch, error: io.StringIO, *, over: bool) -> str:
    """What is told of a part into this standard error."""
    monkeypatch.setattr(sys, "stderr", error)
    with setup_progress.part("packages", over=over) as progress:
        progress("3 MB fetched")
        progress("5 MB fetched")
    return error.getvalue()


PLAIN = ["packages …", "packages: 3 MB fetched", "packages: 5 MB fetched", "packages: 5 MB fetched, 0.0 s"]


def test_a_person_sees_one_line_that_is_written_over(monkeypatch):
    said = told(monkeypatch, Terminal(), over=True)
    assert said.count("\n") == 1
    assert said.replace("\r\x1b[2K", "\n").splitlines() == PLAIN


@pytest.mark.parametrize(("error", "over"), [(io.StringIO, True), (io.StringIO, False), (Terminal, False)])
def test_in_a_pipe_or_beside_others_lines_follow_one_another(monkeypatch, error, over):
    assert told(monkeypatch, error(), over=over).splitlines() == PLAIN


def test_a_part_that_fails_says_why(capsys):
    with pytest.raises(Failed), setup_progress.part("packages", over=False):
        raise Failed("There is no room.")
    said = capsys.readouterr().err
    assert all(part in said for part in ("packages: failed", " 0.0 s"))
    assert said.endswith("There is no room.\n")
