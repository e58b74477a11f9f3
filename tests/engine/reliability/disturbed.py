"""Runs under fault injection: the app without pages, an observer like a page, and the invariants.

Records that were shown once do not change, no record exists twice, ε is never below the ε spent, and each run ends.
"""

import dataclasses
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import psutil

from engine.cluster import supervisor
from engine.config import SimulationConfig, TrainingConfig
from engine.errors import EpsilonError
from engine.records import RoundRecord, RunState
from engine.service import Application
from engine.settings import Settings
from engine.simulation.run import simulate
from tests.engine.factories import SMALL

ROOT = Path(__file__).resolve().parents[3]
CONFIGS = [dataclasses.replace(SMALL, training=TrainingConfig(batch_size=8, epochs=8.0), seed=seed) for seed in (0, 1)]
LONG = [dataclasses.replace(config, training=TrainingConfig(batch_size=8, epochs=40.0)) for config in CONFIGS]
MOST_SECONDS = 240
"""Time limit for a run on a busy machine, in seconds."""
APP = (
    "import json, os, sys\n"
    "from engine.config import SimulationConfig\n"
    "from engine.errors import StoreUnavailable\n"
    "from engine.service import Application\n"
    "app = Application.from_environment()\n"
    "def retry(call):\n"
    "    while True:\n"
    "        try:\n"
    "            return call()\n"
    "        except StoreUnavailable:\n"
    "            pass\n"
    "retry(lambda: app.runs.resume(owner_pid=os.getpid()))\n"
    "for line in sys.stdin:\n"
    "    config = SimulationConfig.from_dict(json.loads(line))\n"
    "    retry(lambda: app.runs.submit(config, owner_pid=os.getpid()))\n"
)
"""The app without pages: it resumes queued runs, submits runs and owns the cluster, and retries while the database is
unavailable, as users do."""


class App:
    """An app process that submits these runs at its start.

    Args:
        settings: settings with the home and the database.
        configs: configurations of the runs.
        environment: further environment variables.
    """

    def __init__(self, settings: Settings, configs: Iterable[SimulationConfig], **environment: str) -> None:
        variables = {"EPSILON_HOME": str(settings.home), "EPSILON_STORE_URL": settings.store_url} | environment
        self.process = subprocess.Popen(
            [sys.executable, "-c", APP], cwd=ROOT, stdin=subprocess.PIPE, text=True, env=os.environ | variables
        )
        for config in configs:
            self.submit(config)

    def submit(self, config: SimulationConfig) -> None:
        self.process.stdin.write(config.canonical_json() + "\n")
        self.process.stdin.flush()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


class Watch:
    """An observer that polls the runs: a record that was shown may not change."""

    def __init__(self, settings: Settings, configs: Iterable[SimulationConfig]) -> None:
        self.runs = Application(settings)
        self.identities = {self.runs.queries.identity(config): config for config in configs}
        self.shown: dict[str, dict[int, RoundRecord]] = {identity: {} for identity in self.identities}

    def look(self) -> None:
        """Read all records, as a page does; ignore an unavailable database, as the next call retries."""
        for identity, shown in self.shown.items():
            try:
                for record in self.runs.queries.rounds(identity):
                    assert shown.setdefault(record.round, record) == record
            except EpsilonError:
                continue
        time.sleep(0.1)

    def seen(self) -> int:
        """Return the number of records that were shown."""
        return sum(map(len, self.shown.values()))

    def over(self) -> bool:
        """Return whether all runs have ended."""
        try:
            return all(self.runs.queries.status(identity).state.final for identity in self.identities)
        except EpsilonError:  # not yet submitted, or the database is unavailable
            return False

    def until(self, records: int) -> None:
        """Poll until so many records were shown, or all runs have ended."""
        end = time.monotonic() + MOST_SECONDS
        while self.seen() < records and not self.over():
            self.look()
            assert time.monotonic() < end, "no record within the time limit"

    def to_the_end(self, undisturbed: dict[int, list[RoundRecord]]) -> None:
        """Poll until all runs have ended, and compare them with the undisturbed runs, by seed."""
        end = time.monotonic() + MOST_SECONDS
        while not self.over():
            self.look()
            assert time.monotonic() < end, "a run did not end within the time limit"
        for identity, config in self.identities.items():
            run, shown = self.runs.queries.get(identity), self.shown[identity]
            assert run.status.state == RunState.DONE or run.status.error
            kept, alone = comparable(run.records), undisturbed[config.seed]
            assert kept == alone[: len(kept)], "each record exists once, with the ε spent"
            assert [record for _, record in sorted(shown.items())] == list(run.records[: len(shown)])
            if run.status.state == RunState.DONE:
                assert len(kept) == len(alone)

    def close(self) -> None:
        self.runs.close()


def alone(configs: Iterable[SimulationConfig], home: Path, encoded: Path) -> dict[int, list[RoundRecord]]:
    """Return the records of the undisturbed runs, by seed."""
    for name in ("encoded", "vectors"):
        (encoded / name).mkdir(exist_ok=True)
        (home / name).symlink_to(encoded / name)
    settings = Settings(home=home, data_dir=None, store_url=f"sqlite:///{home / 'runs.sqlite'}")
    return {config.seed: comparable(simulate(config, settings)) for config in configs}


def comparable(records: Iterable[RoundRecord]) -> list[RoundRecord]:
    """Return the records without their durations."""
    return [dataclasses.replace(record, seconds=0.0) for record in records]


def workers(settings: Settings) -> list[psutil.Process]:
    """Return the running worker processes."""
    cluster = supervisor.ClusterFiles(settings).process()
    processes = []
    for process in cluster.children(recursive=True) if cluster else []:
        try:
            if "spawn_main" in " ".join(process.cmdline()):
                processes.append(process)
        except psutil.Error:  # a zombie process
            continue
    return processes


def kill(settings: Settings, victim: str) -> None:
    """Kill a worker or the cluster process with SIGKILL."""
    cluster = supervisor.ClusterFiles(settings).process()
    for process in workers(settings)[:1] if victim == "worker" else [cluster] if cluster else []:
        process.send_signal(signal.SIGKILL)
