"""Which runs nobody waits for: they come after the others."""

import sqlalchemy as sa
from alembic import op

revision, down_revision, branch_labels, depends_on = "5", "4", None, None


def upgrade() -> None:
    """Add the column. Of runs that wait already nobody knows."""
    op.add_column("runs", sa.Column("batch", sa.Integer, nullable=False, server_default="0"))
    op.execute("UPDATE epsilon_schema SET version = 5")
