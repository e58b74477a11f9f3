"""kill -9 at random moments: of a worker, the cluster process, what the app does.

What was shown once stays as it was shown, nothing is there twice, ε is never smaller than what was spent, and each run
comes to an end.
"""

import dataclasses
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from engine.cluster import dispatch
from engine.config import TrainingConfig
from engine.errors import EpsilonError
from engine.records import RoundRecord, RunState
from engine.runs import Runs
from engine.simulation import simulate
from tests.engine.runs_for_tests import SMALL

ROOT = Path(__file__).resolve().parents[3]
CONFIGS = [dataclasses.replace(SMALL, training=TrainingConfig(batch_size=8, epochs=8.0), seed=seed) for seed in (0, 1)]
APP = (
    "import json, os, sys\n"
    "from engine.config import SimulationConfig\n"
    "from engine.runs import Runs\n"
    "runs = Runs.from_environment()\n"
    "runs.resume(owner_pid=os.getpid())\n"
    "for line in sys.stdin:\n"
    "    runs.submit(SimulationConfig.from_dict(json.loads(line)), owner_pid=os.getpid())\n"
)
"""What the app does for its sessions, without the pages: takes up what waits, submits, and owns the cluster."""
MOMENTS = [*range(2), *(pytest.param(moment, marks=pytest.mark.nightly) for moment in range(2, 50))]


class App:
    def __init__(self, settings):
        environment = {"EPSILON_HOME": str(settings.home), "EPSILON_STORE_URL": settings.store_url}
        self.process = subprocess.Popen(
            [sys.executable, "-c", APP], cwd=ROOT, stdin=subprocess.PIPE, text=True, env=os.environ | environment
        )
        for config in CONFIGS:
            self.process.stdin.write(config.canonical_json() + "\n")
        self.process.stdin.flush()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="module")
def undisturbed(encoded, tmp_path_factory):
    """The records that each run has where nobody disturbs it, by seed."""
    from engine.settings import Settings

    home = tmp_path_factory.mktemp("undisturbed")
    for name in ("encoded", "vectors"):
        (encoded / name).mkdir(exist_ok=True)
        (home / name).symlink_to(encoded / name)
    settings = Settings(home=home, data_dir=None, store_url=f"sqlite:///{home / 'runs.sqlite'}")
    return {config.seed: comparable(simulate(config, settings)) for config in CONFIGS}


def comparable(records) -> list[RoundRecord]:
    return [dataclasses.replace(record, seconds=0.0) for record in records]


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_kill_at_any_moment_loses_nothing_that_was_shown(trained_settings, undisturbed, moment):
    story(trained_settings, undisturbed, moment)


def story(settings, undisturbed, moment: int) -> None:
    draws = random.Random(moment)
    victims = ["worker", "cluster", "app"]
    app, runs, shown = App(settings), Runs(settings), {}
    try:
        identities = {config.seed: runs.identity(config) for config in CONFIGS}
        for victim in (victims[moment % len(victims)], draws.choice(victims)):
            aim = draws.randrange(1, 12)
            end = time.monotonic() + 120
            while sum(map(len, shown.values())) < aim and time.monotonic() < end and not over(runs, identities):
                look(runs, identities, shown)
            time.sleep(draws.random() / 5)  # and somewhere between two records
            if victim == "app":
                app.end()
                app = App(settings)
            else:
                kill(settings, victim)
            if victim == "cluster":
                app.end()  # the next visit of the app starts it anew
                app = App(settings)
        end = time.monotonic() + 240
        while not over(runs, identities):
            look(runs, identities, shown)
            assert time.monotonic() < end, "a run has no end"
        for seed, identity in identities.items():
            run = runs.get(identity)
            assert run.status.state == RunState.DONE or run.status.error
            kept = comparable(run.records)
            assert kept == undisturbed[seed][: len(kept)], "each record once, ε as it was spent"
            assert [record for _, record in sorted(shown.get(identity, {}).items())] == list(
                run.records[: len(shown.get(identity, {}))]
            )
            if run.status.state == RunState.DONE:
                assert len(kept) == len(undisturbed[seed])
    finally:
        app.end()
        runs.close()
        dispatch.stop_cluster(settings, os.getpid())


def look(runs: Runs, identities, shown: dict[str, dict[int, RoundRecord]]) -> None:
    """As a page does; what was shown may not change. A database that is away is said, and asked again."""
    for identity in identities.values():
        try:
            for record in runs.rounds(identity):
                assert shown.setdefault(identity, {}).setdefault(record.round, record) == record
        except EpsilonError:
            continue
    time.sleep(0.02)


def over(runs: Runs, identities) -> bool:
    try:
        return all(runs.status(identity).state.final for identity in identities.values())
    except EpsilonError:  # not yet submitted, or the database is away
        return False


def kill(settings, victim: str) -> None:
    cluster = dispatch.Place(settings).process()
    if cluster is None:
        return
    children = cluster.children(recursive=True)
    chosen = [each for each in children if "spawn_main" in " ".join(each.cmdline())][:1]
    for process in chosen if victim == "worker" else [cluster]:
        process.send_signal(signal.SIGKILL)
