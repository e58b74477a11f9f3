"""Alembic environment: runs the migrations in the caller's transaction."""

from alembic import context

from engine.store.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
