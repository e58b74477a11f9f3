"""Workers on other machines: TLS authentication, version check, and the processes of scheduler and workers.

A Dask scheduler executes code for every client that can connect. All connections therefore use mutual TLS. The key is
a self-signed certificate and its private key in one file, which the scheduler, every worker and every dashboard hold.
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
"""Dask resource of workers of this version; each run needs one, so that versions never mix."""
NAME = "epsilon-explorer"
"""Key of the scheduler's metadata entry with the version of the first client."""
OURS = f"Epsilon Explorer {VERSION} (engine {PRIVATE_VERSION} with noise, {PLAIN_VERSION} without)"
WARM = "warm-"
"""Prefix of the keys of warm-up tasks; all other tasks are runs."""
PORT = 8786
_DAYS = 3650
_CONNECT_SECONDS = 10
_LOOPBACK = "127.0.0.1:0"
"""Address of Dask's own dashboard, which cannot be disabled: a free port on loopback, without any pages."""


def make_key(path: Path) -> None:
    """Write the key of a new cluster, readable only by its owner.

    Raises:
        InvalidConfig: If the file exists or cannot be written.
    """
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
        raise InvalidConfig(f"key={path} exists already; a cluster's key is never overwritten") from error
    except OSError as error:
        raise InvalidConfig(f"key={path} cannot be written: {error.strerror}") from error


def security(settings: Settings) -> "Security":
    """Return the TLS settings of the cluster. Raises InvalidConfig if the key is invalid or readable by other users."""
    import ssl

    from distributed import Security

    path = settings.cluster_key
    if path is None:
        raise InvalidConfig("EPSILON_CLUSTER_KEY is not set, expected the file that `cluster key` writes")
    try:
        others = path.stat().st_mode & 0o077
        ssl.create_default_context(cafile=str(path)).load_cert_chain(path)
    except (OSError, ssl.SSLError) as error:
        raise InvalidConfig(f"EPSILON_CLUSTER_KEY={path} contains no valid cluster key: {error}") from error
    if others:
        raise InvalidConfig(
            f"EPSILON_CLUSTER_KEY={path} may be read by other users, who could execute code: chmod 600 it"
        )
    roles = {f"tls_{role}_{part}": str(path) for role in ("client", "scheduler", "worker") for part in ("key", "cert")}
    return Security(require_encryption=True, tls_ca_file=str(path), **roles)


def connect(settings: Settings) -> "Client":
    """Connect to the scheduler of the settings.

    Raises:
        ClusterError: If no scheduler with this key answers.
        InvalidConfig: If the settings are not valid, or the scheduler serves another version.
    """
    from distributed import Client

    address, tls = _address(settings), security(settings)  # outside `try`: InvalidConfig is a ValueError too
    try:
        client = Client(address, security=tls, timeout=_CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ClusterError(f"EPSILON_SCHEDULER={settings.scheduler} does not answer, or has another key.") from error
    version = client.get_metadata([NAME], default=None)
    if version is None:
        client.set_metadata([NAME], OURS)
    elif version != OURS:
        client.close()
        raise InvalidConfig(
            f"EPSILON_SCHEDULER={settings.scheduler} serves {version}, this is {OURS}: install one version on all "
            "machines"
        )
    return client


def _address(settings: Settings) -> str:
    """Return the scheduler's address, read again on every call if it is in a file.

    Dask would wait silently for a missing file, and would not notice that a new scheduler has rewritten it.

    Raises:
        InvalidConfig: If no scheduler is set.
        ClusterError: If the file is missing or not valid.
    """
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
            f"EPSILON_SCHEDULER={settings.scheduler} is not a scheduler's file yet, or cannot be read."
        ) from error
    return str(address)


def members(client: "Client") -> dict[str, Mapping[str, Any]]:
    """Return Dask's information on the workers of this version, by address; empty if the scheduler does not answer.

    This takes one request to the scheduler.
    """
    with suppress(OSError, TimeoutError):
        workers = client.scheduler_info()["workers"]
        return {address: each for address, each in workers.items() if each.get("resources", {}).get(RESOURCE)}
    return {}


def doing(tasks: Sequence[str]) -> str:
    """Return the activity of a worker with these tasks.

    The scheduler knows the tasks immediately; reports of the workers arrive late while they compile.
    """
    if any(task.startswith(WARM) for task in tasks):
        return "warming up (compiling)"
    return "computing a run" if tasks else "idle"


async def schedule(settings: Settings, host: str, port: int, file: Path | None, say: Callable[[str], None]) -> None:
    """Run the scheduler until cancelled.

    Args:
        settings: The settings, with the cluster's key.
        host: Address to listen on.
        port: Port to listen on.
        file: File for the scheduler's address, or None.
        say: Callback for messages.

    Raises:
        InvalidConfig: If the key is not valid.
        ClusterError: If the scheduler cannot listen on the address.
    """
    from distributed import Scheduler

    try:
        scheduler = Scheduler(
            host=host,
            port=port,
            protocol="tls",
            security=security(settings),
            dashboard=False,
            dashboard_address=_LOOPBACK,
            scheduler_file=str(file) if file else None,
        )
        async with scheduler:
            scheduler.task_metadata[NAME] = OURS
            say(f"Scheduler listening at {scheduler.address} for all holders of the key. Press Ctrl-C to stop.")
            await scheduler.finished()
    except OSError as error:
        raise ClusterError(f"The scheduler cannot listen at {host}:{port}: {error.strerror or error}.") from error


async def work(settings: Settings, workers: int, limits: Mapping[str, str], say: Callable[[str], None]) -> None:
    """Run worker processes until cancelled; reconnect whenever the scheduler returns.

    Args:
        settings: The settings.
        workers: Number of worker processes.
        limits: Environment variables of each worker.
        say: Callback for messages.

    Raises:
        InvalidConfig: If the settings are not valid, or the cluster has another version.
    """
    reported = ""
    while True:
        try:
            with await asyncio.to_thread(connect, settings):
                pass
        except ClusterError as error:
            if str(error) != reported:
                say(f"{error} Retrying until it succeeds.")
                reported = str(error)
            await asyncio.sleep(1)
            continue
        reported = ""
        await _work_once(settings, workers, limits, say)


async def _work_once(settings: Settings, workers: int, limits: Mapping[str, str], say: Callable[[str], None]) -> None:
    from distributed import Nanny

    try:
        address = _address(settings)
    except ClusterError:  # the address was valid a moment ago: the caller retries
        return
    nannies = [
        Nanny(
            address,
            nthreads=1,
            name=f"{socket.gethostname()}/{os.getpid()}/{number}",
            security=security(settings),
            protocol="tls",
            resources={RESOURCE: 1},
            memory_limit=0,
            dashboard_address=_LOOPBACK,
            silence_logs=logging.ERROR,
            env=dict(limits),
            local_directory=str(settings.home / "cluster"),
            death_timeout=_CONNECT_SECONDS * 3,
            preload=["engine.cluster.worker_preload"],
        )
        for number in range(workers)
    ]
    try:
        await asyncio.gather(*nannies)
        say(f"{workers} {'worker' if workers == 1 else 'workers'} ready for {settings.scheduler}.")
        say(f"The files that runs share can be read by {settings.artefacts.readers}.")
        # If one worker has lost the scheduler, the others will too: stop all of them and reconnect.
        await asyncio.wait([asyncio.create_task(nanny.finished()) for nanny in nannies], return_when="FIRST_COMPLETED")
        say("The connection to the scheduler is lost.")
    except (OSError, TimeoutError) as error:
        say(f"The workers cannot reach the scheduler: {error}.")
    finally:
        await asyncio.gather(*(nanny.close(reason="the end") for nanny in nannies), return_exceptions=True)
