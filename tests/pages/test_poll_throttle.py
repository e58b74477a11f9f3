"""Polls never replace user requests, and are answered at a rate that the server can sustain."""

import pytest
from streamlit.runtime.scriptrunner_utils.script_requests import RerunData, ScriptRequests

from pages.startup.poll_throttle import MOST_A_SECOND, PollThrottle

USER_REQUEST, POLL = (
    RerunData(query_string="moved"),
    RerunData(query_string="moved", fragment_id="view", is_auto_rerun=True),
)


@pytest.fixture
def requests():
    return ScriptRequests()


def test_poll_does_not_replace_a_waiting_user_request(requests):
    """Streamlit 1.60 did this: a slider that was moved before a poll changed nothing."""
    assert requests.request_rerun(USER_REQUEST)
    assert requests.request_rerun(POLL)
    rerun = requests.on_scriptrunner_ready().rerun_data
    assert (rerun.query_string, rerun.fragment_id_queue) == ("moved", [])


def test_other_requests_are_combined_as_in_streamlit(requests):
    requests.request_rerun(POLL)
    assert requests.on_scriptrunner_ready().rerun_data.fragment_id_queue == ["view"]
    requests.request_rerun(POLL)
    requests.request_rerun(USER_REQUEST)
    assert requests.on_scriptrunner_ready().rerun_data.fragment_id_queue == []
    requests.request_rerun(POLL)
    requests.request_rerun(RerunData(fragment_id="other"))
    assert requests.on_scriptrunner_ready().rerun_data.fragment_id_queue == ["view", "other"]


def test_every_poll_of_few_sessions_is_due():
    now = [0.0]
    throttle = PollThrottle(lambda: now[0])
    for second in range(30):
        now[0] = float(second)
        assert all(throttle.is_due(f"session {number}") for number in range(int(MOST_A_SECOND)))


def test_polls_of_many_sessions_are_answered_equally_often():
    now, answered = [0.0], dict.fromkeys(range(100), 0)
    throttle = PollThrottle(lambda: now[0])
    for second in range(120):
        now[0] = float(second)
        for number in answered:
            answered[number] += throttle.is_due(f"session {number}")
    assert sum(answered.values()) <= 1.1 * 120 * MOST_A_SECOND
    assert max(answered.values()) - min(answered.values()) <= 1
    assert min(answered.values()) > 0


def test_inactive_sessions_do_not_count():
    now = [0.0]
    throttle = PollThrottle(lambda: now[0])
    for number in range(1000):
        throttle.is_due(f"session {number}")
    now[0] = 11.0
    assert throttle.is_due("session 0")
    now[0] = 12.0
    assert throttle.is_due("session 0")
