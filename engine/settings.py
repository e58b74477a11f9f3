"""Folders and addresses of this machine, read from the environment once at the start."""

import ipaddress
import os
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_data_dir

from engine.artifact_store import ArtifactStore
from engine.errors import InvalidConfig

REPOSITORY = Path(__file__).resolve().parent.parent
BACKENDS = ("compiled", "tensorflow")
"""The fast back end, which is the default, and the readable reference."""


class Address(str):
    """An address that may contain a password, which its representation hides.

    Logs of settings and Dask's messages on failed tasks therefore do not reveal it.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(re.sub(r"//[^/]*:.*@|\?.*", lambda found: "//***@" if found[0][0] == "/" else "?***", self))


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Folders, addresses and back end.

    Attributes:
        home: Folder of the user's runs, corpora, encoded arrays and weights (EPSILON_HOME; never in the repository).
        data_dir: Folder with available corpora (EPSILON_DATA_DIR), or None.
        store_url: SQLAlchemy address of the database (EPSILON_STORE_URL; by default SQLite in ``home``).
        scheduler: Address of a Dask scheduler on other machines (EPSILON_SCHEDULER): tls://HOST:PORT, or a file with
            it. None is a local cluster.
        cluster_key: Key file that all members of the cluster have (EPSILON_CLUSTER_KEY).
        backend: What computes gradients (EPSILON_BACKEND): "compiled" or "tensorflow". Both agree to float tolerance.
        published: Folder of the published runs.
        shared: Address of the files that runs share (EPSILON_ARTEFACTS; any that fsspec supports), or None for
            ``home``.
        language_model: Folder of the user's own language model (EPSILON_LANGUAGE_MODEL), or None.
        poll: Local address and port of the classroom poll (EPSILON_POLL); address None is detected, None is no poll.
        access: File with users and roles (EPSILON_ACCESS, :mod:`engine.access.roles`), or None for access without
            sign-in.
        own: Returns the names of the uploaded corpora that the current user may use; called on every use. None permits
            all of them, and any path.

    Raises:
        InvalidConfig: If a value is not valid.
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
    own: Callable[[], Collection[str]] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "store_url", Address(self.store_url))
        if self.backend not in BACKENDS:
            raise InvalidConfig(f"EPSILON_BACKEND={self.backend}, expected one of {', '.join(BACKENDS)}")
        if self.scheduler and "://" in self.scheduler and not self.scheduler.startswith("tls://"):
            raise InvalidConfig(
                f"EPSILON_SCHEDULER={self.scheduler}, expected tls://HOST:PORT or a scheduler's file: "
                "a scheduler executes the code of anyone who can reach it"
            )
        if self.scheduler and self.cluster_key is None:
            raise InvalidConfig(f"EPSILON_SCHEDULER={self.scheduler} without EPSILON_CLUSTER_KEY, its key's file")

    @property
    def addresses(self) -> dict[str, str | None]:
        """Settings that all machines of a cluster have in common."""
        return {"store_url": self.store_url, "shared": self.shared, "backend": self.backend}

    @property
    def artefacts(self) -> ArtifactStore:
        """The files that runs share."""
        return ArtifactStore(self.shared or str(self.home), self.home)

    @classmethod
    def from_environment(cls) -> "Settings":
        """Read the settings of this process; empty variables count as absent.

        Raises:
            InvalidConfig: If a variable is not valid.
        """
        home = Path(os.environ.get("EPSILON_HOME") or user_data_dir("epsilon-explorer", appauthor=False)).expanduser()
        default_data = REPOSITORY.parent / "shared" / "data"
        model = os.environ.get("EPSILON_LANGUAGE_MODEL")
        key = os.environ.get("EPSILON_CLUSTER_KEY")
        access = os.environ.get("EPSILON_ACCESS")
        data = os.environ.get("EPSILON_DATA_DIR") or (str(default_data) if default_data.is_dir() else None)
        return cls(
            home=home.resolve(),
            data_dir=Path(data).expanduser().resolve() if data else None,
            store_url=os.environ.get("EPSILON_STORE_URL") or f"sqlite:///{home.resolve() / 'runs.sqlite'}",
            scheduler=os.environ.get("EPSILON_SCHEDULER") or None,
            cluster_key=Path(key).expanduser().resolve() if key else None,
            backend=os.environ.get("EPSILON_BACKEND") or BACKENDS[0],
            shared=os.environ.get("EPSILON_ARTEFACTS") or None,
            language_model=Path(model).expanduser().resolve() if model else None,
            poll=_poll(os.environ.get("EPSILON_POLL") or ""),
            access=Path(access).expanduser().resolve() if access else None,
        )


def _poll(text: str) -> tuple[str | None, int] | None:
    """Parse a port, or an address of a local network and a port.

    Raises:
        InvalidConfig: If it is neither.
    """
    if not text:
        return None
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and 1024 <= int(port) <= 65535):
        raise InvalidConfig(f"EPSILON_POLL={text}, expected a port from 1024 to 65535, such as 8600")
    if not host:
        return None, int(port)
    try:
        address = ipaddress.IPv4Address(host)
    except ValueError:
        address = None
    if address is None or not address.is_private or address.is_unspecified:
        raise InvalidConfig(f"EPSILON_POLL={text}, expected an address of a local network, such as 192.168.1.5:8600")
    return host, int(port)
