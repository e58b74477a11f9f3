"""Runs and their records."""

import sqlalchemy as sa
from alembic import op

revision, down_revision, branch_labels, depends_on = "1", None, None, None


def upgrade() -> None:
    """Create the first tables."""
    op.create_table("epsilon_schema", sa.Column("version", sa.Integer, primary_key=True, autoincrement=False))
    op.create_table(
        "runs",
        sa.Column("run_id", sa.String(16), primary_key=True),
        sa.Column("config", sa.Text, nullable=False),
        sa.Column("corpus_checksum", sa.String(64), nullable=False),
        sa.Column("state", sa.String(16), nullable=False, index=True),
        sa.Column("stage", sa.Text, nullable=False),
        sa.Column("progress", sa.Float, nullable=False),
        sa.Column("created", sa.Float, nullable=False, index=True),
        sa.Column("started", sa.Float),
        sa.Column("finished", sa.Float),
        sa.Column("heartbeat", sa.Float),
        sa.Column("error", sa.Text),
        sa.Column("token", sa.String(32)),
        sa.Column("holder", sa.Text),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("provenance", sa.Text),
    )
    op.create_table(
        "records",
        sa.Column("run_id", sa.String(16), sa.ForeignKey("runs.run_id", ondelete="CASCADE"), primary_key=True),
        sa.Column("round", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.execute("INSERT INTO epsilon_schema (version) VALUES (1)")
