"""Settings of this process, read from the environment once at the start."""

import ipaddress
import os
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_data_dir

from engine import file_access
from engine.artifact_store import ArtifactStore
from engine.errors import InvalidConfig

REPOSITORY = Path(__file__).resolve().parent.parent
BACKENDS = ("compiled", "tensorflow")
"""The gradient back ends: the fast one, which is the default, and the readable reference."""
MOST_DAYS = 36_500
"""Largest number of days of a retention period: a hundred years."""
OLD_VARIABLES = {
    "EPSILON_ACCESS_FILE": "EPSILON_ACCESS",
    "EPSILON_ARTIFACT_URL": "EPSILON_ARTEFACTS",
    "EPSILON_POLL_ADDRESS": "EPSILON_POLL",
}
"""Environment variables with their names of earlier versions, which are still read."""


class Address(str):
    """An address that may contain a password, which its ``repr`` hides.

    So neither logged settings nor Dask's messages about failed tasks show it.

    Attributes:
        file: The file that contains the address (EPSILON_…_FILE), or None.
    """

    file: Path | None = None

    @classmethod
    def of(cls, text: str | None, file: Path | None = None) -> "Address":
        """Return an address with its file; an address stays as it is."""
        if isinstance(text, Address):
            return text
        address = cls(text or "")
        address.file = file
        return address

    def __repr__(self) -> str:
        return repr(re.sub(r"//[^/]*:.*@|\?.*", lambda found: "//***@" if found[0][0] == "/" else "?***", self))


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Folders, addresses and the gradient back end.

    Args:
        home: Folder of the user's runs, corpora, encoded arrays and weights (EPSILON_HOME; never in the repository).
        data_dir: Folder with corpora that are already on this machine (EPSILON_DATA_DIR), or None.
        store_url: SQLAlchemy URL of the database (EPSILON_STORE_URL, or its file EPSILON_STORE_URL_FILE;
            default: SQLite in ``home``).
        scheduler: Address of a Dask scheduler on other machines (EPSILON_SCHEDULER): tls://HOST:PORT, or a file that
            holds it. None: a local cluster.
        cluster_key: File with the key that all cluster members share (EPSILON_CLUSTER_KEY).
        backend: Gradient back end (EPSILON_BACKEND), "compiled" or "tensorflow". Both agree to float tolerance.
        published: Folder of the published runs.
        shared: URL of the files that runs share (EPSILON_ARTIFACT_URL, or its file EPSILON_ARTIFACT_URL_FILE; any that
            fsspec supports). None: ``home``.
        language_model: Folder of the user's own language model (EPSILON_LANGUAGE_MODEL), or None.
        poll: Address and port at which phones reach the classroom poll (EPSILON_POLL_ADDRESS). The address is one of
            the local network, or None for this machine's own. None in place of both: no poll.
        metrics_token: File with the token by which other machines may read ``/metrics`` (EPSILON_METRICS_TOKEN_FILE).
        access: File with the roles of users (EPSILON_ACCESS_FILE, :mod:`engine.access.roles`). None: no sign-in.
        retention_days: Days after which ended runs, unused uploads and log entries are deleted (EPSILON_RETENTION_DAYS,
            :mod:`engine.service.retention`). None: never.
        own: Return the names of the uploaded corpora that the current user may use; called each time. None: all
            corpora, and any path.
        shared_with: Return those of these uploaded corpora that every user of a corpus may use, too, from its name and
            theirs. None: none.

    Raises:
        InvalidConfig: If a variable has an invalid value.
    """

    home: Path
    data_dir: Path | None
    store_url: str
    scheduler: str | None = None
    cluster_key: Path | None = None
    backend: str = BACKENDS[0]
    published: Path = REPOSITORY / "cached_results"
    shared: str | None = None
    language_model: Path | None = None
    poll: tuple[str | None, int] | None = None
    access: Path | None = None
    metrics_token: Path | None = None
    retention_days: int | None = None
    own: Callable[[], Collection[str]] | None = None
    shared_with: Callable[[str, Collection[str]], set[str]] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "store_url", Address.of(self.store_url))
        object.__setattr__(self, "shared", Address.of(self.shared) or None)
        if self.backend not in BACKENDS:
            raise InvalidConfig(f"EPSILON_BACKEND={self.backend}, expected one of {', '.join(BACKENDS)}")
        if self.scheduler and "://" in self.scheduler and not self.scheduler.startswith("tls://"):
            raise InvalidConfig(
                f"EPSILON_SCHEDULER={self.scheduler}, expected tls://HOST:PORT or a scheduler's file: "
                "a scheduler runs the code of every client that can connect"
            )
        if self.scheduler and self.cluster_key is None:
            raise InvalidConfig(f"EPSILON_SCHEDULER={self.scheduler} without EPSILON_CLUSTER_KEY, its key's file")

    @property
    def addresses(self) -> dict[str, str | None]:
        """Settings that all machines of a cluster share; the others belong to each machine."""
        return {"store_url": self.store_url, "shared": self.shared, "backend": self.backend}

    @property
    def address_variables(self) -> dict[str, str]:
        """Environment variables from which a child process reads the same addresses.

        An address from a file stays out of the environment, which the system shows to the same user and to root.
        """
        found: dict[str, str] = {}
        for name, address in (("EPSILON_STORE_URL", self.store_url), ("EPSILON_ARTIFACT_URL", self.shared)):
            file = address.file if isinstance(address, Address) else None
            found |= {name: "" if file else address or "", f"{name}_FILE": str(file or "")}
        return found

    @property
    def secret_files(self) -> tuple[Path, ...]:
        """The files with secrets, which no backup contains."""
        addresses = (each.file for each in (self.store_url, self.shared) if isinstance(each, Address))
        return tuple(filter(None, (self.cluster_key, self.access, self.metrics_token, *addresses)))

    @property
    def artefacts(self) -> ArtifactStore:
        """The files that runs share."""
        return ArtifactStore(self.shared or str(self.home), self.home)

    @classmethod
    def from_environment(cls) -> "Settings":
        """Return the settings of this process. Empty variables count as absent."""
        home = Path(os.environ.get("EPSILON_HOME") or user_data_dir("epsilon-explorer", appauthor=False)).expanduser()
        default_data = REPOSITORY.parent / "shared" / "data"
        model = os.environ.get("EPSILON_LANGUAGE_MODEL")
        key = os.environ.get("EPSILON_CLUSTER_KEY")
        access = _variable("EPSILON_ACCESS_FILE")
        token = os.environ.get("EPSILON_METRICS_TOKEN_FILE")
        data = os.environ.get("EPSILON_DATA_DIR") or (str(default_data) if default_data.is_dir() else None)
        return cls(
            home=home.resolve(),
            data_dir=Path(data).expanduser().resolve() if data else None,
            store_url=_address("EPSILON_STORE_URL", os.environ.get("EPSILON_STORE_URL", ""))
            or f"sqlite:///{home.resolve() / 'runs.sqlite'}",
            scheduler=os.environ.get("EPSILON_SCHEDULER") or None,
            cluster_key=Path(key).expanduser().resolve() if key else None,
            backend=os.environ.get("EPSILON_BACKEND") or BACKENDS[0],
            shared=_address("EPSILON_ARTIFACT_URL", _variable("EPSILON_ARTIFACT_URL")) or None,
            language_model=Path(model).expanduser().resolve() if model else None,
            poll=_poll(_variable("EPSILON_POLL_ADDRESS")),
            access=Path(access).expanduser().resolve() if access else None,
            metrics_token=Path(token).expanduser().resolve() if token else None,
            retention_days=_days(os.environ.get("EPSILON_RETENTION_DAYS")),
        )


def _variable(name: str) -> str:
    """Return an environment variable, or the one with its old name where the new one is not set; "" for neither."""
    return os.environ.get(name, os.environ.get(OLD_VARIABLES[name], ""))


def _address(name: str, value: str) -> Address:
    """Return an address from its variable, or from the file that ``NAME_FILE`` names; empty for neither.

    Args:
        name: Name of the variable.
        value: Its value.

    Raises:
        InvalidConfig: If both are set, or the file cannot be read, is empty, or may be read by other users.
    """
    named = os.environ.get(f"{name}_FILE")
    if not named:
        return Address.of(value)
    if value:
        raise InvalidConfig(f"{name} and {name}_FILE={named} are both set, expected one of them")
    file = Path(named).expanduser().resolve()
    return Address.of(file_access.read_secret(f"{name}_FILE", file), file)


def _days(text: str | None) -> int | None:
    """Parse a number of days. Raises InvalidConfig."""
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MOST_DAYS):
        raise InvalidConfig(f"EPSILON_RETENTION_DAYS={text}, expected a whole number from 1 to {MOST_DAYS:,}")
    return int(text)


def _poll(text: str) -> tuple[str | None, int] | None:
    """Parse ``PORT`` or ``ADDRESS:PORT``, an address of a local network. Raises InvalidConfig."""
    if not text:
        return None
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and 1024 <= int(port) <= 65535):
        raise InvalidConfig(f"EPSILON_POLL_ADDRESS={text}, expected a port from 1024 to 65535, such as 8600")
    if not host:
        return None, int(port)
    try:
        address = ipaddress.IPv4Address(host)
    except ValueError:
        address = None
    if address is None or not address.is_private or address.is_unspecified:
        raise InvalidConfig(
            f"EPSILON_POLL_ADDRESS={text}, expected an address of a local network, such as 192.168.1.5:8600"
        )
    return host, int(port)
