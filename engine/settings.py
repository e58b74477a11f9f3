"""Where things live on this machine, read from the environment once at the start."""

import os
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_data_dir

REPOSITORY = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Folders and addresses.

    home: runs, corpora, encoded arrays and weights of the user (EPSILON_HOME; never in the repository).
    data_dir: folder with corpora that are already here (EPSILON_DATA_DIR), or None. store_url: SQLAlchemy address of
    the database (EPSILON_STORE_URL; default SQLite in home). scheduler: address of a Dask scheduler on other machines
    (EPSILON_SCHEDULER), or None for a local cluster. published: folder of the published runs.
    """

    home: Path
    data_dir: Path | None
    store_url: str
    scheduler: str | None = None
    published: Path = REPOSITORY / "cached_results"

    @classmethod
    def from_environment(cls) -> "Settings":
        """Settings of this process. Empty variables count as absent."""
        home = Path(os.environ.get("EPSILON_HOME") or user_data_dir("epsilon-explorer", appauthor=False)).expanduser()
        default_data = REPOSITORY.parent / "shared" / "data"
        data = os.environ.get("EPSILON_DATA_DIR") or (str(default_data) if default_data.is_dir() else None)
        return cls(
            home=home.resolve(),
            data_dir=Path(data).expanduser().resolve() if data else None,
            store_url=os.environ.get("EPSILON_STORE_URL") or f"sqlite:///{home.resolve() / 'runs.sqlite'}",
            scheduler=os.environ.get("EPSILON_SCHEDULER") or None,
        )
