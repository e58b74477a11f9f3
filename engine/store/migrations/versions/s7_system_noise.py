"""Records of runs with system noise lose the values that are computed from private samples and noise.

Versions up to 0.6.0 stored losses, gradient norms, sample sizes, participants and values of the noise check.
"""

import json
import logging

import sqlalchemy as sa
from alembic import op

from engine.config import SimulationConfig
from engine.records import RoundRecord

revision, down_revision, branch_labels, depends_on = "7", "6", None, None
log = logging.getLogger("epsilon.store")

runs = sa.table("runs", sa.column("run_id"), sa.column("config"))
records = sa.table("records", sa.column("run_id"), sa.column("round"), sa.column("body"))


def upgrade() -> None:
    """Rewrite the records; unreadable ones stay, and are counted."""
    connection = op.get_bind()
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("PRAGMA secure_delete=ON")  # overwrites what the old text occupied
    changed = unread = 0
    of_system = sa.select(runs.c.run_id, runs.c.config).where(runs.c.config.like('%"system"%'))
    for run_id, config in connection.execute(of_system).all():
        stored = connection.execute(sa.select(records.c.round, records.c.body).where(records.c.run_id == run_id)).all()
        for number, body in stored:
            try:
                privacy = SimulationConfig.from_dict(json.loads(config)).privacy
                if privacy.noise_source != "system":
                    continue
                record = RoundRecord.from_dict(json.loads(body))
                public = record.without_private_values(clients=privacy.kind.client_level)
                text = json.dumps(public.to_dict(), separators=(",", ":"), allow_nan=False)
            except (ValueError, TypeError, KeyError, AttributeError):
                unread += 1
                continue
            if text != body:
                same = (records.c.run_id == run_id, records.c.round == number)
                connection.execute(sa.update(records).where(*same).values(body=text))
                changed += 1
    if changed or unread:
        log.warning(
            "Private values were removed from %d records of runs with system noise; %d records cannot be read and "
            "stay as they are. Delete backups of the database that still have them.",
            changed,
            unread,
        )
    op.execute("UPDATE epsilon_schema SET version = 7")
