"""Bytecode is compiled once per installed set of packages, for each file without it."""

import importlib.util
from pathlib import Path

import pytest

from engine import setup_status
from engine.setup import bytecode


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """Return a folder of two packages, one with a file that is not Python."""
    folder = tmp_path / "packages"
    for name in ("one", "two"):
        (folder / name).mkdir(parents=True)
        (folder / name / "module.py").write_text("x = 1\n")
        (folder / f"{name}-1.0.dist-info").mkdir()
    (folder / "two" / "template.py").write_text("{{ this is no Python }\n")
    monkeypatch.setattr(setup_status, "FOLDER", tmp_path)
    monkeypatch.setattr(bytecode, "_packages", lambda: folder)
    return folder


def compiled(source: Path) -> bool:
    return Path(importlib.util.cache_from_source(str(source))).exists()


@pytest.mark.parametrize("niceness", [0, 10])
def test_make_compiles_each_file(packages, monkeypatch, capsys, niceness):
    monkeypatch.setattr(bytecode.os, "nice", lambda more: niceness)
    said = []
    assert not bytecode.there()
    bytecode.make(said.append)
    assert bytecode.there()
    assert [compiled(packages / name / "module.py") for name in ("one", "two")] == [True, True]
    assert said == ["3 files"]
    assert capsys.readouterr() == ("", "")


def test_later_installed_package_requires_compilation(packages):
    bytecode.make(lambda words: None)
    (packages / "three-1.0.dist-info").mkdir()
    assert not bytecode.there()
