"""Brings the store's schema to the version this Penstock knows, and refuses one that is newer."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

import sqlalchemy as sa

from penstock.store.database import Database
from penstock.store.errors import StoreMissing, StoreTooNew

VERSION_TABLE: Final = "penstock_schema_version"
_MIGRATIONS: Final = Path(__file__).parent / "migrations"
_UPGRADE_LOCK: Final = 0x70656E73746F636B
"""PostgreSQL advisory lock held while the schema changes; any number will do, as long as it stays the same."""


def upgrade(database: Database, *, create: bool) -> None:
    """One transaction: instances that start together wait for the first one's upgrade and then find nothing to do."""
    # Asked first without a lock: most starts have nothing to upgrade and should not wait for writers.
    if current_version(database) == known_version():
        return
    with database.write() as connection:
        if not database.is_sqlite:
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_UPGRADE_LOCK)))
        version = _version(connection)
        if version is None and not create:
            raise StoreMissing("the database holds no store", hint="`penstock run` makes one")
        if version is not None and version not in versions():
            raise StoreTooNew(
                "the store was upgraded by a newer Penstock",
                received=version,
                allowed=known_version(),
                hint="run that version, or a later one",
            )
        migrate(connection)


@cache
def versions() -> list[str]:
    """The versions this Penstock knows, oldest first: the numbers that the migrations' file names begin with."""
    return sorted(path.name.partition("_")[0] for path in _MIGRATIONS.glob("versions/[0-9]*_*.py"))


def known_version() -> str:
    """The version this Penstock works with."""
    return versions()[-1]


def version_at(address: str) -> str | None:
    """The version of the store at an address, which is left as it is."""
    database = Database.connect(address, create=False)
    try:
        return current_version(database)
    finally:
        database.close()


def current_version(database: Database) -> str | None:
    """The version of the store's schema; None where there is none yet."""
    with database.read() as connection:
        return _version(connection)


def _version(connection: sa.Connection) -> str | None:
    if not sa.inspect(connection).has_table(VERSION_TABLE):
        return None
    found: str | None = connection.scalar(sa.select(sa.column("version_num")).select_from(sa.table(VERSION_TABLE)))
    return found


def migrate(connection: sa.Connection, version: str = "head") -> None:
    """Run the migrations up to a version, within the connection's transaction."""
    # Alembic takes as long to import as SQLAlchemy; commands that find a store in order go without.
    from alembic import command  # noqa: PLC0415 - see above
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, version)
