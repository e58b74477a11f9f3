"""Permissions for runs and corpora, and the audit log, for a dashboard with several users."""

import sqlalchemy as sa
from alembic import op

revision, down_revision, branch_labels, depends_on = "6", "5", None, None


def upgrade() -> None:
    """Create the tables. Existing runs have no owner: only admins and the operator see them."""
    op.create_table(
        "grants",
        sa.Column("kind", sa.String(16), primary_key=True),
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("person", sa.String(64), primary_key=True),
    )
    op.create_index("ix_grants_person", "grants", ["person"])
    op.create_table(
        "deeds",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("person", sa.String(64), nullable=False),
        sa.Column("deed", sa.String(32), nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("refused", sa.Integer, nullable=False),
    )
    op.create_index("ix_deeds_at", "deeds", ["at"])
    op.execute("UPDATE epsilon_schema SET version = 6")
