"""Many sessions in front of one server, without browsers: each is answered, and no log has an error.

How soon they are answered, and what memory that takes, is measured by ``python -m benchmarks.sessions``.
"""

import pytest

from benchmarks import sessions

SESSIONS, SECONDS = 20, 120.0
MOST_GROWTH = 10_000.0
"""Kilobytes a minute. A hundred sessions came to 1,470; to 25,000 and 75,000 where memory was kept that others could
use."""


@pytest.mark.nightly
def test_sessions_that_watch_live_runs_are_all_answered(tmp_path, monkeypatch):
    monkeypatch.setenv("EPSILON_DATA_DIR", "")
    monkeypatch.setattr(sessions, "WATCHES_SECONDS", 10.0)
    seen = sessions.measure_own(SESSIONS, SECONDS, tmp_path)
    assert seen.faults == []
    assert len(seen.opened) == SESSIONS
    assert len(seen.took) >= SESSIONS
    assert seen.polls > 0
    slope, error = seen.growth()
    assert slope - 3 * error < MOST_GROWTH
