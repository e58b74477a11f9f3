"""The container image, built from ``docs/deploy/Containerfile`` and run rootless with a read-only root.

All tests share one build, which takes minutes. `make test` leaves them out; CI runs them by themselves.
"""

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from engine.config.encoder_registry import E5, MPNET
from tests.browser.chromium import in_ci
from tests.browser.driving import wait_for
from tests.image import recipe

pytestmark = [pytest.mark.repeats(area="image"), pytest.mark.timeout(3000)]
MOST_BYTES = 1_500_000_000
MOST_SECONDS = 300
PYTHON = "/opt/epsilon-explorer/.venv/bin/python"
VOLUME = "/var/lib/epsilon-explorer"
USER = 10001
RUN = "--corpus synthetic --data-fraction 0.05 --hidden-size 8 --batch-size 8 --noise-multiplier 1 --epochs 40".split()
"""A run of 40 records: seconds, and long enough for a signal between two of them."""


@pytest.fixture(scope="module", autouse=True)
def image() -> None:
    if lack := recipe.missing():
        (pytest.fail if in_ci() else pytest.skip)(f"building the image needs {lack}")
    recipe.build()


class Container:
    """A container whose only writable folders are its volume and /tmp."""

    def __init__(self, volume: Path, *arguments: str, options: tuple[str, ...] = (), network: str = "none") -> None:
        mounted = f"--volume={volume}:{VOLUME}"
        self.name = recipe.start(
            "--detach", mounted, *options, recipe.IMAGE, *arguments, network=network
        ).stdout.strip()
        self.look()

    def look(self) -> None:
        """Find the container's first process among those of this machine; it is a new one after each start."""
        self.first = psutil.Process(int(self.inspect("State.Pid")))

    def inspect(self, field: str) -> str:
        """Return a field of the container's state."""
        return recipe.podman("inspect", f"--format={{{{.{field}}}}}", self.name, capture_output=True).stdout.strip()

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the container."""
        return recipe.podman("exec", self.name, *command, capture_output=True, check=False)

    def engine(self, *arguments: str) -> Any:
        """Run the command line in the container; return its JSON."""
        done = self.run(PYTHON, "-m", "engine", *arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def state(self, identity: str) -> tuple[str, list[dict[str, Any]]]:
        """Return the state of a run, and its records without the measured times."""
        shown = self.engine("runs", "show", identity)
        return shown["state"], [
            {name: value for name, value in record.items() if name != "seconds"} for record in shown["records"]
        ]

    def answers(self) -> bool:
        """Return whether the dashboard answers a program that is not in the container but in its network."""
        script = "import sys, urllib.request as r; sys.exit(r.urlopen(sys.argv[1], timeout=5).read() != b'ok')"
        url = "http://localhost:8501/_stcore/health"
        within = ["nsenter", f"--net=/proc/{self.first.pid}/ns/net", "python3", "-c", script, url]
        return subprocess.run(within, capture_output=True, check=False).returncode == 0

    def processes(self) -> list[psutil.Process]:
        """Return all processes of the container, by their namespace."""
        own = os.readlink(f"/proc/{self.first.pid}/ns/pid")
        return [process for process in psutil.process_iter() if _namespace(process) == own]

    def terminate(self) -> tuple[int, float]:
        """Send SIGTERM to the first process; return its exit code and the seconds until no process is left."""
        family, begun = self.processes(), time.monotonic()
        self.first.send_signal(signal.SIGTERM)
        _, left = psutil.wait_procs(family, MOST_SECONDS)
        seconds = time.monotonic() - begun
        assert not left
        wait_for(lambda: self.inspect("State.Status") == "exited", MOST_SECONDS)
        return int(self.inspect("State.ExitCode")), seconds


def _namespace(process: psutil.Process) -> str:
    try:
        return os.readlink(f"/proc/{process.pid}/ns/pid")
    except OSError:
        return ""


@pytest.fixture
def volumes() -> Iterator[Callable[[], Path]]:
    """Return a function that makes an empty volume with the owner and mode of one that Kubernetes makes (fsGroup)."""
    made: list[Path] = []

    def make() -> Path:
        path = recipe.HOME / f"volume-{os.getpid()}-{len(made)}"
        made.append(path)
        recipe.podman("unshare", "sh", "-c", f"mkdir {path} && chown 0:{USER} {path} && chmod 2775 {path}")
        return path

    yield make
    for path in made:
        recipe.podman("unshare", "rm", "-rf", str(path))


@pytest.fixture
def containers(volumes) -> Iterator[Callable[..., Container]]:
    """Return a function that starts a container; all of them are removed at the end."""
    started: list[Container] = []

    def start(*arguments: str, **more: Any) -> Container:
        started.append(Container(more.pop("volume", None) or volumes(), *arguments, **more))
        return started[-1]

    yield start
    for container in reversed(started):
        recipe.podman("rm", "--force", "--time=0", container.name, stdout=subprocess.DEVNULL)


def test_image_is_small_and_lists_its_packages() -> None:
    """Compare the list with the packages that Python and Debian's tools find in the image."""
    assert recipe.size() <= MOST_BYTES
    listed = json.loads(recipe.start("--rm", "--entrypoint=cat", recipe.IMAGE, "sbom.json").stdout)
    assert listed["bomFormat"] == "CycloneDX"
    kinds = {(part["purl"].split("/")[0], part["name"].lower(), part["version"]) for part in listed["components"]}
    script = "import importlib.metadata as m; print(*(f'{d.name}=={d.version}' for d in m.distributions()))"
    python = recipe.start("--rm", f"--entrypoint={PYTHON}", recipe.IMAGE, "-c", script).stdout.lower().split()
    names = {(kind, re.sub("[-_.]+", "-", name), version) for kind, name, version in kinds if kind == "pkg:pypi"}
    found = {
        ("pkg:pypi", re.sub("[-_.]+", "-", name), version) for name, version in (each.split("==") for each in python)
    }
    assert found == names
    form = "--showformat=${Package} ${Version}\\n"
    debian = recipe.start("--rm", "--entrypoint=dpkg-query", recipe.IMAGE, "--show", form).stdout.splitlines()
    assert {("pkg:deb", *line.split()) for line in debian} == {each for each in kinds if each[0] == "pkg:deb"}
    assert {name for _, name, _ in kinds} >= {"numpy", "streamlit", "libc6", "python3.11"}


def test_run_survives_the_end_of_a_read_only_container(containers, volumes) -> None:
    """Check user, root file system and health; SIGTERM during a run ends all in order, and the run continues."""
    dashboard = containers(volume=volumes())
    wait_for(dashboard.answers, MOST_SECONDS)
    recipe.podman("healthcheck", "run", dashboard.name)
    assert dashboard.run("id", "--user").stdout.strip() == str(USER)
    assert len({process.uids() for process in dashboard.processes()}) == 1
    for place in ("/", "/opt/epsilon-explorer", "/opt/epsilon-explorer/engine/__pycache__", "/etc", "/var/lib"):
        assert "Read-only file system" in dashboard.run("touch", f"{place}/new").stderr
    identity = dashboard.engine("submit", *RUN)["run_id"]
    wait_for(lambda: len(dashboard.state(identity)[1]) >= 2, MOST_SECONDS)
    code, seconds = dashboard.terminate()
    assert (code, seconds < 10) == (0, True), f"exit code {code} after {seconds:.1f} s"

    recipe.podman("start", dashboard.name, stdout=subprocess.DEVNULL)
    dashboard.look()
    wait_for(dashboard.answers, MOST_SECONDS)
    state, before = dashboard.state(identity)
    assert state != "done"
    wait_for(lambda: dashboard.state(identity)[0] == "done", MOST_SECONDS)
    _, resumed = dashboard.state(identity)
    assert 2 <= len(before) < len(resumed)

    undisturbed = containers()
    wait_for(undisturbed.answers, MOST_SECONDS)
    assert undisturbed.engine("submit", *RUN)["run_id"] == identity
    wait_for(lambda: undisturbed.state(identity)[0] == "done", MOST_SECONDS)
    assert undisturbed.state(identity)[1] == resumed


def test_missing_parts_are_named(containers) -> None:
    """The small image has neither TensorFlow nor the two larger language models."""
    container = containers()
    for arguments, part in (
        (("env", "EPSILON_BACKEND=tensorflow", PYTHON, "-m", "engine", "train", *RUN), "needs TensorFlow"),
        ((PYTHON, "-m", "engine", "crosscheck", *RUN), "needs TensorFlow"),
        *(
            (
                (PYTHON, "-m", "engine", "train", *RUN, "--features", "layer", "--language-model", model),
                f"{model!r} is not installed",
            )
            for model in (MPNET, E5)
        ),
    ):
        done = container.run(*arguments)
        assert done.returncode != 0
        assert "Traceback" not in done.stderr
        assert part in re.sub(r"\s+", " ", done.stderr)


def test_every_role_ends_with_sigterm(containers, volumes) -> None:
    """A first process without a handler would ignore the signal."""
    volume, address = volumes(), "tls://127.0.0.1:8786"
    recipe.start(
        "--rm", f"--volume={volume}:{VOLUME}", recipe.IMAGE, "engine", "cluster", "key", f"{VOLUME}/cluster.pem"
    )
    options = (f"--env=EPSILON_CLUSTER_KEY={VOLUME}/cluster.pem", f"--env=EPSILON_SCHEDULER={address}")
    scheduler = containers("engine", "cluster", "scheduler", volume=volume, options=options)
    worker = containers(
        *("engine", "cluster", "worker", "--workers", "1"),
        volume=volume,
        options=options,
        network=f"container:{scheduler.name}",
    )
    wait_for(lambda: worker.engine("cluster", "show")["workers"], MOST_SECONDS)
    for container in (worker, scheduler):
        code, seconds = container.terminate()
        assert (code, seconds < 10) == (0, True), f"exit code {code} after {seconds:.1f} s"
