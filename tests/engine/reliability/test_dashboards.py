"""Dashboards as `make run` starts them: two on one home, and processes killed during a run."""

import contextlib
import os
import random
import shlex
import signal
import subprocess
import sys
import time

import psutil
import pytest

from engine.cluster import supervisor
from engine.records import RunState
from engine.reports.cli_command import command_line
from engine.serve import SERVER
from tests.browser.driving import answers, free_port, wait_for
from tests.engine.reliability.disturbed import CONFIGS, ROOT, Watch, alone, kill

MOST_SECONDS = 300
VICTIMS = ("launcher", "server", "dispatcher", "worker")


@pytest.fixture(scope="module")
def undisturbed(encoded, tmp_path_factory):
    return alone(CONFIGS, tmp_path_factory.mktemp("undisturbed"), encoded)


@pytest.fixture
def dashboards(trained_settings):
    """Return a function that starts one more dashboard on the home; all of them end with the test."""
    started = []

    def start() -> Dashboard:
        started.append(Dashboard(trained_settings))
        return started[-1]

    yield start
    for dashboard in started:
        dashboard.end()
    supervisor.stop_cluster(trained_settings, os.getpid())


class Dashboard:
    """A process of engine.serve, and its Streamlit server."""

    def __init__(self, settings) -> None:
        port = free_port()
        variables = {"EPSILON_HOME": str(settings.home), "EPSILON_STORE_URL": "", "EPSILON_DATA_DIR": "", "CI": "true"}
        self.process = psutil.Popen(
            [sys.executable, "-m", "engine.serve"], cwd=ROOT, env=os.environ | variables | {"PORT": str(port)}
        )
        self.address = f"http://localhost:{port}/_stcore/health"
        wait_for(lambda: answers(self.address), MOST_SECONDS)
        wait_for(lambda: self.process.pid in supervisor.ClusterFiles(settings).living_owners(), MOST_SECONDS)
        wait_for(supervisor.ClusterFiles(settings).process, MOST_SECONDS)

    @property
    def server(self) -> psutil.Process:
        """The Streamlit process at this moment."""
        children = {child: child.cmdline() for child in self.process.children()}
        servers = [child for child, words in children.items() if SERVER in words]
        table = subprocess.run(["ps", "-eo", "pid,ppid,stat,lstart,args"], capture_output=True, text=True, check=True)
        assert len(servers) == 1, f"children of {self.process.pid}: {children}\n{table.stdout}"
        return servers[0]

    def end(self) -> None:
        """Send SIGINT, and kill processes that do not end."""
        family = [self.process]
        with contextlib.suppress(psutil.NoSuchProcess):
            family += [child for child in self.process.children() if SERVER in child.cmdline()]
            self.process.send_signal(signal.SIGINT)
        psutil.wait_procs(family, 30)
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self.process.wait()


def submit(settings, config) -> None:
    """Submit a run by the command line."""
    subprocess.run(
        [sys.executable, "-m", "engine", "submit", *shlex.split(command_line(config))[4:]],
        cwd=ROOT,
        env=os.environ | {"EPSILON_HOME": str(settings.home), "EPSILON_STORE_URL": "", "EPSILON_DATA_DIR": ""},
        check=True,
    )


@pytest.mark.repeats(area="processes")
def test_two_dashboards_share_a_cluster_and_killed_processes_start_again(dashboards, trained_settings, undisturbed):
    """Check the owners of a cluster, and the supervision of the server and of the cluster by the launcher.

    The cluster outlives the first dashboard and ends with the second. The server of the second, and then the cluster,
    are killed during a run.
    """
    first, second = dashboards(), dashboards()
    files, watch = supervisor.ClusterFiles(trained_settings), Watch(trained_settings, CONFIGS[:1])
    cluster = files.process()
    assert set(files.living_owners()) == {first.process.pid, second.process.pid}
    submit(trained_settings, CONFIGS[0])
    watch.until(2)
    first.end()
    watch.to_the_end(undisturbed)
    assert files.process() == cluster
    watch.close()

    watch = Watch(trained_settings, CONFIGS[1:])
    submit(trained_settings, CONFIGS[1])
    watch.until(2)
    killed = second.server
    killed.kill()
    wait_for(lambda: not killed.is_running(), MOST_SECONDS)
    wait_for(lambda: answers(second.address), MOST_SECONDS)
    assert files.process() == cluster
    cluster.kill()
    wait_for(lambda: files.process() not in (None, cluster), MOST_SECONDS)
    watch.to_the_end(undisturbed)
    assert {watch.runs.queries.status(identity).state for identity in watch.identities} == {RunState.DONE}
    watch.close()
    processes = [files.process(), *files.process().children(recursive=True)]
    second.end()
    _, left = psutil.wait_procs(processes, MOST_SECONDS)
    assert left == []


@pytest.mark.nightly
@pytest.mark.parametrize("moment", range(48))
def test_kill_of_any_process_of_a_dashboard_loses_no_record(dashboards, trained_settings, undisturbed, moment):
    """Two processes are killed during one run. If the launcher is one of them, all others end without it."""
    draws, files = random.Random(moment), supervisor.ClusterFiles(trained_settings)
    dashboard, watch = dashboards(), Watch(trained_settings, CONFIGS[:1])
    submit(trained_settings, CONFIGS[0])
    for victim in (VICTIMS[moment % len(VICTIMS)], draws.choice(VICTIMS)):
        watch.until(watch.seen() + draws.randrange(1, 5))
        time.sleep(draws.random() / 5)  # at a random time between two records
        wait_for(files.process, MOST_SECONDS)
        cluster = files.process()
        if victim == "launcher":
            processes = [dashboard.server, cluster, *cluster.children(recursive=True)]
            dashboard.process.kill()
            _, left = psutil.wait_procs(processes, MOST_SECONDS)
            assert left == []
            dashboard = dashboards()
        elif victim == "server":
            killed = dashboard.server
            killed.kill()
            psutil.wait_procs([killed], MOST_SECONDS)
            wait_for(lambda address=dashboard.address: answers(address), MOST_SECONDS)
        elif victim == "dispatcher":
            cluster.kill()
            wait_for(lambda before=cluster: files.process() not in (None, before), MOST_SECONDS)
        else:
            kill(trained_settings, "worker")
    watch.to_the_end(undisturbed)
    assert {watch.runs.queries.status(identity).state for identity in watch.identities} == {RunState.DONE}
    watch.close()
