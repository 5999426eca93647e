"""Runs migrations on the connection of `di_history.store.engine.migrate`."""

from alembic import context

from di_history.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,
)
context.run_migrations()
