"""The Chromium of the browser tests: an installed one, or else one that this module installs.

``python -m tests.browser.chromium`` prints its path, which the Makefile passes to the tests as EPSILON_CHROMIUM.
"""

import os
import shutil
import subprocess
import sys

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
"""Program names of Chromium and Chrome on various systems."""


def main() -> int:
    """Print the path of Chromium, installing it if needed; without one, print an error and in CI return 1."""
    path = find() or install()
    if path:
        sys.stdout.write(path + "\n")
        return 0
    sys.stderr.write("Chromium is not installed and could not be installed: the browser tests are skipped.\n")
    return 1 if in_ci() else 0


def in_ci() -> bool:
    """Return whether this is a CI run, where a skipped test counts as a failure."""
    return bool(os.environ.get("CI"))


def find() -> str | None:
    """Return the path of a Chromium that starts: EPSILON_CHROMIUM, one on PATH, or Playwright's."""
    candidates = [os.environ.get("EPSILON_CHROMIUM"), *(shutil.which(name) for name in NAMES)]
    return next((path for path in candidates if path and starts(path)), None) or _find_playwrights()


def _find_playwrights() -> str | None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if starts(path) else None


def starts(path: str) -> bool:
    """Return whether the program prints its version; Ubuntu's chromium-browser without snap, for example, does not."""
    try:
        return subprocess.run([path, "--version"], capture_output=True, timeout=60, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def install() -> str | None:
    """Install Chromium, as root from Debian's package, else by Playwright; return its path, or None on failure."""
    if os.geteuid() == 0 and shutil.which("apt-get"):
        _run("apt-get", "update")
        _run("apt-get", "install", "--yes", "--no-install-recommends", "chromium")
        if path := find():
            return path
    _run(sys.executable, "-m", "playwright", "install", "chromium")
    return find()


def _run(*command: str) -> None:
    """Run an installer with its output on standard error, since standard output is for the path."""
    sys.stderr.write(f"Installing Chromium for the browser tests: {' '.join(command)}\n")
    subprocess.run(command, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False)


if __name__ == "__main__":
    sys.exit(main())
