"""Fixtures of the command line's tests: a shell, a fake service and published runs."""

import io
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import typer.main

from engine.cli.main import main
from engine.settings import REPOSITORY, Settings
from tests.engine.cli.fake_service import FakeService

PUBLISHED = REPOSITORY / "cached_results"


@pytest.fixture(autouse=True, scope="session")
def _one_tree_of_commands():
    """Create the tree of commands once, since each creation takes 0.3 s."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", cache(typer.main.get_command))
        yield


@pytest.fixture
def shell(trained_settings, tmp_path, monkeypatch, capsys):
    """Return a function that runs a command in this process: exit code, standard output, standard error.

    No run is published, and only the embedded corpus is available, unless a test adds some.
    """
    original = Settings.from_environment
    from_environment = classmethod(lambda cls: replace(original(), published=trained_settings.published))
    monkeypatch.setattr(Settings, "from_environment", from_environment)
    monkeypatch.setenv("EPSILON_HOME", str(trained_settings.home))
    monkeypatch.setenv("EPSILON_STORE_URL", trained_settings.store_url)
    monkeypatch.setenv("EPSILON_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.delenv("EPSILON_LANGUAGE_MODEL", raising=False)

    def run(*arguments: object, typed: bytes = b"") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["engine", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(typed)))
        code = main()
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


@pytest.fixture
def service(monkeypatch) -> FakeService:
    """Replace the functions that train, attack, download, tag and start workers."""
    return FakeService(monkeypatch)


@pytest.fixture
def publish(settings) -> Callable[..., list[Path]]:
    """Return a function that publishes the runs of the repository with file names that match one of its patterns."""

    def publish(*patterns: str) -> list[Path]:
        paths = sorted({path for pattern in patterns for path in PUBLISHED.glob(pattern)})
        assert paths
        for path in paths:
            (settings.published / path.name).symlink_to(path)
        return paths

    return publish
