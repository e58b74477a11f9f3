"""A cluster of five machines: database, scheduler, two workers and an app, each with its own home and network.

They share a folder for the files of runs, like a network drive.
"""

import dataclasses
import json
import shlex
import socket
import ssl
import stat
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from engine.cluster import remote_workers, supervisor
from engine.config import SimulationConfig, TrainingConfig
from engine.errors import ClusterError, InvalidConfig
from engine.records import RunState
from engine.reports.cli_command import command_line
from engine.settings import REPOSITORY, Settings
from engine.simulation.run import simulate
from engine.store.run_store import RunStore
from tests import postgresql
from tests.engine.factories import SMALL
from tests.hosts import Host, hosts

LONG = dataclasses.replace(SMALL, training=TrainingConfig(batch_size=8, epochs=80.0))
OLD = """
import sys
import engine
engine.VERSION = "0.1.0"
from engine.cli.main import main
sys.argv = ["engine", "cluster", "worker", "--workers", "1"]
sys.exit(main())
"""
MOST_SECONDS = 300


def wait_for(condition: Callable[[], object], site: "Site") -> None:
    end = time.monotonic() + MOST_SECONDS
    while not condition():
        assert time.monotonic() < end, site.logs()
        time.sleep(0.2)


@dataclass
class Site:
    """Five machines, the environment variables of all, and the store."""

    machines: dict[str, Host]
    environment: dict[str, str]
    store: RunStore

    def engine(self, name: str, *words: str) -> str:
        """Return the output of a command on a machine."""
        done = self.machines[name].ask([sys.executable, "-m", "engine", *words], self.environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def begin(self, name: str, *words: str) -> None:
        """Start a command that does not end."""
        self.machines[name].start([sys.executable, "-m", "engine", *words], self.environment)

    def submit(self, config: SimulationConfig) -> str:
        """Submit a run from the app's machine and return its identity."""
        words = shlex.split(command_line(config))[4:]
        return json.loads(self.engine("app", "submit", *words, "--json"))["run_id"]

    def workers(self) -> list[str]:
        """Return the machines with a worker of this version that the scheduler knows."""
        return sorted(self.doing())

    def doing(self) -> dict[str, str]:
        """Return the activity of the worker on each machine."""
        rows = json.loads(self.engine("app", "cluster", "show", "--json"))["workers"]
        by_address = {host.address: name for name, host in self.machines.items()}
        return {by_address[row["address"].split("/")[2].rsplit(":")[0]]: row["doing"] for row in rows if row["fits"]}

    def logs(self) -> str:
        """Return the logs of all machines, for the message of a failed test."""
        return "\n".join(
            f"{each}:\n{each.log.read_text()[-3000:]}" for each in self.machines.values() if each.log.exists()
        )


@pytest.fixture
def site(tmp_path, postgresql_server, monkeypatch):
    monkeypatch.chdir(REPOSITORY)
    with hosts(("db", "sched", "one", "two", "app"), tmp_path) as machines:
        db = machines["db"]
        with postgresql.running(db.address, db.within) as server:
            key, shared = tmp_path / "key.pem", tmp_path / "shared"
            remote_workers.make_key(key)
            shared.mkdir()
            url = server.fresh()
            environment = {
                "EPSILON_STORE_URL": url,
                "EPSILON_ARTEFACTS": str(shared),
                "EPSILON_CLUSTER_KEY": str(key),
                "EPSILON_SCHEDULER": f"tls://{machines['sched'].address}:{remote_workers.PORT}",
                "EPSILON_DATA_DIR": "",
            }
            store = RunStore(url)
            yield Site(machines, environment, store)
            store.close()


def test_warm_up_is_not_idle():
    assert remote_workers.doing([]) == "idle"
    assert remote_workers.doing(["1a2b-app/7-1"]) == "computing a run"
    assert remote_workers.doing([f"{remote_workers.WARM}tls://10.0.0.4:4711", "1a2b-app/7-1"]).startswith("warming up")


@pytest.mark.nightly
@pytest.mark.timeout(1500)
def test_runs_survive_disconnected_machines(site, trained_settings):
    site.begin("sched", "cluster", "scheduler", "--host", site.machines["sched"].address)
    for name in ("one", "two"):
        site.begin(name, "cluster", "worker", "--workers", "1")
    wait_for(lambda: site.workers() == ["one", "two"], site)

    old = site.machines["app"].ask([sys.executable, "-c", OLD], site.environment)
    assert old.returncode == 2
    served, _, client = old.stderr.partition("this is")
    assert remote_workers.OURS in served
    assert all(part in client for part in (" 0.1.0 (engine ", "one version"))

    configs = [dataclasses.replace(LONG, seed=seed) for seed in (0, 1)]
    first, second = (site.submit(config) for config in configs)
    wait_for(lambda: all(len(site.store.records(run_id)) >= 2 for run_id in (first, second)), site)
    assert site.doing() == dict.fromkeys(("one", "two"), "computing a run")
    site.machines["one"].cut_off()
    try:
        wait_for(lambda: all(site.store.status(run_id).state == RunState.DONE for run_id in (first, second)), site)
    finally:
        site.machines["one"].bring_back()
    for run_id, config in zip((first, second), configs, strict=True):
        stored = [dataclasses.replace(record, seconds=0.0) for record in site.store.records(run_id)]
        expected = [dataclasses.replace(record, seconds=0.0) for record in simulate(config, trained_settings)]
        assert stored == expected  # no record is lost or duplicated, and ε is equal
    wait_for(lambda: site.workers() == ["one", "two"], site)

    site.machines["two"].cut_off()
    third = site.submit(dataclasses.replace(SMALL, seed=2))
    wait_for(lambda: site.store.status(third).state == RunState.DONE, site)
    site.machines["two"].bring_back()
    homes = {name: {each.name for each in host.home.iterdir()} for name, host in site.machines.items()}
    assert "runs.sqlite" not in set().union(*homes.values())


def answered(host: str, port: int, context: ssl.SSLContext | None) -> bool:
    """Return whether a scheduler, which speaks first, answers a client with this TLS context (None: without TLS)."""
    with socket.create_connection((host, port), timeout=10) as plain:
        try:
            if context is None:
                plain.sendall(bytes(64))
                return plain.recv(1) not in (b"", b"\x15")  # a TLS alert is not an answer
            context.check_hostname = False
            with context.wrap_socket(plain) as secured:
                return bool(secured.recv(1))
        except OSError:  # includes ssl.SSLError
            return False


class TestClusterKey:
    @pytest.fixture
    def key(self, tmp_path) -> Path:
        path = tmp_path / "key.pem"
        remote_workers.make_key(path)
        return path

    @pytest.fixture
    def joined(self, settings, key) -> Settings:
        return dataclasses.replace(settings, scheduler="tls://127.0.0.1:1", cluster_key=key)

    def test_key_file_is_private_and_never_overwritten(self, key):
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
        before = key.read_bytes()
        with pytest.raises(InvalidConfig, match="exists already"):
            remote_workers.make_key(key)
        assert key.read_bytes() == before

    def test_a_key_readable_by_others_is_refused(self, joined, key):
        key.chmod(0o640)
        with pytest.raises(InvalidConfig, match="chmod 600"):
            remote_workers.security(joined)

    @pytest.mark.parametrize("text", ["", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
    def test_an_invalid_or_missing_key_is_refused(self, joined, key, text):
        key.write_text(text)
        with pytest.raises(InvalidConfig, match=f"EPSILON_CLUSTER_KEY={key} contains no valid cluster key"):
            remote_workers.security(joined)
        key.unlink()
        with pytest.raises(InvalidConfig, match="contains no valid cluster key"):
            remote_workers.security(joined)

    def test_scheduler_refuses_another_key_and_no_key(self, joined, key, tmp_path, monkeypatch):
        from distributed import LocalCluster

        monkeypatch.setattr(remote_workers, "_CONNECT_SECONDS", 2)
        security = remote_workers.security(joined)
        with LocalCluster(
            n_workers=1, processes=False, security=security, host="127.0.0.1", protocol="tls", dashboard_address=None
        ) as cluster:
            ours = dataclasses.replace(joined, scheduler=cluster.scheduler_address)
            with remote_workers.connect(ours) as client:
                assert client.submit(sum, [1, 2]).result() == 3
                assert remote_workers.members(client) == {}  # its worker does not announce this version
            other = tmp_path / "other.pem"
            remote_workers.make_key(other)
            with pytest.raises(ClusterError, match="another key"):
                remote_workers.connect(dataclasses.replace(ours, cluster_key=other))
            host, port = ours.scheduler.removeprefix("tls://").split(":")
            with_key, without = (ssl.create_default_context(cafile=str(key)) for _ in range(2))
            with_key.load_cert_chain(key)
            assert answered(host, int(port), with_key)
            assert not answered(host, int(port), without)
            assert not answered(host, int(port), None)

    @pytest.mark.repeats(area="processes")
    def test_an_unreachable_scheduler_raises_cluster_error(self, joined):
        joined.home.mkdir()
        with pytest.raises(ClusterError) as error:
            supervisor.ensure_cluster(joined)
        message = str(error.value)
        assert all(
            part in message for part in ("cannot start", "EPSILON_SCHEDULER=tls://127.0.0.1:1 ", "does not answer")
        )

    @pytest.mark.parametrize("text", [None, "", "[]", "{}", '{"address": 1}', '{"address": "tcp://127.0.0.1:1"}'])
    def test_an_invalid_or_missing_scheduler_file_raises_cluster_error(self, joined, tmp_path, text):
        file = tmp_path / "scheduler.json"
        if text is not None:
            file.write_text(text)
        with pytest.raises(ClusterError, match=rf"EPSILON_SCHEDULER={file}.*scheduler's file"):
            remote_workers.connect(dataclasses.replace(joined, scheduler=str(file)))
