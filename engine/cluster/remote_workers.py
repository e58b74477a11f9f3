"""Who belongs to a cluster of several machines: all that hold its key, and compute as this version does.

A Dask scheduler has code run for whoever can talk to it, so nobody may who has not the key: a self-signed certificate
and its private key in one file, which the scheduler, every worker and every dashboard show each other (TLS, both ways).
"""

import asyncio
import json
import logging
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine import PLAIN_VERSION, PRIVATE_VERSION, VERSION
from engine.errors import ClusterError, InvalidConfig
from engine.settings import Settings

if TYPE_CHECKING:
    from distributed import Client, Security

RESOURCE = f"epsilon-explorer-{VERSION}-{PRIVATE_VERSION}-{PLAIN_VERSION}"
"""What a worker of this version has one of, and a run of this version takes: none is given to another one."""
NAME = "epsilon-explorer"
"""Under which a scheduler keeps the version of those who came first."""
OURS = f"Epsilon Explorer {VERSION} (engine {PRIVATE_VERSION} with noise, {PLAIN_VERSION} without)"
WARM = "warm-"
"""How the names of tasks begin by which workers get ready; other tasks are runs."""
PORT = 8786
_DAYS = 3650
_CONNECT_SECONDS = 10
_INSIDE = "127.0.0.1:0"
"""Where Dask puts its pages, which cannot be left out: on a free port of the machine itself, and there are none."""


def make_key(path: Path) -> None:
    """Write the key of a new cluster, readable by its owner alone. Raises InvalidConfig where something is there, or
    it cannot be written."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))  # clocks differ
        .not_valid_after(now + timedelta(days=_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(private + certificate.public_bytes(serialization.Encoding.PEM))
    except FileExistsError as error:
        raise InvalidConfig(f"key={path} is there already: a cluster's key is not written over") from error
    except OSError as error:
        raise InvalidConfig(f"key={path} cannot be written: {error.strerror}") from error


def security(settings: Settings) -> "Security":
    """What the members show each other. Raises InvalidConfig for a key that is none, or that others may read."""
    import ssl

    from distributed import Security

    path = settings.cluster_key
    if path is None:
        raise InvalidConfig("EPSILON_CLUSTER_KEY is not set, expected the file that `cluster key` made")
    try:
        others = path.stat().st_mode & 0o077
        ssl.create_default_context(cafile=str(path)).load_cert_chain(path)
    except (OSError, ssl.SSLError) as error:
        raise InvalidConfig(f"EPSILON_CLUSTER_KEY={path} holds no key of a cluster: {error}") from error
    if others:
        raise InvalidConfig(f"EPSILON_CLUSTER_KEY={path} may be read by others, who could have code run: chmod 600 it")
    roles = {f"tls_{role}_{part}": str(path) for role in ("client", "scheduler", "worker") for part in ("key", "cert")}
    return Security(require_encryption=True, tls_ca_file=str(path), **roles)


def connect(settings: Settings) -> "Client":
    """A connection to the scheduler of the settings. Raises ClusterError where none answers to this key, InvalidConfig
    where it serves another version, or what is set is no use."""
    from distributed import Client

    address, shown = _address(settings), security(settings)  # what they refuse is a ValueError, and no silence
    try:
        client = Client(address, security=shown, timeout=_CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ClusterError(f"EPSILON_SCHEDULER={settings.scheduler} does not answer, or has another key.") from error
    theirs = client.get_metadata([NAME], default=None)
    if theirs is None:
        client.set_metadata([NAME], OURS)
    elif theirs != OURS:
        client.close()
        raise InvalidConfig(
            f"EPSILON_SCHEDULER={settings.scheduler} serves {theirs}, this is {OURS}: bring all machines to one version"
        )
    return client


def _address(settings: Settings) -> str:
    """Where the scheduler is, read anew each time from a file that says so: Dask would wait for one that is not there
    without a word, and would not see that a new scheduler has written it. Raises InvalidConfig, ClusterError."""
    if settings.scheduler is None:
        raise InvalidConfig("EPSILON_SCHEDULER is not set, expected tls://HOST:PORT or a scheduler's file")
    if settings.scheduler.startswith("tls://"):
        return settings.scheduler
    try:
        address = json.loads(Path(settings.scheduler).expanduser().read_bytes())["address"]
        if not str(address).startswith("tls://"):
            raise ValueError
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ClusterError(
            f"EPSILON_SCHEDULER={settings.scheduler} is no scheduler's file yet, or cannot be read."
        ) from error
    return str(address)


def members(client: "Client") -> dict[str, Mapping[str, Any]]:
    """What Dask tells of the workers of this version, by address; one question to the scheduler. Empty where it is
    away."""
    with suppress(OSError, TimeoutError):
        workers = client.scheduler_info()["workers"]
        return {address: each for address, each in workers.items() if each.get("resources", {}).get(RESOURCE)}
    return {}


def doing(tasks: Sequence[str]) -> str:
    """What a worker with these tasks is at. The scheduler knows them at once; what workers tell themselves comes late
    while they compile."""
    if any(task.startswith(WARM) for task in tasks):
        return "gets ready: compiles what runs need"
    return "computes a run" if tasks else "idle"


async def schedule(settings: Settings, host: str, port: int, file: Path | None, say: Callable[[str], None]) -> None:
    """Be the scheduler until cancelled. Raises InvalidConfig, and ClusterError where nothing can listen there."""
    from distributed import Scheduler

    try:
        scheduler = Scheduler(
            host=host,
            port=port,
            protocol="tls",
            security=security(settings),
            dashboard=False,
            dashboard_address=_INSIDE,
            scheduler_file=str(file) if file else None,
        )
        async with scheduler:
            scheduler.task_metadata[NAME] = OURS
            say(f"Scheduling at {scheduler.address} for all who have the key. Ctrl-C ends it.")
            await scheduler.finished()
    except OSError as error:
        raise ClusterError(f"Nothing can listen at {host}:{port}: {error.strerror or error}.") from error


async def work(settings: Settings, workers: int, limits: Mapping[str, str], say: Callable[[str], None]) -> None:
    """Be so many workers, processes of their own, until cancelled; come back whenever the scheduler does. limits:
    environment variables of each. Raises InvalidConfig, for a cluster of another version too."""
    told = ""
    while True:
        try:
            with await asyncio.to_thread(connect, settings):
                pass
        except ClusterError as error:
            if str(error) != told:
                say(f"{error} Trying again and again.")
                told = str(error)
            await asyncio.sleep(1)
            continue
        told = ""
        await _work_once(settings, workers, limits, say)


async def _work_once(settings: Settings, workers: int, limits: Mapping[str, str], say: Callable[[str], None]) -> None:
    from distributed import Nanny

    try:
        address = _address(settings)
    except ClusterError:  # it was there a moment ago: asked again by whoever called
        return
    made = [
        Nanny(
            address,
            nthreads=1,
            name=f"{socket.gethostname()}/{os.getpid()}/{number}",
            security=security(settings),
            protocol="tls",
            resources={RESOURCE: 1},
            memory_limit=0,
            dashboard_address=_INSIDE,
            silence_logs=logging.ERROR,
            env=dict(limits),
            local_directory=str(settings.home / "cluster"),
            death_timeout=_CONNECT_SECONDS * 3,
            preload=["engine.cluster.worker_preload"],
        )
        for number in range(workers)
    ]
    try:
        await asyncio.gather(*made)
        say(f"{workers} {'worker' if workers == 1 else 'workers'} ready for {settings.scheduler}.")
        # One that has lost the scheduler ends; the others will, and all begin again.
        await asyncio.wait([asyncio.create_task(each.finished()) for each in made], return_when="FIRST_COMPLETED")
        say("The scheduler is gone.")
    except (OSError, TimeoutError) as error:
        say(f"The workers did not reach the scheduler: {error}.")
    finally:
        await asyncio.gather(*(each.close(reason="the end") for each in made), return_exceptions=True)
