"""Signed-in users on all pages of a dashboard.

``python -m benchmarks.mixed_load [--sessions 20 60] [--minutes N] [--loads N] [--servers N] [--json] [--save]``. One
dashboard, or several with one home behind nginx, require sign-in, at an identity provider on this machine. Each session
is another user, who signs in, opens a random page of the navigation, reads for half a minute on average, and opens the
next one. A fifth of the sessions stay on Explore and move a slider every ten seconds. A twentieth start a short run
there, and watch it.

The sessions are in one other process, which uses HTTP and Streamlit's messages (:mod:`benchmarks.mixed_load_client`).
Printed are the seconds of an answer for each page and action, the servers' memory for each session, their memory a
minute and a half after all sessions have left, and all errors. With several loads, one after another on the same
servers, the values are those of the last one, and the memory after each load is printed.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.dashboard_process import Dashboard, dashboard
from benchmarks.proxy import proxy
from benchmarks.report import finish, markdown
from benchmarks.sessions import log_faults
from engine.settings import REPOSITORY
from tests.browser.driving import free_port
from tests.provider import Provider

LEFT_SECONDS = 90.0
"""Seconds after the last session has left until memory is measured."""
LOOK_SECONDS = 1.0
"""Seconds between two measurements of the server's memory."""


@contextmanager
def serving(home: Path, sessions: int, servers: int = 1) -> Iterator[tuple[str, list[Dashboard]]]:
    """Yield the address and the dashboards, with sign-in for this number of users."""
    port, access = free_port(), home / "access.toml"
    people = {
        f"user {number}": {"sub": str(number), "email": f"user{number}@example.org", "email_verified": True}
        for number in range(sessions)
    }
    with Provider(people) as provider, ExitStack() as stack:
        roles = '[people]\nadmin = ["admin@example.org"]\nrunner = ["*"]\n'
        access.write_text(provider.secrets_file(f"http://localhost:{port}/oauth2callback") + roles)
        access.chmod(0o600)
        variables = {"EPSILON_ACCESS_FILE": str(access)}
        ports = [port] if servers == 1 else [free_port() for _ in range(servers)]
        started = [stack.enter_context(dashboard(home, each, variables)) for each in ports]
        address = started[0].address
        if servers > 1:  # by address: a name may have two, and a session must stay with one server
            address = stack.enter_context(proxy(home, port, [f"127.0.0.1:{each}" for each in ports]))
        yield address, started


def measure(
    sessions: int, seconds: float, home: Path, servers: int, loads: int
) -> tuple[dict[str, Any], dict[str, list[float]], list[str]]:
    """Measure one number of sessions with new dashboards.

    Returns:
        Values of the servers, the seconds of the answers by page or action, and the errors.
    """
    command = [sys.executable, "-m", "benchmarks.mixed_load_client"]
    with serving(home, sessions, servers) as (address, started):

        def memory() -> int:
            return sum(int(each.server.memory_info().rss) for each in started)

        def processor_seconds() -> float:
            return float(sum(sum(each.server.cpu_times()[:2]) for each in started))

        for each in started:
            each.wait_until_idle()
        # One session first: what is loaded once, and kept for all, is not memory of a session.
        left: list[int] = []
        faults: list[str] = []
        for number, duration in ((1, 30.0), *[(sessions, seconds)] * loads):
            before, processor, most = memory(), processor_seconds(), 0
            with (home / "answers.json").open("w+") as output:
                client = subprocess.Popen(
                    [*command, address, "--sessions", str(number), "--seconds", str(duration)],
                    cwd=REPOSITORY,
                    stdout=output,
                )
                while client.poll() is None:
                    most = max(most, memory())
                    time.sleep(LOOK_SECONDS)
                output.seek(0)
                seen = json.load(output)
            faults += seen["faults"]
            processor = processor_seconds() - processor
            time.sleep(LEFT_SECONDS)
            left.append(memory())
        logs = [each.log for each in started]
        faults += log_faults(*logs, home / "cluster" / "log.txt")
    every = [each for times in seen["took"].values() for each in times]
    if not every:
        raise SystemExit("\n".join(faults))
    values = {
        "servers": servers,
        "sessions": sessions,
        "answers": len(every),
        "seconds_median": round(float(np.median(every)), 2),
        "seconds_p95": round(float(np.quantile(every, 0.95)), 2),
        "seconds_most": round(max(every), 2),
        "cores": round(processor / seconds, 2),
        "megabytes_a_session": round((most - before) / sessions / 1e6, 1),
        "megabytes_a_session_after": round((left[-1] - before) / sessions / 1e6, 1),
        "megabytes_after_each_load": [round(each / 1e6) for each in left],
        "faults": len(faults),
    }
    return values, seen["took"], faults


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, nargs="+", default=[60])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--loads", type=int, default=1, help="number of loads on the same servers")
    parser.add_argument("--servers", type=int, default=1, help="number of dashboards; more than one need nginx")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--save", action="store_true", help="save the result")
    options = parser.parse_args()
    rows, pages = [], []
    for sessions in options.sessions:
        with tempfile.TemporaryDirectory() as folder:
            values, took, faults = measure(sessions, 60 * options.minutes, Path(folder), options.servers, options.loads)
        rows.append(values)
        for name, times in sorted(took.items()):
            p95 = round(float(np.quantile(times, 0.95)), 2)
            pages.append((sessions, name, len(times), round(float(np.median(times)), 2), p95))
        for fault in sorted(set(faults))[:20]:
            sys.stderr.write(f"{sessions} sessions: {fault}\n")
    table = markdown(tuple(rows[0]), [tuple(row.values()) for row in rows])
    table += "\n\n" + markdown(("sessions", "page or action", "answers", "seconds_median", "seconds_p95"), pages)
    values = {"minutes": options.minutes, "sizes": rows, "pages": pages}
    finish("mixed_load", values, table, as_json=options.json, save=options.save)


if __name__ == "__main__":
    main()
