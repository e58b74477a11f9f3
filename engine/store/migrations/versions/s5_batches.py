"""Batch runs, which no user waits for: they are queued after the others."""

import sqlalchemy as sa
from alembic import op

revision, down_revision, branch_labels, depends_on = "5", "4", None, None


def upgrade() -> None:
    """Add the column. Runs that are already queued count as not batch."""
    op.add_column("runs", sa.Column("batch", sa.Integer, nullable=False, server_default="0"))
    op.execute("UPDATE epsilon_schema SET version = 5")
