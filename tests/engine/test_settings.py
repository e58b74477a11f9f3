"""Invalid settings in the environment."""

import pytest

from engine.errors import InvalidConfig
from engine.settings import Settings


@pytest.mark.parametrize(
    ("text", "found"),
    [(None, None), ("", None), ("8600", (None, 8600)), ("192.168.1.5:8600", ("192.168.1.5", 8600))],
)
def test_poll_is_off_by_default(monkeypatch, text, found):
    monkeypatch.delenv("EPSILON_POLL", raising=False)
    monkeypatch.delenv("EPSILON_POLL_ADDRESS", raising=False)
    if text is not None:
        monkeypatch.setenv("EPSILON_POLL_ADDRESS", text)
    assert Settings.from_environment().poll == found


@pytest.mark.parametrize(
    "text", ["yes", "80", "70000", "٨٦٠٠", "8600:", "0.0.0.0:8600", "8.8.8.8:8600", "here:8600", "::1:8600"]
)
def test_invalid_poll_address_is_named(monkeypatch, text):
    monkeypatch.setenv("EPSILON_POLL_ADDRESS", text)
    with pytest.raises(InvalidConfig, match="EPSILON_POLL_ADDRESS="):
        Settings.from_environment()


@pytest.mark.parametrize(
    ("new", "old", "field", "text"),
    [
        ("EPSILON_ACCESS_FILE", "EPSILON_ACCESS", "access", "/access.toml"),
        ("EPSILON_ARTIFACT_URL", "EPSILON_ARTEFACTS", "shared", "s3://runs"),
        ("EPSILON_POLL_ADDRESS", "EPSILON_POLL", "poll", "8600"),
    ],
)
def test_old_variable_is_read_unless_the_new_one_is_set(monkeypatch, new, old, field, text):
    monkeypatch.delenv(new, raising=False)
    monkeypatch.setenv(old, text)
    value = getattr(Settings.from_environment(), field)
    assert value is not None
    monkeypatch.setenv(new, "")
    assert getattr(Settings.from_environment(), field) is None
    monkeypatch.setenv(new, text)
    monkeypatch.setenv(old, "")
    assert getattr(Settings.from_environment(), field) == value


def test_retention_is_off_by_default(monkeypatch):
    monkeypatch.delenv("EPSILON_RETENTION_DAYS", raising=False)
    assert Settings.from_environment().retention_days is None
    monkeypatch.setenv("EPSILON_RETENTION_DAYS", "365")
    assert Settings.from_environment().retention_days == 365


@pytest.mark.parametrize("text", ["0", "-1", "36501", "1.5", "a year", "٣"])
def test_invalid_retention_is_named(monkeypatch, text):
    monkeypatch.setenv("EPSILON_RETENTION_DAYS", text)
    with pytest.raises(InvalidConfig, match=f"EPSILON_RETENTION_DAYS={text}, expected"):
        Settings.from_environment()


@pytest.mark.parametrize("text", ["tcp://10.0.0.1:8786", "http://here:1", "ws://10.0.0.1:8786"])
def test_scheduler_without_tls_is_refused(monkeypatch, text):
    monkeypatch.setenv("EPSILON_CLUSTER_KEY", "key.pem")
    monkeypatch.setenv("EPSILON_SCHEDULER", text)
    with pytest.raises(InvalidConfig, match=f"EPSILON_SCHEDULER={text}, expected tls://"):
        Settings.from_environment()


@pytest.mark.parametrize("text", ["tls://10.0.0.1:8786", "/shared/scheduler.json"])
def test_scheduler_requires_cluster_key(monkeypatch, text):
    monkeypatch.delenv("EPSILON_CLUSTER_KEY", raising=False)
    monkeypatch.setenv("EPSILON_SCHEDULER", text)
    with pytest.raises(InvalidConfig, match="without EPSILON_CLUSTER_KEY"):
        Settings.from_environment()
    monkeypatch.setenv("EPSILON_CLUSTER_KEY", "key.pem")
    assert Settings.from_environment().scheduler == text
