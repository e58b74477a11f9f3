"""Progress messages of set-up, in a terminal and in a pipe."""

import io
import sys

import pytest

from engine.setup import Failed
from engine.setup import progress as setup_progress


class Terminal(io.StringIO):
    """Standard error of a terminal."""

    def isatty(self) -> bool:
        """Return True."""
        return True


@pytest.fixture(autouse=True)
def no_delays(monkeypatch):
    monkeypatch.setattr(setup_progress, "BETWEEN_LINES", 0.0)
    monkeypatch.setattr(setup_progress, "BETWEEN_LOOKS", 0.0)


def output_of(monkeypatch, error: io.StringIO, *, over: bool) -> str:
    """Return the progress messages of a part on this standard error."""
    monkeypatch.setattr(sys, "stderr", error)
    with setup_progress.part("packages", over=over) as progress:
        progress("3 MB fetched")
        progress("5 MB fetched")
    return error.getvalue()


PLAIN = ["packages …", "packages: 3 MB fetched", "packages: 5 MB fetched", "packages: 5 MB fetched, 0.0 s"]


def test_terminal_shows_one_overwritten_line(monkeypatch):
    said = output_of(monkeypatch, Terminal(), over=True)
    assert said.count("\n") == 1
    assert said.replace("\r\x1b[2K", "\n").splitlines() == PLAIN


@pytest.mark.parametrize(("error", "over"), [(io.StringIO, True), (io.StringIO, False), (Terminal, False)])
def test_pipe_shows_consecutive_lines(monkeypatch, error, over):
    assert output_of(monkeypatch, error(), over=over).splitlines() == PLAIN


def test_failed_part_gives_the_reason(capsys):
    with pytest.raises(Failed), setup_progress.part("packages", over=False):
        raise Failed("There is no room.")
    said = capsys.readouterr().err
    assert all(part in said for part in ("packages: failed", " 0.0 s"))
    assert said.endswith("There is no room.\n")
