"""Runs migrations on the connection that `di_history.store.engine.migrate` hands over."""

from alembic import context

from di_history.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,
)
context.run_migrations()
