"""Invalid settings in the environment, and secrets from files."""

import dataclasses
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest

from engine.cluster import supervisor
from engine.errors import InvalidConfig
from engine.settings import OLD_VARIABLES, REPOSITORY, Settings

ADDRESSES = {"EPSILON_STORE_URL": "store_url", "EPSILON_ARTIFACT_URL": "shared"}
"""Variables whose value may contain a password, and their settings."""
SECRET_FILES = {"EPSILON_ACCESS_FILE", "EPSILON_CLUSTER_KEY", "EPSILON_METRICS_TOKEN_FILE"}
"""Variables that name a file with a secret, and take no secret themselves."""
NOT_SECRET = {"EPSILON_BACKEND", "EPSILON_DATA_DIR", "EPSILON_FEDERATION", "EPSILON_HOME", "EPSILON_LANGUAGE_MODEL"} | {
    "EPSILON_LAUNCHER_PIPE",
    "EPSILON_POLL_ADDRESS",
    "EPSILON_RETENTION_DAYS",
    "EPSILON_SCHEDULER",
}
SECRET = "postgresql://epsilon:not-to-be-seen@127.0.0.1:5432/epsilon"  # pragma: allowlist secret


def test_each_variable_is_classified_and_each_secret_can_be_a_file():
    """A new variable fails here until it is in a table above; one with a secret also needs a file."""
    folders = (REPOSITORY / name for name in ("engine", "pages", "federation"))
    texts = [path.read_text(encoding="utf-8") for folder in folders for path in folder.rglob("*.py")]
    found = {name for text in texts for name in re.findall(r'"(EPSILON_[A-Z_]+)"', text)} - set(OLD_VARIABLES.values())
    assert found == ADDRESSES.keys() | SECRET_FILES | NOT_SECRET
    documented = (REPOSITORY / "docs" / "cli.md").read_text(encoding="utf-8")
    for name in (*SECRET_FILES, *(f"{address}_FILE" for address in ADDRESSES)):
        assert f"`{name}`" in documented, name


@pytest.fixture
def secret_file(tmp_path, monkeypatch) -> Path:
    for name in ADDRESSES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(f"{name}_FILE", raising=False)
    file = tmp_path / "address"
    file.write_text(f"{SECRET}\n")
    file.chmod(0o600)
    return file


@pytest.mark.parametrize(("name", "field"), ADDRESSES.items())
class TestAddressFiles:
    def test_address_is_read_from_its_file(self, monkeypatch, secret_file, name, field):
        monkeypatch.setenv(f"{name}_FILE", str(secret_file))
        settings = Settings.from_environment()
        assert getattr(settings, field) == SECRET
        assert getattr(pickle.loads(pickle.dumps(settings.addresses))[field], "file", None) == secret_file
        assert secret_file in settings.secret_files
        assert "not-to-be-seen" not in repr(settings)

    def test_children_get_the_file_and_not_the_secret(self, monkeypatch, secret_file, name, field):
        monkeypatch.setenv(f"{name}_FILE", str(secret_file))
        given = supervisor._environment(Settings.from_environment())
        assert not any("not-to-be-seen" in value for value in given.values())
        code = f"from engine.settings import Settings; print(Settings.from_environment().{field})"
        child = subprocess.run(
            [sys.executable, "-c", code], env=given, cwd=REPOSITORY, capture_output=True, text=True, check=True
        )
        assert child.stdout.strip() == SECRET

    def test_address_of_the_settings_replaces_that_of_the_file(self, monkeypatch, secret_file, name, field):
        monkeypatch.setenv(f"{name}_FILE", str(secret_file))
        changed = dataclasses.replace(Settings.from_environment(), **{field: "sqlite:///other"})
        assert (changed.address_variables[name], changed.address_variables[f"{name}_FILE"]) == ("sqlite:///other", "")

    def test_both_variables_are_refused_without_the_secret(self, monkeypatch, secret_file, name, field):
        monkeypatch.setenv(name, SECRET)
        monkeypatch.setenv(f"{name}_FILE", str(secret_file))
        with pytest.raises(InvalidConfig, match=f"{name} and {name}_FILE=.* are both set") as error:
            Settings.from_environment()
        assert "not-to-be-seen" not in str(error.value)

    @pytest.mark.parametrize(
        ("content", "mode", "message"),
        [
            (b"x", 0o640, "may be read by other users: chmod 600"),
            (b"x", 0o604, "may be read by other users"),
            (b" \n", 0o600, "is empty"),
            (b"\xff", 0o600, "not a text file"),
            (None, 0o600, "cannot be read"),
        ],
    )
    def test_invalid_file_is_named(self, monkeypatch, secret_file, name, field, content, mode, message):
        if content is None:
            secret_file.unlink()
        else:
            secret_file.write_bytes(content)
            secret_file.chmod(mode)
        monkeypatch.setenv(f"{name}_FILE", str(secret_file))
        with pytest.raises(InvalidConfig, match=f"{name}_FILE={secret_file} .*{message}|{message}"):
            Settings.from_environment()


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
