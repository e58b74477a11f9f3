"""Packages that pip installs from requirements files with SHA-256 hashes, with the progress in megabytes.

This module uses only the standard library, since it is imported before any package is installed.
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
"""Build tools of source packages. Without this list, pip would download them without a hash check."""
PRODUCT, TESTS = "requirements.txt", "tests/requirements.txt"
"""Requirements files, relative to the repository. The file of the tests includes all packages of the product."""

HEAVY = frozenset(
    "grpcio keras libclang ml-dtypes tensorboard tensorboard-data-server tensorflow tensorflow-estimator "
    "tensorflow-io-gcs-filesystem tensorflow-privacy tensorflow-probability".split()
)
"""TensorFlow and its exclusive dependencies: half of the download, not needed by pages and most runs."""

PASSING = Path(sys.prefix) / "fetched"
"""Temporary folder of pip, whose size shows the progress."""

_LOOK = 0.5
"""Seconds between two checks of pip's progress."""
_SAID = 40
"""Number of pip's last output lines that an error contains."""
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;]+)", re.MULTILINE)


def installed(listed: str, environment: Path, *, light: bool = False) -> bool:
    """Return whether the packages of the current requirements file are installed.

    Args:
        listed: The requirements file.
        environment: Folder of the virtual environment.
        light: Whether the packages in ``HEAVY`` may be missing.
    """
    stamps = {_stamp(name, environment): name for name in (listed, TESTS)}
    if light:
        stamps[_stamp(listed, environment, light=True)] = listed
    return any(stamp.is_file() and stamp.read_text() == _digest(name) for stamp, name in stamps.items())


def install(listed: str, environment: Path, progress: Callable[[str], None], *, light: bool = False) -> None:
    """Install the packages of a requirements file, without compiling byte-code.

    Args:
        listed: The requirements file.
        environment: Folder of the virtual environment.
        progress: Callback with the progress in words.
        light: Whether to omit the packages in ``HEAVY``.

    Raises:
        Failed: If pip fails.
    """
    if importlib.util.find_spec("pip") is None:  # an environment whose creation was interrupted
        subprocess.run([sys.executable, "-m", "ensurepip"], check=False)
    fetch(pip_install(BUILDERS), (), progress)
    text = (REPOSITORY / listed).read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "list.txt"
        if light:
            text = without(text, HEAVY)
        path.write_text(text, encoding="utf-8")
        fetch(pip_install(str(path)), pins(text), progress)
    for stamp in environment.glob("installed-*"):
        if stamp.read_text() not in {_digest(PRODUCT), _digest(TESTS)}:
            stamp.unlink()  # its packages have just been replaced
    _stamp(listed, environment, light=light).write_text(_digest(listed))


def pip_install(listed: str, *flags: str) -> list[str]:
    """Return the command that installs a requirements file and refuses files, build tools too, with other hashes.

    The lists are complete, so pip need not resolve dependencies. For a dependency with extras
    (``coverage[toml]>=7.10``) it would read the newest release instead of the listed one, and fail without a hash.
    """
    pip = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-compile", "--require-hashes"]
    return [*pip, "--no-deps", "--no-build-isolation", "--use-pep517", *flags, "-r", str(REPOSITORY / listed)]


def fetch(command: list[str], wanted: Collection[str], progress: Callable[[str], None]) -> None:
    """Run a command that installs packages; its output is only shown in the error.

    Args:
        command: The command.
        wanted: Name-version of each package, as :func:`pins` returns them; may be empty.
        progress: Callback with the progress in words.

    Raises:
        Failed: If the command fails.
    """
    shutil.rmtree(PASSING, ignore_errors=True)  # left by a process that was killed
    PASSING.mkdir()
    with tempfile.TemporaryFile("w+") as output:
        environment = os.environ | {"TMPDIR": str(PASSING), "PYTHONUNBUFFERED": "1"}
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment)
        try:
            fetched = 0
            while process.poll() is None:
                fetched = max(fetched, _bytes(PASSING))
                progress(_progress(fetched, wanted))
                time.sleep(_LOOK)
        finally:  # pip must not outlive this process
            process.kill()
            process.wait()
            shutil.rmtree(PASSING, ignore_errors=True)
        output.seek(0)
        lines = output.read().splitlines()
    if process.returncode != 0:
        reason = next((line.strip() for line in lines if "ERROR" in line), f"exit {process.returncode}")
        raise Failed(reason, said="\n".join(lines[-_SAID:]))
    importlib.invalidate_caches()  # packages were installed since this process started
    progress(_progress(fetched, wanted))


def pins(text: str) -> set[str]:
    """Return name-version of each package in a requirements file, normalised as the names of installed packages."""
    return {_normalised(f"{name}-{version}") for name, version in _PIN.findall(text)}


def without(text: str, names: Collection[str]) -> str:
    """Return a requirements file without these packages."""
    entries = re.split(r"(?m)^(?=[A-Za-z0-9])", text)
    return "".join(entry for entry in entries if not (pin := _PIN.match(entry)) or pin[1].lower() not in names)


def _progress(fetched: int, wanted: Collection[str]) -> str:
    installed = f", {len(set(wanted) & _installed_packages())} of {len(wanted)} installed" if wanted else ""
    return f"{fetched / 1e6:.0f} MB downloaded{installed}"


def _normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _installed_packages() -> set[str]:
    return {_normalised(entry.stem) for entry in Path(sysconfig.get_path("purelib")).glob("*.dist-info")}


def _bytes(folder: Path) -> int:
    """Return the total size of the wheels in a folder; ``os.walk`` tolerates pip's temporary folders."""
    total = 0
    for parent, _, files in os.walk(folder):
        for file in files:
            if file.endswith(".whl"):
                with suppress(OSError):
                    total += os.path.getsize(os.path.join(parent, file))
    return total


def _stamp(listed: str, environment: Path, *, light: bool = False) -> Path:
    """Return the file that records which version of a requirements file was installed."""
    return environment / f"installed-{'light-' if light else ''}{listed.replace('/', '-')}"


def _digest(listed: str) -> str:
    return hashlib.sha256((REPOSITORY / listed).read_bytes()).hexdigest()
