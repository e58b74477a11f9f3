"""Alembic migrations from older database versions to the current tables, one file each in ``versions/``.

Every change of :mod:`engine.store.schema` needs a new migration; a test compares the result of all migrations with the
tables of the schema.
"""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    return config


def newest() -> str:
    """Return the name of the last migration."""
    return str(ScriptDirectory.from_config(_config()).get_current_head())


def upgrade(connection: Connection, known: str | None) -> None:
    """Apply all missing migrations.

    Args:
        connection: The transaction.
        known: The last migration of a database that does not record it itself, else None.
    """
    config = _config()
    config.attributes["connection"] = connection
    if known is not None:
        command.stamp(config, known)
    command.upgrade(config, "head")
