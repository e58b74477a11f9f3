"""Flower's processes, started with what is agreed: TLS, keys, no telemetry, no code from elsewhere."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from engine.errors import ClusterError, InvalidConfig
from federation.configuration import FILE, Agreement
from federation.keys import CERTIFICATE, KEY

REPOSITORY = Path(__file__).resolve().parents[2]
_BIN = Path(sys.prefix) / "bin"
_WAIT, _AGAIN = 60.0, 2.0
"""Seconds for the server to answer, and until a client tries again."""


def run_server(agreement: Agreement, file: Path) -> int:
    """A run from its first round to its last: serve, let in the clients whose keys are there, train, end."""
    folder, host_port = agreement.server, agreement.address
    keys = sorted((folder / "clients").glob("*.pub"))
    clients = agreement.config.federation.clients
    if len(keys) != clients:
        raise InvalidConfig(f"{folder / 'clients'} has {len(keys)} public keys (*.pub), expected {clients}")
    certificate = _there(folder / CERTIFICATE, "python -m federation server-keys FILE")
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
        _answers(link, host, int(port))
        for key in keys:
            subprocess.run([_BIN / "flwr", "supernode", "register", key, "federation"], env=env, check=True)
        command: list[str | Path] = [_BIN / "flwr", "run", REPOSITORY / "federation" / "app", "federation", "--stream"]
        subprocess.run(command, env=env, check=True)
    except subprocess.CalledProcessError as error:
        raise ClusterError(
            f"{Path(error.cmd[0]).name} ended with {error.returncode}; the lines above say why"
        ) from error
    finally:
        link.terminate()
        link.wait()
    if not tagger.exists():
        raise ClusterError(f"The run ended without a tagger; {folder / 'rounds.json'} says how far it came")
    return 0


def run_client(agreement: Agreement, file: Path) -> NoReturn:
    """Take part until it is ended. What Flower starts for a message is this installation's own code."""
    folder = agreement.client
    certificate = _there(folder / CERTIFICATE, f"copy the server's {CERTIFICATE}")
    key = _there(folder / KEY, "python -m federation client-keys FILE")
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
    while True:  # the server may not know the key yet, or not be there
        node = subprocess.Popen(command, env=env)
        try:
            node.wait()
        finally:
            node.terminate()
            node.wait()
        time.sleep(_AGAIN)


def _environment(file: Path, home: Path, *first: Path) -> Mapping[str, str]:
    """Of Flower's processes: what they find first, and that they tell nobody what they do."""
    path = os.pathsep.join([*map(str, first), str(_BIN), os.environ.get("PATH", "")])
    return os.environ | {
        "PATH": path,
        "PYTHONPATH": str(REPOSITORY),
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        FILE: str(file.resolve()),
    }


def _there(path: Path, what_to_do: str) -> Path:
    if not path.is_file():
        raise InvalidConfig(f"{path} is missing: {what_to_do}")
    return path


def _answers(link: subprocess.Popen[bytes], host: str, port: int) -> None:
    """Wait until the server does. Raises ClusterError where it ends first."""
    until = time.monotonic() + _WAIT
    while time.monotonic() < until and link.poll() is None:
        try:
            socket.create_connection((host, port), 1).close()
            return
        except OSError:
            time.sleep(0.2)
    raise ClusterError(f"The server does not answer at {host}:{port}; the lines above say why")
