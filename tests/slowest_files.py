"""Report the slowest test files, and fail a session that exceeds its time limit."""

import os
import time
from collections import Counter, defaultdict
from typing import Any

import pytest

SHOWN = 20
"""Number of files in the table."""


class SlowestFiles:
    """Sum up the time of each test file and print the slowest ones.

    With ``--numprocesses``, this runs in the process that collects the reports of all workers.

    Args:
        most_minutes: time limit of the session by the clock; None sets no limit.
    """

    def __init__(self, most_minutes: float | None) -> None:
        self._most_minutes = most_minutes
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._tests: Counter[str] = Counter()
        self._begun, self._processor_begun = time.monotonic(), _processor_seconds()
        self._rerun: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the time of one phase (set-up, call or teardown) of a test."""
        file = report.nodeid.split("::", 1)[0]
        self._seconds[file] += report.duration
        self._tests[file] += report.when == "call"
        if report.outcome == "rerun":
            self._rerun.append(report.nodeid)

    @property
    def minutes(self) -> float:
        """Return the duration of the session by the clock."""
        return (time.monotonic() - self._begun) / 60

    def table(self) -> list[str]:
        """Return the lines of the table, the slowest file first."""
        lines = [
            f"{seconds:8.1f} s {self._tests[file]:5d} tests  {file}"
            for file, seconds in sorted(self._seconds.items(), key=lambda item: -item[1])[:SHOWN]
        ]
        processor = (_processor_seconds() - self._processor_begun) / 60
        total = f"{sum(self._seconds.values()) / 60:.1f} minutes in {sum(self._tests.values()):,} tests"
        return [*lines, f"{total}; {self.minutes:.1f} minutes by the clock, {processor:.1f} core-minutes"]

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail the session if it exceeded its time limit."""
        if self._most_minutes is not None and self.minutes > self._most_minutes and not session.exitstatus:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the table, the tests that were rerun, and an exceeded time limit."""
        if len(self._seconds) < 2:
            return
        terminalreporter.section(f"slowest {SHOWN} files")
        for line in self.table():
            terminalreporter.write_line(line)
        for name in self._rerun:
            terminalreporter.write_line(f"rerun: {name}")
        if self._most_minutes is not None and self.minutes > self._most_minutes:
            terminalreporter.write_line(
                f"minutes={self.minutes:.1f}, expected at most {self._most_minutes:g}: see the table above", red=True
            )


def _processor_seconds() -> float:
    """Return the processor time of this process and of all its descendants that have ended."""
    times: Any = os.times()
    return float(times.user + times.system + times.children_user + times.children_system)
