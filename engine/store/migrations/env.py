"""What Alembic runs: the steps, in the transaction of whoever asked for them."""

from alembic import context

from engine.store.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
