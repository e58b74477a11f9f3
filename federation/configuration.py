"""One TOML file → what all parties of a federation agree on, and where this party keeps what is its own.

``[settings]`` has the fields of a simulation, by their own names; the file that was tried with is the one that is used.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.config import IN_CONTEXT, SimulationConfig
from engine.errors import InvalidConfig
from engine.validation import integer, number, text

FILE = "EPSILON_FEDERATION"
"""Variable with the file of an agreement, for processes that Flower starts."""
_MOST_BYTES = 100_000
_FIELDS = {
    "": {"name", "settings", "server", "client"},
    "server": {"address", "folder", "seconds"},
    "client": {"number", "folder", "data", "port"},
}


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """A federation as one party sees it.

    name: of the run; a run of another name is another run. config: as of a simulation. address: HOST:PORT of the
    server, as clients reach it. seconds: that the server waits for a client at each of a round's four stages. server:
    folder of its certificate, keys and results. number: of this client, from 1. client: its own folder, with its key
    and its ledger. data: its own sentences, a file or a folder; None takes its shard of ``config.corpus``, as in a
    simulation. port: of this client's own processes, on its loopback.
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
    """The agreement in a file; folders in it are relative to the file's. Raises InvalidConfig."""
    try:
        data = path.read_bytes()
        if len(data) > _MOST_BYTES:
            raise InvalidConfig(f"{path} has {len(data):,} bytes, expected at most {_MOST_BYTES:,}")
        values = tomllib.loads(data.decode("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidConfig(f"{path} cannot be read as TOML: {error}") from error
    _known("", values)
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
        raise InvalidConfig(f"data_fraction={config.data_fraction:g}, expected 1, since data={own!r} is all used")
    here = path.resolve().parent
    return Agreement(
        name=str(values["name"]),
        config=config,
        address=str(address),
        seconds=float(seconds),
        server=here / str(server.get("folder", "server")),
        number=int(client.get("number", 1)),
        client=here / str(client.get("folder", "client")),
        data=None if own is None else here / str(own),
        port=int(client.get("port", 9094)),
    )


def _table(values: dict[str, Any], name: str) -> dict[str, Any]:
    found = values.get(name, {})
    if not isinstance(found, dict):
        raise InvalidConfig(f"{name}={found!r}, expected a table of fields")
    if name in _FIELDS:
        _known(name, found)
    return found


def _known(where: str, values: dict[str, Any]) -> None:
    if unknown := sorted(set(values) - _FIELDS[where]):
        table = f"[{where}]" if where else "the file"
        raise InvalidConfig(
            f"{table} has the unknown field {unknown[0]!r}, expected {', '.join(sorted(_FIELDS[where]))}"
        )


def _check(config: SimulationConfig) -> None:
    """What a simulation can do and this cannot."""
    federation, privacy = config.federation, config.privacy
    if federation.clients < 3:
        raise InvalidConfig(f"clients={federation.clients}, expected at least 3: of two, each knows the other's update")
    if federation.schedule != "averaging":
        raise InvalidConfig(f"schedule={federation.schedule!r}, expected 'averaging'")
    if federation.participants is not None:
        raise InvalidConfig(f"participants={federation.participants}, expected none: all clients join each round")
    if config.platforms:
        raise InvalidConfig(f"corpus={config.corpus!r}, expected one: it fixes the tags that all clients have")
    if config.features in IN_CONTEXT:
        raise InvalidConfig(f"features={config.features!r}, expected 'vectors' or 'shapes': the rest needs TensorFlow")
    if privacy.private and privacy.kind.noise == "server":
        raise InvalidConfig(
            f"mechanism={privacy.mechanism!r}, expected one by which clients add the noise themselves: a client's "
            "ledger cannot vouch for noise that the server adds"
        )
