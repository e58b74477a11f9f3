"""Dashboards as `make run` starts them, two on one home, and killed outright while a run is under way."""

import contextlib
import os
import shlex
import signal
import subprocess
import sys

import psutil
import pytest

from engine.cluster import supervisor
from engine.records import RunState
from engine.reports.cli_command import command_line
from tests.browser.driving import answers, free_port, wait_for
from tests.engine.reliability.disturbed import CONFIGS, ROOT, Watch, alone

MOST_SECONDS = 300


@pytest.fixture(scope="module")
def undisturbed(encoded, tmp_path_factory):
    return alone(CONFIGS, tmp_path_factory.mktemp("undisturbed"), encoded)


@pytest.fixture
def dashboards(trained_settings):
    """What starts one more dashboard on the home; all that is left of them ends with the test."""
    started = []

    def start() -> Dashboard:
        started.append(Dashboard(trained_settings))
        return started[-1]

    yield start
    for each in started:
        each.end()
    supervisor.stop_cluster(trained_settings, os.getpid())


class Dashboard:
    """engine.serve, and the server of pages that it has started."""

    def __init__(self, settings) -> None:
        port = free_port()
        here = {"EPSILON_HOME": str(settings.home), "EPSILON_STORE_URL": "", "EPSILON_DATA_DIR": "", "CI": "true"}
        self.process = psutil.Popen(
            [sys.executable, "-m", "engine.serve"], cwd=ROOT, env=os.environ | here | {"PORT": str(port)}
        )
        self.address = f"http://localhost:{port}/_stcore/health"
        wait_for(lambda: answers(self.address), MOST_SECONDS)
        wait_for(lambda: self.process.pid in supervisor.ClusterFiles(settings).living_owners(), MOST_SECONDS)
        wait_for(supervisor.ClusterFiles(settings).process, MOST_SECONDS)
        (self.server,) = (
            each for each in self.process.children() if "pages.startup.server" in " ".join(each.cmdline())
        )

    def end(self) -> None:
        """Ctrl-C, and outright whatever does not follow."""
        with contextlib.suppress(psutil.NoSuchProcess):
            self.process.send_signal(signal.SIGINT)
        psutil.wait_procs([self.process, self.server], 30)
        for each in (self.process, self.server):
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        self.process.wait()


def submitted(settings, config) -> None:
    """By a shell that nothing waits for."""
    subprocess.run(
        [sys.executable, "-m", "engine", "submit", *shlex.split(command_line(config))[4:]],
        cwd=ROOT,
        env=os.environ | {"EPSILON_HOME": str(settings.home), "EPSILON_STORE_URL": "", "EPSILON_DATA_DIR": ""},
        check=True,
    )


def test_two_on_one_home_share_a_cluster_and_a_third_goes_on_after_a_kill(dashboards, trained_settings, undisturbed):
    """The cluster outlives the first dashboard and ends with the second, whose server of pages is killed in the middle
    of a run; the third continues that run."""
    first, second = dashboards(), dashboards()
    place, watch = supervisor.ClusterFiles(trained_settings), Watch(trained_settings, CONFIGS[:1])
    cluster = place.process()
    family = [cluster, *cluster.children(recursive=True)]
    assert set(place.living_owners()) == {first.process.pid, second.process.pid}
    submitted(trained_settings, CONFIGS[0])
    watch.until(2)
    first.end()
    watch.to_the_end(undisturbed)
    assert place.process() == cluster
    watch.close()

    watch = Watch(trained_settings, CONFIGS[1:])
    submitted(trained_settings, CONFIGS[1])
    watch.until(2)
    second.server.kill()
    assert second.process.wait(MOST_SECONDS) != 0
    _, left = psutil.wait_procs(family, MOST_SECONDS)
    assert left == []
    third = dashboards()
    watch.to_the_end(undisturbed)
    assert {watch.runs.queries.status(each).state for each in watch.identities} == {RunState.DONE}
    assert answers(third.address)
    watch.close()


@pytest.mark.nightly
def test_a_run_goes_on_with_the_next_dashboard_after_the_launcher_is_killed(dashboards, trained_settings, undisturbed):
    dashboard, watch = dashboards(), Watch(trained_settings, CONFIGS[:1])
    cluster = supervisor.ClusterFiles(trained_settings).process()
    family = [cluster, *cluster.children(recursive=True)]
    submitted(trained_settings, CONFIGS[0])
    watch.until(2)
    dashboard.process.kill()
    _, left = psutil.wait_procs(family, MOST_SECONDS)  # without an owner
    assert left == []
    dashboards()
    watch.to_the_end(undisturbed)
    assert {watch.runs.queries.status(each).state for each in watch.identities} == {RunState.DONE}
    watch.close()
