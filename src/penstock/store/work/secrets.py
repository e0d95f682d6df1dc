"""Named secrets, as the cipher made them: this repository never sees what they say."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from penstock.store.database import Database
from penstock.store.upsert import upsert
from penstock.store.workflow_tables import secrets

_c = secrets.c


class Secrets:
    """The repository of encrypted values by name; the name `` is for the cipher's own check."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, name: str) -> bytes | None:
        with self._database.read() as connection:
            return connection.scalar(sa.select(_c.value).where(_c.name == name))

    def all(self) -> dict[str, bytes]:
        with self._database.read() as connection:
            return {row.name: row.value for row in connection.execute(sa.select(_c.name, _c.value))}

    def names(self) -> list[str]:
        """Without the cipher's own."""
        with self._database.read() as connection:
            return list(connection.scalars(sa.select(_c.name).where(_c.name != "").order_by(_c.name)))

    def set(self, name: str, value: bytes) -> None:
        self.set_all({name: value})

    def set_all(self, values: Mapping[str, bytes]) -> None:
        """Many in one transaction, for a change of the key."""
        if not values:
            return
        with self._database.write() as connection:
            now = self._database.micros(connection)
            rows = [{"name": name, "value": value, "updated_at": now} for name, value in sorted(values.items())]
            connection.execute(upsert(self._database, secrets), rows)

    def delete(self, name: str) -> bool:
        """True where there was one."""
        with self._database.write() as connection:
            return bool(connection.execute(sa.delete(secrets).where(_c.name == name)).rowcount)
