"""Many sessions on one server, without browsers: each is answered, and the log has no error.

``python -m benchmarks.sessions`` measures response times and memory.
"""

import pytest

from benchmarks import sessions

SESSIONS, SECONDS = 20, 120.0
MOST_GROWTH = 10_000.0
"""Limit of memory growth in kB a minute: 100 sessions had 1,470, and 25,000 to 75,000 with a memory leak."""


@pytest.mark.nightly
def test_all_sessions_with_live_runs_are_answered(tmp_path, monkeypatch):
    monkeypatch.setenv("EPSILON_DATA_DIR", "")
    monkeypatch.setattr(sessions, "WATCHES_SECONDS", 10.0)
    result = sessions.measure_own(SESSIONS, SECONDS, tmp_path)
    assert result.faults == []
    assert len(result.opened) == SESSIONS
    assert len(result.took) >= SESSIONS
    assert result.polls > 0
    slope, error = result.growth()
    assert slope - 3 * error < MOST_GROWTH
