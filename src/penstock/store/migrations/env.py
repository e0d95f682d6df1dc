"""Run by Alembic: migrates over the connection, and in the transaction, that `schema.upgrade` hands in."""

from __future__ import annotations

from alembic import context

from penstock.store import workflow_tables
from penstock.store.schema import VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=workflow_tables.projects.metadata,  # whose import has made all tables known
    version_table=VERSION_TABLE,
    render_as_batch=True,  # SQLite changes a table by making it anew
)
with context.begin_transaction():
    context.run_migrations()
