"""Start of Flower's processes: SuperLink and SuperNode with TLS, keys, no telemetry, and no code from other parties."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from engine.errors import ClusterError, InvalidConfig, StoreError
from federation import check_files
from federation.configuration import FILE, Agreement
from federation.keys import CERTIFICATE, KEY

REPOSITORY = Path(__file__).resolve().parents[2]
_BIN = Path(sys.prefix) / "bin"
_START_TIMEOUT, _RETRY_DELAY = 60.0, 2.0
"""Time in which the server must answer, and delay before a client starts its SuperNode again, in seconds."""
_SWEEP_SECONDS = 60.0
"""Seconds between searches for measurements of runs that get no more rounds."""


def run_server(agreement: Agreement, file: Path) -> int:
    """Run the server for all rounds: start the SuperLink, register the clients' public keys, train, and stop.

    Args:
        agreement: The agreement.
        file: Its file.

    Returns:
        The exit code, 0.

    Raises:
        InvalidConfig: If the certificate is missing, or the number of public keys is not the number of clients.
        ClusterError: If a Flower process fails, or the run ends without a model.
    """
    folder, host_port = agreement.server, agreement.address
    keys = sorted((folder / "clients").glob("*.pub"))
    clients = agreement.config.federation.clients
    if len(keys) != clients:
        raise InvalidConfig(f"{folder / 'clients'} has {len(keys)} public keys (*.pub), expected {clients}")
    certificate = _required_file(folder / CERTIFICATE, "python -m federation server-keys FILE")
    tagger = folder / "tagger.npz"
    tagger.unlink(missing_ok=True)
    home = folder / "flower"
    home.mkdir(exist_ok=True, mode=0o700)
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "federation"\n[superlink.federation]\naddress = "{host_port}"\n'
        f'root-certificates = "{certificate}"\n',
        encoding="utf-8",
    )
    env = _environment(file, home)
    host, _, port = host_port.rpartition(":")
    tls: list[str | Path] = [
        "--ssl-certfile",
        certificate,
        "--ssl-keyfile",
        folder / KEY,
        "--ssl-ca-certfile",
        certificate,
    ]
    options = ["--enable-supernode-auth", "--disable-runtime-dependency-installation", "--host", host, "--port", port]
    link = subprocess.Popen([_BIN / "flower-superlink", *tls, *options], env=env)
    try:
        _wait_for_server(link, host, int(port))
        for key in keys:
            subprocess.run([_BIN / "flwr", "supernode", "register", key, "federation"], env=env, check=True)
        command: list[str | Path] = [_BIN / "flwr", "run", REPOSITORY / "federation" / "app", "federation", "--stream"]
        subprocess.run(command, env=env, check=True)
    except subprocess.CalledProcessError as error:
        raise ClusterError(
            f"{Path(error.cmd[0]).name} failed with exit code {error.returncode}; see the output above"
        ) from error
    finally:
        link.terminate()
        link.wait()
    if not tagger.exists():
        raise ClusterError(f"The run ended without a model; {folder / 'rounds.json'} has the finished rounds")
    return 0


def run_client(agreement: Agreement, file: Path) -> NoReturn:
    """Run a client until interrupted. For each message, Flower starts the code of this installation.

    Args:
        agreement: The agreement.
        file: Its file.

    Raises:
        InvalidConfig: If the certificate or the key is missing.
    """
    folder = agreement.client
    certificate = _required_file(folder / CERTIFICATE, f"copy the server's {CERTIFICATE}")
    key = _required_file(folder / KEY, "python -m federation client-keys FILE")
    own = folder / "bin"
    own.mkdir(exist_ok=True, mode=0o700)
    program = own / "flwr-clientapp"
    program.write_text(
        f"#!{sys.executable}\nfrom federation.flower.client_app_runner import main\n\nmain()\n", encoding="utf-8"
    )
    program.chmod(0o700)
    home = folder / "flower"
    home.mkdir(exist_ok=True, mode=0o700)
    command: list[str | Path] = [
        *(_BIN / "flower-supernode", "--superlink", agreement.address, "--root-certificates", certificate),
        *("--auth-supernode-private-key", key, "--host", "127.0.0.1", "--port", str(agreement.port)),
    ]
    env = _environment(file, home, own)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    _destroy_old_measurements(agreement)
    while True:  # the server may not have registered the key yet, or may not be running
        node = subprocess.Popen(command, env=env)
        try:
            while node.poll() is None:
                with suppress(subprocess.TimeoutExpired):
                    node.wait(_SWEEP_SECONDS)
                _destroy_old_measurements(agreement)
        finally:
            node.terminate()
            node.wait()
        time.sleep(_RETRY_DELAY)


def _destroy_old_measurements(agreement: Agreement) -> None:
    """Destroy what the noise check measured in runs that get no more rounds; report what cannot be destroyed."""
    try:
        check_files.destroy_all(agreement.client, check_files.lifetime(agreement.seconds))
    except StoreError as error:
        print(error, file=sys.stderr)  # noqa: T201


def _environment(file: Path, home: Path, *first: Path) -> Mapping[str, str]:
    """Return the environment of Flower's processes, without telemetry; ``first`` are the first folders of PATH."""
    path = os.pathsep.join([*map(str, first), str(_BIN), os.environ.get("PATH", "")])
    return os.environ | {
        "PATH": path,
        "PYTHONPATH": str(REPOSITORY),
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        FILE: str(file.resolve()),
    }


def _required_file(path: Path, remedy: str) -> Path:
    if not path.is_file():
        raise InvalidConfig(f"{path} is missing: {remedy}")
    return path


def _wait_for_server(link: subprocess.Popen[bytes], host: str, port: int) -> None:
    """Wait until the server accepts connections. Raises ClusterError if it ends or does not answer in time."""
    deadline = time.monotonic() + _START_TIMEOUT
    while time.monotonic() < deadline and link.poll() is None:
        try:
            socket.create_connection((host, port), 1).close()
            return
        except OSError:
            time.sleep(0.2)
    raise ClusterError(f"The server does not answer at {host}:{port}; see the output above")
