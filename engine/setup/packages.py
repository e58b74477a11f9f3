"""Packages that pip installs, each list held against the SHA-256 of its files; how far that is, in megabytes.

Only the standard library: it runs before any package is there.
"""

import hashlib
import importlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

from engine.setup import Failed

REPOSITORY = Path(__file__).resolve().parents[2]

BUILDERS = "engine/setup/builders.txt"
"""What builds packages that come as source: else pip would fetch it unasked, held against no list."""
PRODUCT, TESTS = "requirements.txt", "tests/requirements.txt"
"""Lists of packages, relative to the repository; that of the tests has all of the product's too."""

HEAVY = frozenset(
    "grpcio keras libclang ml-dtypes tensorboard tensorboard-data-server tensorflow tensorflow-estimator "
    "tensorflow-io-gcs-filesystem tensorflow-privacy tensorflow-probability".split()
)
"""TensorFlow and what it alone needs: half of all bytes, without which pages can be drawn and most runs computed."""

PASSING = Path(sys.prefix) / "fetched"
"""Folder for what pip fetches and unpacks, so that it can be measured."""

_LOOK = 0.5
"""Seconds between two looks at how far pip is."""
_SAID = 40
"""Last lines of pip that are kept."""
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;]+)", re.MULTILINE)


def installed(listed: str, environment: Path, *, light: bool = False) -> bool:
    """Whether the packages of a list were installed as it now stands. light: all but ``HEAVY`` are enough."""
    stamps = {_stamp(name, environment): name for name in (listed, TESTS)}
    if light:
        stamps[_stamp(listed, environment, light=True)] = listed
    return any(stamp.is_file() and stamp.read_text() == _digest(name) for stamp, name in stamps.items())


def install(listed: str, environment: Path, progress: Callable[[str], None], *, light: bool = False) -> None:
    """Install the packages of a list; byte-code is left to later. light: all but ``HEAVY``. Raises Failed."""
    if importlib.util.find_spec("pip") is None:  # an environment whose making was interrupted
        subprocess.run([sys.executable, "-m", "ensurepip"], check=False)
    fetch(pip_install(BUILDERS), (), progress)
    text = (REPOSITORY / listed).read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        shorter = Path(folder) / "list.txt"
        if light:
            text = without(text, HEAVY)
        shorter.write_text(text, encoding="utf-8")
        fetch(pip_install(str(shorter)), pins(text), progress)
    for stamp in environment.glob("installed-*"):
        if stamp.read_text() not in {_digest(PRODUCT), _digest(TESTS)}:
            stamp.unlink()  # what it speaks of has just been replaced
    _stamp(listed, environment, light=light).write_text(_digest(listed))


def pip_install(listed: str, *flags: str) -> list[str]:
    """The command that installs a list of packages and refuses files that are not the ones listed, builders too.

    Lists are whole, so pip need not look for what packages ask for. Where one asks for another with extras
    (``coverage[toml]>=7.10``) it would look at the newest release, not the listed one, and end for want of a hash.
    """
    pip = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-compile", "--require-hashes"]
    return [*pip, "--no-deps", "--no-build-isolation", "--use-pep517", *flags, "-r", str(REPOSITORY / listed)]


def fetch(command: list[str], wanted: Collection[str], progress: Callable[[str], None]) -> None:
    """Run a command that installs packages. wanted: name-version of each, as :func:`pins` writes them; may be empty.

    What it says is kept back, and is in the error where it fails. Raises Failed.
    """
    shutil.rmtree(PASSING, ignore_errors=True)  # of one that was killed
    PASSING.mkdir()
    with tempfile.TemporaryFile("w+") as said:
        here = os.environ | {"TMPDIR": str(PASSING), "PYTHONUNBUFFERED": "1"}
        process = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT, env=here)
        try:
            most = 0
            while process.poll() is None:
                most = max(most, _bytes(PASSING))
                progress(_far(most, wanted))
                time.sleep(_LOOK)
        finally:  # who is told to end does not leave it behind
            process.kill()
            process.wait()
            shutil.rmtree(PASSING, ignore_errors=True)
        said.seek(0)
        lines = said.read().splitlines()
    if process.returncode != 0:
        reason = next((line.strip() for line in lines if "ERROR" in line), f"exit {process.returncode}")
        raise Failed(reason, said="\n".join(lines[-_SAID:]))
    importlib.invalidate_caches()  # packages have come in since this process started
    progress(_far(most, wanted))


def pins(text: str) -> set[str]:
    """Of each package in a list: name-version, as folders of installed packages are called up to a few signs."""
    return {_plain(f"{name}-{version}") for name, version in _PIN.findall(text)}


def without(text: str, names: Collection[str]) -> str:
    """A list of packages without some of them."""
    entries = re.split(r"(?m)^(?=[A-Za-z0-9])", text)
    return "".join(entry for entry in entries if not (pin := _PIN.match(entry)) or pin[1].lower() not in names)


def _far(fetched: int, wanted: Collection[str]) -> str:
    installed = f", {len(set(wanted) & _present())} of {len(wanted)} installed" if wanted else ""
    return f"{fetched / 1e6:.0f} MB fetched{installed}"


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _present() -> set[str]:
    return {_plain(each.stem) for each in Path(sysconfig.get_path("purelib")).glob("*.dist-info")}


def _bytes(folder: Path) -> int:
    """Of the files of packages below; folders of pip's come and go meanwhile, which ``os.walk`` puts up with."""
    total = 0
    for here, _, files in os.walk(folder):
        for file in files:
            if file.endswith(".whl"):
                with suppress(OSError):
                    total += os.path.getsize(os.path.join(here, file))
    return total


def _stamp(listed: str, environment: Path, *, light: bool = False) -> Path:
    """The file that tells which state of a list was installed."""
    return environment / f"installed-{'light-' if light else ''}{listed.replace('/', '-')}"


def _digest(listed: str) -> str:
    return hashlib.sha256((REPOSITORY / listed).read_bytes()).hexdigest()
