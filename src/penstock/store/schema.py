"""Brings the store's schema to the version this Penstock knows, and refuses one that is newer."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from penstock.store.database import Database
from penstock.store.errors import StoreMissing, StoreTooNew

VERSION_TABLE: Final = "penstock_schema_version"
_MIGRATIONS: Final = Path(__file__).parent / "migrations"
_UPGRADE_LOCK: Final = 0x70656E73746F636B
"""PostgreSQL advisory lock held while the schema changes; any number will do, as long as it stays the same."""


def upgrade(database: Database, *, create: bool) -> None:
    """One transaction: instances that start together wait for the first one's upgrade and then find nothing to do."""
    if _is_current(database):
        return
    with database.write() as connection:
        if not database.is_sqlite:
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_UPGRADE_LOCK)))
        config = _config()
        version = _version(connection)
        if version is None and not create:
            raise StoreMissing("the database holds no store", hint="`penstock run` makes one")
        _refuse_newer(version, ScriptDirectory.from_config(config))
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def known_version() -> str:
    """The version this Penstock works with."""
    head = ScriptDirectory.from_config(_config()).get_current_head()
    assert head is not None, "the package has no migrations"  # noqa: S101 - a broken build, not an input
    return head


def current_version(database: Database) -> str | None:
    """The version of the store's schema; None where there is none yet."""
    with database.read() as connection:
        return _version(connection)


def _is_current(database: Database) -> bool:
    # Asked first without a lock: most starts have nothing to upgrade and should not wait for writers.
    return current_version(database) == known_version()


def _version(connection: sa.Connection) -> str | None:
    return MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE}).get_current_revision()


def _refuse_newer(version: str | None, scripts: ScriptDirectory) -> None:
    known = [script.revision for script in scripts.walk_revisions()]
    if version is not None and version not in known:
        raise StoreTooNew(
            "the store was upgraded by a newer Penstock",
            received=version,
            allowed=known[0],
            hint="run that version, or a later one",
        )


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    return config
