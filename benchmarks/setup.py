"""How long a first set-up takes: ``python -m benchmarks.setup [--no-cache] [--json] [--save]``.

Clones what is committed here into a fresh folder, with a home of its own, calls `make run` there as a user does, and
opens the page in Chromium as soon as the server answers. Seconds of each part are those that the terminal tells. With
``--no-cache`` pip fetches every file anew; without, it takes those that it has kept.

The program's own share is what lies between the packages and the first page: looking for what is missing, starting the
server, drawing. Set-up's other parts are made behind the page.
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

from benchmarks.dashboard import FLAGS, answers, seconds_until
from benchmarks.report import finish, markdown
from engine import setup_status
from engine.hardware import machine_class
from engine.settings import REPOSITORY
from tests.browser import chromium

BEFORE = ("virtual environment", "packages")
"""Parts that are made before there is a page."""
BEHIND = (
    setup_status.VECTORS,
    setup_status.TRAINING,
    setup_status.TENSORFLOW,
    setup_status.LANGUAGE_MODEL,
    setup_status.BYTE_CODE,
)
DONE = "Set-up is done."
LIMIT = 3600
"""Seconds."""
_LINE = re.compile(r"^(?P<part>[\w -]+): (?:.*, )?(?P<seconds>[\d.]+) s$")


def clean_environment(home: Path, port: int, cached: bool) -> dict[str, str]:
    """Return the environment of a user without any settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("EPSILON_", "NUMBA_", "MAKE"))}
    kept.pop("VIRTUAL_ENV", None)
    fetched = {} if cached else {"PIP_NO_CACHE_DIR": "1"}
    return kept | {"EPSILON_HOME": str(home), "PORT": str(port), "CI": "true"} | fetched


class Terminal:
    """What `make run` says, with the seconds from its start to each line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.lines: list[tuple[float, str]] = []
        self._process, self._begun = process, time.monotonic()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self._process.stderr or ():
            self.lines.append((time.monotonic() - self._begun, line.rstrip()))
            sys.stderr.write(f"{self.lines[-1][0]:7.1f} {line}")

    def said(self, text: str) -> float | None:
        """When the line was said; None if it was not. Raises SystemExit where nothing more will be said."""
        found = next((at for at, line in list(self.lines) if line == text), None)
        if found is None and self._process.poll() is not None:
            raise SystemExit(f"`make run` ended with {self._process.returncode}.")
        return found

    def parts(self) -> dict[str, tuple[float, float]]:
        """Of each part that is made: seconds that it took, and when it was done."""
        matches = [(at, _LINE.match(line)) for at, line in list(self.lines)]
        return {match["part"]: (float(match["seconds"]), at) for at, match in matches if match}


def measure(cached: bool) -> dict[str, float]:
    """Seconds by name."""
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
            seconds_until(lambda: terminal.said("") or answers(f"{address}_stcore/health"), LIMIT)
            found = {"answers": time.monotonic() - begun}
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=chromium.find(), args=FLAGS.split())
                page = browser.new_page()
                page.set_default_timeout(1000 * LIMIT)
                page.goto(address)
                page.wait_for_selector("h3")
                found["page"] = time.monotonic() - begun
                seconds_until(lambda: terminal.said(DONE), LIMIT)
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
    found["all"] = terminal.said(DONE) or 0.0
    found["own"] = found["page"] - sum(parts[name][0] for name in BEFORE)
    return {name: round(seconds, 1) for name, seconds in found.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-cache", action="store_true", help="fetch every file anew")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--save", action="store_true", help="save the result")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    found = measure(cached=not options.no_cache)
    rows = [
        *((name, found[f"part: {name}"]) for name in BEFORE),
        *((f"{name}, behind the page", found[f"part: {name}"]) for name in BEHIND),
        ("until the server answers", found["answers"]),
        ("until the first page is drawn", found["page"]),
        ("of these the program's own", found["own"]),
        ("until the training step is compiled", found["compiled"]),
        ("until all is done", found["all"]),
        ("until the page says so no more", found["sentence_gone"]),
    ]
    how = "every file fetched" if options.no_cache else "files that pip had kept"
    text = markdown((f"{machine_class()}; load {load:.1f} before; {how}", "seconds"), rows)
    values = found | {"load_before": round(load, 1), "every_file_fetched": options.no_cache}
    finish("setup", values, text, as_json=options.json, save=options.save)


if __name__ == "__main__":
    main()
