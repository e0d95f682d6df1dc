"""Writes everything that is encrypted anew, in one transaction, for a change of the key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import sqlalchemy as sa

from penstock.store.database import Database
from penstock.store.workflow_tables import projects, secrets, snapshots, triggers

_CONFIGURATIONS: Final = (
    (projects, ("settings",)),
    (snapshots, ("definition",)),
    (triggers, ("kafka_configuration", "options")),
)


def rekey(database: Database, configuration: Callable[[Any], Any], value: Callable[[str, bytes], bytes]) -> int:
    """Pass every stored configuration, and every named secret, through these; how many rows have changed.

    What either raises undoes all of it."""
    changed = 0
    with database.write() as connection:
        if not database.is_sqlite:
            # Nobody may save under the old key meanwhile; readers go on.
            names = ", ".join(table.name for table in (secrets, *(table for table, _ in _CONFIGURATIONS)))
            connection.execute(sa.text(f"LOCK TABLE {names} IN EXCLUSIVE MODE"))
        for table, columns in _CONFIGURATIONS:
            for row in connection.execute(sa.select(table.c.id, *(table.c[name] for name in columns))).mappings().all():
                fresh = {name: configuration(row[name]) for name in columns}
                if any(fresh[name] != row[name] for name in columns):
                    connection.execute(sa.update(table).where(table.c.id == row["id"]).values(fresh))
                    changed += 1
        for row in connection.execute(sa.select(secrets.c.name, secrets.c.value)).mappings().all():
            fresh_value = {"value": value(row["name"], row["value"])}
            connection.execute(sa.update(secrets).where(secrets.c.name == row["name"]).values(fresh_value))
            changed += 1
    return changed
