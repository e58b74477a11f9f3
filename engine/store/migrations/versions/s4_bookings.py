"""The privacy ledger."""

import sqlalchemy as sa
from alembic import op

revision, down_revision, branch_labels, depends_on = "4", "3", None, None


def upgrade() -> None:
    """Create its table."""
    op.create_table(
        "bookings",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("entry", sa.Text, nullable=False),
        sa.Column("seal", sa.String(64), nullable=False),
    )
    op.execute("UPDATE epsilon_schema SET version = 4")
