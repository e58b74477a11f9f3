"""Kind, parent and owner of each run.

In earlier versions a rerun was recognised by its identity: the first run's with an r as the first character.
"""

import sqlalchemy as sa
from alembic import op

revision, down_revision, branch_labels, depends_on = "3", "2", None, None


def upgrade() -> None:
    """Add the columns. The parent of a rerun is known only if it is in this database, which published runs are not."""
    op.add_column("runs", sa.Column("kind", sa.String(16), nullable=False, server_default="run"))
    op.add_column("runs", sa.Column("parent", sa.String(16)))
    op.add_column("runs", sa.Column("owner", sa.String(64)))
    op.execute("CREATE INDEX ix_runs_kind ON runs (kind)")
    op.execute("UPDATE runs SET kind = 'repeat' WHERE run_id LIKE 'r%'")
    op.execute(
        "UPDATE runs SET parent = (SELECT MIN(first.run_id) FROM runs AS first WHERE first.kind = 'run' "
        "AND substr(first.run_id, 2) = substr(runs.run_id, 2)) WHERE kind = 'repeat'"
    )
    op.execute("UPDATE epsilon_schema SET version = 3")
