"""Runs that somebody disturbs: what the app does without its pages, what a page sees of it, and what must hold then.

What was shown once stays as it was shown, nothing is there twice, ε is never smaller than what was spent, and each run
comes to an end.
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
"""Until a run has ended, on a machine that is busy with other things too."""
APP = (
    "import json, os, sys\n"
    "from engine.config import SimulationConfig\n"
    "from engine.errors import StoreUnavailable\n"
    "from engine.service import Application\n"
    "app = Application.from_environment()\n"
    "def again(call):\n"
    "    while True:\n"
    "        try:\n"
    "            return call()\n"
    "        except StoreUnavailable:\n"
    "            pass\n"
    "again(lambda: app.runs.resume(owner_pid=os.getpid()))\n"
    "for line in sys.stdin:\n"
    "    config = SimulationConfig.from_dict(json.loads(line))\n"
    "    again(lambda: app.runs.submit(config, owner_pid=os.getpid()))\n"
)
"""What the app does for its sessions, without the pages: takes up what waits, submits, and owns the cluster. Where the
database is away it asks again, as people do."""


class App:
    """Submits the runs as it starts. environment: beside the settings'."""

    def __init__(self, settings: Settings, configs: Iterable[SimulationConfig], **environment: str) -> None:
        given = {"EPSILON_HOME": str(settings.home), "EPSILON_STORE_URL": settings.store_url} | environment
        self.process = subprocess.Popen(
            [sys.executable, "-c", APP], cwd=ROOT, stdin=subprocess.PIPE, text=True, env=os.environ | given
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
    """What somebody sees who looks at the runs all the time: what was shown may not change."""

    def __init__(self, settings: Settings, configs: Iterable[SimulationConfig]) -> None:
        self.runs = Application(settings)
        self.identities = {self.runs.queries.identity(config): config for config in configs}
        self.shown: dict[str, dict[int, RoundRecord]] = {identity: {} for identity in self.identities}

    def look(self) -> None:
        """As a page does; a database that is away is said, and asked again."""
        for identity, shown in self.shown.items():
            try:
                for record in self.runs.queries.rounds(identity):
                    assert shown.setdefault(record.round, record) == record
            except EpsilonError:
                continue
        time.sleep(0.1)

    def seen(self) -> int:
        """Records that were shown."""
        return sum(map(len, self.shown.values()))

    def over(self) -> bool:
        try:
            return all(self.runs.queries.status(identity).state.final for identity in self.identities)
        except EpsilonError:  # not yet submitted, or the database is away
            return False

    def until(self, records: int) -> None:
        """Look until so many records were shown, or all is over."""
        end = time.monotonic() + MOST_SECONDS
        while self.seen() < records and not self.over():
            self.look()
            assert time.monotonic() < end, "no record comes"

    def to_the_end(self, undisturbed: dict[int, list[RoundRecord]]) -> None:
        """Look until all is over, and hold what came of it against the runs that nobody disturbed, by seed."""
        end = time.monotonic() + MOST_SECONDS
        while not self.over():
            self.look()
            assert time.monotonic() < end, "a run has no end"
        for identity, config in self.identities.items():
            run, shown = self.runs.queries.get(identity), self.shown[identity]
            assert run.status.state == RunState.DONE or run.status.error
            kept, alone = comparable(run.records), undisturbed[config.seed]
            assert kept == alone[: len(kept)], "each record once, ε as it was spent"
            assert [record for _, record in sorted(shown.items())] == list(run.records[: len(shown)])
            if run.status.state == RunState.DONE:
                assert len(kept) == len(alone)

    def close(self) -> None:
        self.runs.close()


def alone(configs: Iterable[SimulationConfig], home: Path, encoded: Path) -> dict[int, list[RoundRecord]]:
    """The records that each run has where nobody disturbs it, by seed."""
    for name in ("encoded", "vectors"):
        (encoded / name).mkdir(exist_ok=True)
        (home / name).symlink_to(encoded / name)
    settings = Settings(home=home, data_dir=None, store_url=f"sqlite:///{home / 'runs.sqlite'}")
    return {config.seed: comparable(simulate(config, settings)) for config in configs}


def comparable(records: Iterable[RoundRecord]) -> list[RoundRecord]:
    return [dataclasses.replace(record, seconds=0.0) for record in records]


def workers(settings: Settings) -> list[psutil.Process]:
    """The processes that compute, those that ended left out."""
    cluster = supervisor.ClusterFiles(settings).process()
    found = []
    for each in cluster.children(recursive=True) if cluster else []:
        try:
            if "spawn_main" in " ".join(each.cmdline()):
                found.append(each)
        except psutil.Error:  # it has ended, and nobody has taken note of it yet
            continue
    return found


def kill(settings: Settings, victim: str) -> None:
    """kill -9 of a worker, or of the cluster process."""
    cluster = supervisor.ClusterFiles(settings).process()
    for process in workers(settings)[:1] if victim == "worker" else [cluster] if cluster else []:
        process.send_signal(signal.SIGKILL)
