"""Settings of the environment that can be wrong."""

import pytest

from engine.errors import InvalidConfig
from engine.settings import Settings


@pytest.mark.parametrize(
    ("text", "found"),
    [(None, None), ("", None), ("8600", (None, 8600)), ("192.168.1.5:8600", ("192.168.1.5", 8600))],
)
def test_nothing_listens_unless_it_is_asked_for(monkeypatch, text, found):
    monkeypatch.delenv("EPSILON_POLL", raising=False)
    if text is not None:
        monkeypatch.setenv("EPSILON_POLL", text)
    assert Settings.from_environment().poll == found


@pytest.mark.parametrize(
    "text", ["yes", "80", "70000", "٨٦٠٠", "8600:", "0.0.0.0:8600", "8.8.8.8:8600", "here:8600", "::1:8600"]
)
def test_a_place_for_the_poll_that_is_none_is_named(monkeypatch, text):
    monkeypatch.setenv("EPSILON_POLL", text)
    with pytest.raises(InvalidConfig, match="EPSILON_POLL="):
        Settings.from_environment()
