"""Number of browser sessions that one server serves while they watch running runs: ``python -m benchmarks.sessions
[--sessions 5 10 25 50 100] [--minutes N] [--json] [--save]``.

For each size: a dashboard with a home of its own, four running runs, and this number of sessions
(:mod:`benchmarks.session_client`), a quarter of them at each run. Each session watches its run, and from time to time
moves the noise slider and moves it back. Printed are the time from the move until the script has ended, the server's
memory and its growth, its processor time, and all errors in the logs.

``--address`` measures an existing dashboard, for example several servers behind one address. Its runs must be submitted
from a shell, and its memory is not measured.
"""

import argparse
import asyncio
import random
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benchmarks.dashboard_process import Dashboard, dashboard
from benchmarks.report import finish, markdown
from benchmarks.session_client import Session
from engine.config import SimulationConfig, TrainingConfig
from engine.service import Application
from engine.settings import Settings

SIZES = (5, 10, 25, 50, 100)
RUNS = 4
WATCHES_SECONDS = 25.0
"""Mean seconds before a session moves the slider; it moves it back after a fifth of them."""
ARRIVE_SECONDS = 60.0
"""Seconds in which all sessions open, at most a quarter of the measured time."""
LOOK_SECONDS = 2.0
"""Seconds between two measurements of the server's memory."""
WARM = 0.25
"""Share of the time in which memory still grows by data that is loaded and cached once."""
SLIDER = "Noise multiplier σ"
_BAD = re.compile(r"Traceback|Error|Exception|Warning", re.IGNORECASE)
_KNOWN = re.compile(r"AuthlibDeprecationWarning|Port 8787 is already in use|warnings\.warn\(")
"""Harmless warnings, logged if another home on this machine has workers too."""


@dataclass
class Seen:
    """Measurements of one size.

    Attributes:
        sessions: Number of sessions.
        seconds: Duration of the measurement.
        took: Seconds of each interaction.
        opened: Seconds until each session was open.
        memory: Times and bytes of the server, [measurements, 2].
        processor: Processor seconds of the server.
        polls: Number of automatic requests of fragments.
        received: Number of received bytes.
        faults: Errors of sessions and logs.
    """

    sessions: int
    seconds: float = 0.0
    took: list[float] = field(default_factory=list)
    opened: list[float] = field(default_factory=list)
    memory: list[tuple[float, int]] = field(default_factory=list)
    processor: float = 0.0
    polls: int = 0
    received: int = 0
    faults: list[str] = field(default_factory=list)

    def growth(self) -> tuple[float, float]:
        """Return the kilobytes a minute after warm-up, and their standard error.

        Both are by least squares, as if the measurements were independent.
        """
        times, used = np.array(self.memory, dtype=float).reshape(-1, 2).T
        late = times >= times[0] + WARM * (times[-1] - times[0])
        minutes, kilobytes = (times[late] - times[late].mean()) / 60, used[late] / 1000
        slope = float(minutes @ kilobytes / (minutes @ minutes))
        left = kilobytes - kilobytes.mean() - slope * minutes
        return slope, float(np.sqrt(left @ left / (len(left) - 2) / (minutes @ minutes)))

    def values(self) -> dict[str, Any]:
        """Return plain fields, for saving.

        Raises:
            SystemExit: If no session moved its slider.
        """
        if not self.took:
            raise SystemExit(f"No session moved its slider within {self.seconds:.0f} s; choose more minutes.")
        fields = {
            "sessions": self.sessions,
            "interactions": len(self.took),
            "seconds_median": round(float(np.median(self.took)), 3),
            "seconds_p95": round(float(np.quantile(self.took, 0.95)), 3),
            "seconds_most": round(max(self.took), 3),
            "opened_seconds_median": round(float(np.median(self.opened)), 2),
            "polls_a_second": round(self.polls / self.seconds, 1),
            "kilobytes_a_second": round(self.received / self.seconds / 1000, 1),
            "faults": len(self.faults),
        }
        if self.memory:
            slope, error = self.growth()
            fields |= {
                "cores": round(self.processor / self.seconds, 2),
                "megabytes": round(self.memory[-1][1] / 1e6),
                "kilobytes_a_minute": round(slope),
                "kilobytes_a_minute_error": round(error),
            }
        return fields


def long_runs() -> list[SimulationConfig]:
    """Return configurations that take some hours and are not published."""
    return [SimulationConfig(training=TrainingConfig(epochs=100.0), seed=7000 + number) for number in range(RUNS)]


@contextmanager
def serving(home: Path, settings: Settings) -> Iterator[Dashboard]:
    """Yield a dashboard with running runs."""
    with dashboard(home) as started:
        app = Application(settings)
        submitted = [app.runs.submit(config, owner_pid=started.launcher.pid) for config in long_runs()]
        while not any(app.queries.rounds(status.run_id) for status in submitted):
            time.sleep(0.5)
        app.close()
        started.wait_until_idle()
        yield started


async def watch(address: str, number: int, end: float, seen: Seen) -> None:
    """Run one session.

    Args:
        address: Address of the dashboard.
        number: Number of the session, which determines its run and its random draws.
        end: Monotonic time at which the session ends.
        seen: The measurements, which the session adds to.
    """
    draws = random.Random(number)
    seed, own = long_runs()[number % RUNS].seed, "1"
    delay = draws.random() * min(ARRIVE_SECONDS, (end - time.monotonic()) / 4)
    await asyncio.sleep(delay)
    begun = time.perf_counter()
    async with Session(f"{address}/explore?corpus=synthetic&epochs=100&noise_multiplier={own}&seed={seed}") as session:
        seen.opened.append(time.perf_counter() - begun)
        others = [value for value in session.sliders[SLIDER][1] if value != own]
        at, polls, received = own, session.polls, session.received
        while True:
            wait = draws.expovariate(1 / WATCHES_SECONDS) if at == own else WATCHES_SECONDS / 5
            if time.monotonic() + wait > end:
                await asyncio.sleep(max(0.0, end - time.monotonic()))
                break
            await asyncio.sleep(wait)
            at = draws.choice(others) if at == own else own
            seen.took.append(await session.slide(SLIDER, at))
        seen.polls += session.polls - polls
        seen.received += session.received - received
    seen.faults += session.faults


async def measure(address: str, sessions: int, seconds: float, server: psutil.Process | None) -> Seen:
    """Measure parallel sessions.

    Args:
        address: Address of the dashboard.
        sessions: Number of sessions.
        seconds: Duration.
        server: The server process, or None if its memory cannot be measured.
    """
    seen = Seen(sessions)
    begun, before = time.monotonic(), sum(server.cpu_times()[:2]) if server else 0.0
    watching = [
        asyncio.create_task(watch(address, number, begun + seconds, seen), name=f"session {number}")
        for number in range(sessions)
    ]
    while any(not task.done() for task in watching):
        if server:
            seen.memory.append((time.monotonic(), server.memory_info().rss))
        await asyncio.wait(watching, timeout=LOOK_SECONDS)
    seen.seconds = time.monotonic() - begun
    seen.processor = (sum(server.cpu_times()[:2]) if server else 0.0) - before
    for task in watching:
        if error := task.exception():
            seen.faults.append(f"{task.get_name()}: {type(error).__name__}: {error}")
    return seen


def log_faults(*logs: Path) -> list[str]:
    """Return the lines of the logs with an error or a warning."""
    lines = [line for log in logs if log.exists() for line in log.read_text(errors="replace").splitlines()]
    return [line for line in lines if _BAD.search(line) and not _KNOWN.search(line)]


def measure_own(sessions: int, seconds: float, folder: Path) -> Seen:
    """Measure one size with a new dashboard, whose home is ``folder``."""
    settings = replace(Settings.from_environment(), home=folder, store_url=f"sqlite:///{folder / 'runs.sqlite'}")
    with serving(folder, settings) as started:
        seen = asyncio.run(measure(started.address, sessions, seconds, started.server))
        seen.faults += log_faults(started.log, folder / "cluster" / "log.txt")
    return seen


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--address", help="address of an existing dashboard where this benchmark's runs are running")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--save", action="store_true", help="save the result")
    options = parser.parse_args()
    rows = []
    for sessions in options.sessions:
        if options.address:
            seen = asyncio.run(measure(options.address.rstrip("/"), sessions, 60 * options.minutes, None))
        else:
            with tempfile.TemporaryDirectory() as folder:
                seen = measure_own(sessions, 60 * options.minutes, Path(folder))
        rows.append(seen.values())
        for fault in sorted(set(seen.faults))[:20]:
            sys.stderr.write(f"{sessions} sessions: {fault}\n")
        sys.stderr.write(f"{rows[-1]}\n")
    table = markdown(tuple(rows[0]), [tuple(row.values()) for row in rows])
    values = {"minutes": options.minutes, "sizes": rows}
    finish("sessions", values, table, as_json=options.json, save=options.save)


if __name__ == "__main__":
    main()
