"""The agreement of a federation, from a TOML file: the common settings, and the folders of this party.

``[settings]`` has the fields of a simulation with the same names, so a file can be tested in a simulation.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.config import FEATURE_SETS, SimulationConfig
from engine.errors import InvalidConfig
from engine.validation import integer, number, text

FILE = "EPSILON_FEDERATION"
"""Environment variable with the path of the agreement, for processes that Flower starts."""
_MAX_BYTES = 100_000
"""Largest size of the file, in bytes."""
_FIELDS = {
    "": {"name", "settings", "server", "client"},
    "server": {"address", "folder", "seconds"},
    "client": {"number", "folder", "data", "port"},
}


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """A federation as one party sees it.

    Attributes:
        name: Name of the run; another name is another run.
        config: Configuration, as of a simulation.
        address: HOST:PORT of the server, as clients reach it.
        seconds: Time that the server waits for a client in each of the four stages of a round.
        server: Folder of the server's certificate, keys and results.
        number: Number of this client, from 1.
        client: Folder of this client, with its key and its ledger.
        data: File or folder of this client's sentences; None for its shard of ``config.corpus``, as in a simulation.
        port: Port of this client's own processes on the loopback interface.
    """

    name: str
    config: SimulationConfig
    address: str
    seconds: float
    server: Path
    number: int
    client: Path
    data: Path | None
    port: int


def read(path: Path) -> Agreement:
    """Read an agreement; paths in it are relative to its folder.

    Raises InvalidConfig if the file cannot be read or a value is not valid.
    """
    try:
        data = path.read_bytes()
        if len(data) > _MAX_BYTES:
            raise InvalidConfig(f"{path} has {len(data):,} bytes, expected at most {_MAX_BYTES:,}")
        values = tomllib.loads(data.decode("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidConfig(f"{path} cannot be read as TOML: {error}") from error
    _check_fields("", values)
    server, client = _table(values, "server"), _table(values, "client")
    text("name", values.get("name"))
    config = SimulationConfig.from_flat(_table(values, "settings"))
    _check(config)
    address = server.get("address", "")
    host, _, port = str(address).rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or not 1 <= int(port) <= 65_535:
        raise InvalidConfig(f"address={address!r}, expected HOST:PORT, such as 127.0.0.1:9400")
    seconds = server.get("seconds", 600)
    number("seconds", seconds, 0, 86_400, "a number in (0, 86400]", low_open=True)
    integer("number", client.get("number", 1), 1, config.federation.clients)
    integer("port", client.get("port", 9094), 1, 65_535)
    own = client.get("data")
    if own is not None and config.data_fraction < 1:
        raise InvalidConfig(f"data_fraction={config.data_fraction:g}, expected 1: all of data={own!r} is used")
    folder = path.resolve().parent
    return Agreement(
        name=str(values["name"]),
        config=config,
        address=str(address),
        seconds=float(seconds),
        server=folder / str(server.get("folder", "server")),
        number=int(client.get("number", 1)),
        client=folder / str(client.get("folder", "client")),
        data=None if own is None else folder / str(own),
        port=int(client.get("port", 9094)),
    )


def _table(values: dict[str, Any], name: str) -> dict[str, Any]:
    table = values.get(name, {})
    if not isinstance(table, dict):
        raise InvalidConfig(f"{name}={table!r}, expected a table of fields")
    if name in _FIELDS:
        _check_fields(name, table)
    return table


def _check_fields(where: str, values: dict[str, Any]) -> None:
    if unknown := sorted(set(values) - _FIELDS[where]):
        table = f"[{where}]" if where else "the file"
        raise InvalidConfig(
            f"{table} has the unknown field {unknown[0]!r}, expected {', '.join(sorted(_FIELDS[where]))}"
        )


def _check(config: SimulationConfig) -> None:
    """Raise InvalidConfig for settings that only a simulation supports."""
    federation, privacy = config.federation, config.privacy
    if federation.clients < 3:
        raise InvalidConfig(f"clients={federation.clients}, expected at least 3: of 2, each learns the other's update")
    if federation.schedule != "averaging":
        raise InvalidConfig(f"schedule={federation.schedule!r}, expected 'averaging'")
    if federation.participants is not None:
        raise InvalidConfig(f"participants={federation.participants}, expected none: all clients join each round")
    if config.platforms:
        raise InvalidConfig(f"corpus={config.corpus!r}, expected one corpus: it defines the tags of all clients")
    if config.feature_set.in_context:
        supported = " or ".join(repr(name) for name, features in FEATURE_SETS.items() if not features.in_context)
        raise InvalidConfig(f"features={config.features!r}, expected {supported}: others need TensorFlow")
    if privacy.private and privacy.kind.noise == "server":
        raise InvalidConfig(
            f"mechanism={privacy.mechanism!r}, expected 'dp-sgd', 'local' or 'secure-sum': a client's ledger cannot "
            "verify noise that the server adds"
        )
