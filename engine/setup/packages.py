"""Packages of requirements files with SHA-256 hashes, installed by uv, or by pip where uv fails.

This module uses only the standard library, since it is imported before any package is installed.
"""

import hashlib
import importlib
import importlib.util
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection
from pathlib import Path

from engine.setup import Failed

REPOSITORY = Path(__file__).resolve().parents[2]

UV, BUILDERS = "engine/setup/uv.txt", "engine/setup/builders.txt"
"""The installer, and build tools of source packages. Without the second list, their newest versions would be downloaded
without a hash check."""
PRODUCT, TESTS = "requirements.txt", "tests/requirements.txt"
"""Requirements files, relative to the repository. The file of the tests includes all packages of the product."""

HEAVY = frozenset(
    "astunparse flatbuffers gast google-pasta grpcio keras libclang ml-dtypes namex opt-einsum optree tensorflow "
    "termcolor tf-keras".split()
)
"""TensorFlow and its exclusive dependencies: half of the download, not needed by pages and most runs."""

_SAID = 40
"""Number of the installer's last output lines that an error contains."""
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
    """Install the packages of a requirements file.

    Args:
        listed: The requirements file.
        environment: Folder of the virtual environment.
        progress: Callback with the progress in words.
        light: Whether to omit the packages in ``HEAVY``.

    Raises:
        Failed: If the installer fails.
    """
    if importlib.util.find_spec("pip") is None:  # an environment whose creation was interrupted
        subprocess.run([sys.executable, "-m", "ensurepip"], check=False)
    try:
        fetch(pip_install(UV), progress)
    except Failed as error:  # uv has no build for this machine
        progress(f"pip instead of uv ({error})")
    fetch_list(BUILDERS, progress)
    text = (REPOSITORY / listed).read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "list.txt"
        path.write_text(without(text, HEAVY) if light else text, encoding="utf-8")
        fetch_list(str(path), progress)
    for stamp in environment.glob("installed-*"):
        if stamp.read_text() not in {_digest(PRODUCT), _digest(TESTS)}:
            stamp.unlink()  # its packages have just been replaced
    _stamp(listed, environment, light=light).write_text(_digest(listed))


def fetch_list(listed: str, progress: Callable[[str], None]) -> None:
    """Install a requirements file by uv; where that fails, by pip, which is slower.

    uv does not read pip's settings, such as the package index of a company.

    Args:
        listed: The requirements file.
        progress: Callback with the progress in words.

    Raises:
        Failed: If pip fails, too.
    """
    if importlib.util.find_spec("uv") is not None:
        try:
            fetch(uv_install(listed), progress)
            return
        except Failed as error:
            progress(f"pip instead of uv ({error})")
    fetch(pip_install(listed), progress)


def uv_install(listed: str) -> list[str]:
    """Return uv's command that installs a requirements file with its byte-code and refuses files with other hashes."""
    uv = [sys.executable, "-m", "uv", "pip", "install", "--python", sys.executable, "--compile-bytecode"]
    return [*uv, "--require-hashes", "--no-deps", "--no-build-isolation", "-r", str(REPOSITORY / listed)]


def pip_install(listed: str, *flags: str) -> list[str]:
    """Return pip's command that installs a requirements file and refuses files, build tools too, with other hashes.

    The lists are complete, so pip need not resolve dependencies. For a dependency with extras
    (``coverage[toml]>=7.10``) it would read the newest release instead of the listed one, and fail without a hash.
    """
    pip = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--require-hashes"]
    return [*pip, "--no-deps", "--no-build-isolation", "--use-pep517", *flags, "-r", str(REPOSITORY / listed)]


def fetch(command: list[str], progress: Callable[[str], None]) -> None:
    """Run a command that installs packages; its output is shown only as progress, and in the error.

    Args:
        command: The command.
        progress: Callback with each line of output, except those on single installed packages.

    Raises:
        Failed: If the command fails.
    """
    lines: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            for line in process.stdout or ():
                lines.append(line.rstrip())
                if not line.startswith((" + ", " - ", " ~ ")):  # uv's list of all packages at the end
                    progress(line.strip()[:80])
        except BaseException:  # the installer must not outlive this process
            process.kill()
            raise
    if process.returncode != 0:
        reason = next((line.strip() for line in lines if "error" in line.lower()), f"exit {process.returncode}")
        raise Failed(reason, said="\n".join(lines[-_SAID:]))
    importlib.invalidate_caches()  # packages were installed since this process started


def without(text: str, names: Collection[str]) -> str:
    """Return a requirements file without these packages."""
    entries = re.split(r"(?m)^(?=[A-Za-z0-9])", text)
    return "".join(entry for entry in entries if not (pin := _PIN.match(entry)) or pin[1].lower() not in names)


def _stamp(listed: str, environment: Path, *, light: bool = False) -> Path:
    """Return the file that records which version of a requirements file was installed."""
    return environment / f"installed-{'light-' if light else ''}{listed.replace('/', '-')}"


def _digest(listed: str) -> str:
    return hashlib.sha256((REPOSITORY / listed).read_bytes()).hexdigest()
