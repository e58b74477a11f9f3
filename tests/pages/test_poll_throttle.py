"""Polls stand in nobody's way: they overtake nothing, and are answered as often as a server can."""

import pytest
from streamlit.runtime.app_session import AppSession
from streamlit.runtime.scriptrunner_utils.script_requests import RerunData, ScriptRequests

from pages.startup import poll_throttle
from pages.startup.poll_throttle import MOST_A_SECOND, PollThrottle

WHOLE, POLL = RerunData(query_string="moved"), RerunData(fragment_id="view", is_auto_rerun=True)


@pytest.fixture
def requests(monkeypatch):
    for kind in (ScriptRequests, AppSession):
        monkeypatch.setattr(kind, "request_rerun", kind.request_rerun)  # put back afterwards
    poll_throttle.install()
    return ScriptRequests()


def test_the_whole_script_is_run_where_a_poll_comes_behind_it(requests):
    assert requests.request_rerun(WHOLE)
    assert requests.request_rerun(POLL)
    asked = requests.on_scriptrunner_ready().rerun_data
    assert (asked.query_string, asked.fragment_id_queue) == ("moved", [])


def test_polls_and_fragments_that_somebody_asked_for_are_run_as_ever(requests):
    requests.request_rerun(POLL)
    assert requests.on_scriptrunner_ready().rerun_data.fragment_id_queue == ["view"]
    requests.request_rerun(POLL)
    requests.request_rerun(WHOLE)
    assert requests.on_scriptrunner_ready().rerun_data.fragment_id_queue == []
    requests.request_rerun(POLL)
    requests.request_rerun(RerunData(fragment_id="other"))
    assert requests.on_scriptrunner_ready().rerun_data.fragment_id_queue == ["view", "other"]


def test_few_sessions_are_answered_each_time():
    now = [0.0]
    crowd = PollThrottle(lambda: now[0])
    for second in range(30):
        now[0] = float(second)
        assert all(crowd.is_due(f"session {number}") for number in range(int(MOST_A_SECOND)))


def test_many_are_answered_in_turn_and_none_is_forgotten():
    now, answered = [0.0], dict.fromkeys(range(100), 0)
    crowd = PollThrottle(lambda: now[0])
    for second in range(120):
        now[0] = float(second)
        for number in answered:
            answered[number] += crowd.is_due(f"session {number}")
    assert sum(answered.values()) <= 1.1 * 120 * MOST_A_SECOND
    assert max(answered.values()) - min(answered.values()) <= 1
    assert min(answered.values()) > 0


def test_who_has_gone_counts_no_longer():
    now = [0.0]
    crowd = PollThrottle(lambda: now[0])
    for number in range(1000):
        crowd.is_due(f"session {number}")
    now[0] = 11.0
    assert crowd.is_due("session 0")
    now[0] = 12.0
    assert crowd.is_due("session 0")
