"""Run by Alembic: migrates over the connection, and in the transaction, that `schema.upgrade` hands in."""

from __future__ import annotations

from alembic import context

from penstock.store.schema import VERSION_TABLE
from penstock.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    render_as_batch=True,  # SQLite changes a table by making it anew
)
with context.begin_transaction():
    context.run_migrations()
