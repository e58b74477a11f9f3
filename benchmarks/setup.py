"""Duration of the first installation: ``python -m benchmarks.setup [--no-cache] [--json] [--save]``.

Clones the committed state into a new folder, with a home of its own, calls `make run` there as a user does, and opens
the page in Chromium as soon as the server answers. The seconds of each part are those in the terminal. With
``--no-cache`` every file is downloaded; otherwise uv and pip use their caches.

The program's own share is the time from the packages to the first page: finding missing parts, starting the server,
rendering. The other parts are installed in the background.
"""

import argparse
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

from benchmarks.dashboard import FLAGS, seconds_until
from benchmarks.report import finish, markdown
from engine import setup_status
from engine.hardware import machine_class
from engine.settings import REPOSITORY
from tests.browser import chromium
from tests.browser.driving import answers

BEFORE = ("virtual environment", "packages")
"""Parts that are installed before the first page."""
BACKGROUND = (
    setup_status.VECTORS,
    setup_status.TRAINING,
    setup_status.TENSORFLOW,
    setup_status.LANGUAGE_MODEL,
    setup_status.MPNET,
    setup_status.E5,
)
DONE = "Set-up is done."
LIMIT = 3600
"""Timeout in seconds."""
_LINE = re.compile(r"^(?P<part>[\w -]+): (?:.*, )?(?P<seconds>[\d.]+) s$")


def clean_environment(home: Path, port: int, cached: bool) -> dict[str, str]:
    """Return the environment of a user without any settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("EPSILON_", "NUMBA_", "MAKE"))}
    kept.pop("VIRTUAL_ENV", None)
    fetched = {} if cached else {"PIP_NO_CACHE_DIR": "1", "UV_NO_CACHE": "1"}
    return kept | {"EPSILON_HOME": str(home), "PORT": str(port), "CI": "true"} | fetched


class Terminal:
    """Output of `make run`, with the seconds from its start to each line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.lines: list[tuple[float, str]] = []
        self._process, self._begun = process, time.monotonic()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self._process.stderr or ():
            self.lines.append((time.monotonic() - self._begun, line.rstrip()))
            sys.stderr.write(f"{self.lines[-1][0]:7.1f} {line}")

    def time_of(self, text: str) -> float | None:
        """Return the seconds to this line; None without it. Raises SystemExit if `make run` has ended."""
        seconds = next((at for at, line in list(self.lines) if line == text), None)
        if seconds is None and self._process.poll() is not None:
            raise SystemExit(f"`make run` ended with {self._process.returncode}.")
        return seconds

    def parts(self) -> dict[str, tuple[float, float]]:
        """Return the duration of each installed part in seconds, and the seconds from the start to its end."""
        matches = [(at, _LINE.match(line)) for at, line in list(self.lines)]
        return {match["part"]: (float(match["seconds"]), at) for at, match in matches if match}


def measure(cached: bool) -> dict[str, float]:
    """Return the seconds by name."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "clone"
        subprocess.run(["git", "clone", "--quiet", str(REPOSITORY), str(clone)], check=True)
        process = subprocess.Popen(
            ["make", "run"],
            cwd=clone,
            env=clean_environment(Path(folder) / "home", port, cached),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        begun, terminal = time.monotonic(), Terminal(process)
        try:
            address = f"http://localhost:{port}/"
            seconds_until(lambda: terminal.time_of("") or answers(f"{address}_stcore/health"), LIMIT)
            found = {"answers": time.monotonic() - begun}
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=chromium.find(), args=FLAGS.split())
                page = browser.new_page()
                page.set_default_timeout(1000 * LIMIT)
                page.goto(address)
                page.wait_for_selector("h3")
                found["page"] = time.monotonic() - begun
                seconds_until(lambda: terminal.time_of(DONE), LIMIT)
                page.locator(".st-key-set_up").wait_for(state="detached")
                found["sentence_gone"] = time.monotonic() - begun
                browser.close()
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGINT)
                process.wait(60)
    parts = terminal.parts()
    found |= {f"part: {name}": seconds for name, (seconds, _) in parts.items()}
    found["compiled"] = parts[setup_status.TRAINING][1]
    found["all"] = terminal.time_of(DONE) or 0.0
    found["own"] = found["page"] - sum(parts[name][0] for name in BEFORE)
    return {name: round(seconds, 1) for name, seconds in found.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-cache", action="store_true", help="download every file, without a cache")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--save", action="store_true", help="save the result")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    found = measure(cached=not options.no_cache)
    rows = [
        *((name, found[f"part: {name}"]) for name in BEFORE),
        *((f"{name}, in the background", found[f"part: {name}"]) for name in BACKGROUND),
        ("until the server answers", found["answers"]),
        ("until the first page is rendered", found["page"]),
        ("of which the program itself", found["own"]),
        ("until the training step is compiled", found["compiled"]),
        ("until installation is finished", found["all"]),
        ("until the page no longer shows the installation", found["sentence_gone"]),
    ]
    how = "every file downloaded" if options.no_cache else "files from the cache"
    text = markdown((f"{machine_class()}; load {load:.1f} before; {how}", "seconds"), rows)
    values = found | {"load_before": round(load, 1), "every_file_fetched": options.no_cache}
    finish("setup", values, text, as_json=options.json, save=options.save)


if __name__ == "__main__":
    main()
