"""The Chromium that the browser tests drive: one that is there, or else one that may be installed.

``python -m tests.browser.chromium`` prints its path; the Makefile hands that to the tests as EPSILON_CHROMIUM.
"""

import os
import shutil
import subprocess
import sys

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
"""What Chromium and Chrome are called in packages of the various systems."""


def main() -> int:
    """Print the path of a Chromium, installed if need be. Without one: a sentence instead, in CI exit code 1."""
    path = find() or install()
    if path:
        sys.stdout.write(path + "\n")
        return 0
    sys.stderr.write("No Chromium is here and none could be installed: the browser tests are left out.\n")
    return 1 if in_ci() else 0


def in_ci() -> bool:
    """Whether this is a CI run, where leaving the browser tests out counts as a failure."""
    return bool(os.environ.get("CI"))


def find() -> str | None:
    """Path of a Chromium that starts: the one EPSILON_CHROMIUM names, one on PATH, Playwright's own."""
    candidates = [os.environ.get("EPSILON_CHROMIUM"), *(shutil.which(name) for name in NAMES)]
    return next((path for path in candidates if path and starts(path)), None) or _find_playwrights()


def _find_playwrights() -> str | None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if starts(path) else None


def starts(path: str) -> bool:
    """Whether the program tells its version; Ubuntu's chromium-browser without snap, for one, does not."""
    try:
        return subprocess.run([path, "--version"], capture_output=True, timeout=60, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def install() -> str | None:
    """Install a Chromium where that is allowed: Debian's package as root, else Playwright's download."""
    if os.geteuid() == 0 and shutil.which("apt-get"):
        _run("apt-get", "update")
        _run("apt-get", "install", "--yes", "--no-install-recommends", "chromium")
        if path := find():
            return path
    _run(sys.executable, "-m", "playwright", "install", "chromium")
    return find()


def _run(*command: str) -> None:
    """Run an installer; its words go to standard error, since standard output is for the path."""
    sys.stderr.write(f"Installing Chromium for the browser tests: {' '.join(command)}\n")
    subprocess.run(command, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False)


if __name__ == "__main__":
    sys.exit(main())
