"""How a database of an older version gets the tables of today: one step a file in ``versions/``, done by Alembic.

A change of :mod:`engine.store.schema` needs a new step; a test holds the end of all steps against those tables.
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
    """The name of the last step."""
    return str(ScriptDirectory.from_config(_config()).get_current_head())


def upgrade(connection: Connection, known: str | None) -> None:
    """Take all steps that are missing. known: the last one that was taken before there were names of steps, None if the
    database knows it itself."""
    config = _config()
    config.attributes["connection"] = connection
    if known is not None:
        command.stamp(config, known)
    command.upgrade(config, "head")
