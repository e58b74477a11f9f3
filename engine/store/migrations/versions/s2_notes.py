"""Users' notes on their runs."""

import sqlalchemy as sa
from alembic import op

revision, down_revision, branch_labels, depends_on = "2", "1", None, None


def upgrade() -> None:
    """Create the table of notes."""
    op.create_table(
        "notes",
        sa.Column("run_id", sa.String(16), sa.ForeignKey("runs.run_id", ondelete="CASCADE"), primary_key=True),
        sa.Column("text", sa.Text, nullable=False),
    )
    op.execute("UPDATE epsilon_schema SET version = 2")
