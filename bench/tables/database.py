"""The database of a measurement, asked from outside."""

from __future__ import annotations

from contextlib import suppress

import psycopg


def plain(url: str) -> str:
    return url.replace("postgresql+psycopg://", "postgresql://")


def execute(url: str, statement: str) -> None:
    with psycopg.connect(plain(url), autocommit=True) as connection:
        connection.execute(statement)  # type: ignore[arg-type]  # a text of ours


def taken(url: str, pipeline: str = "%") -> int:
    """Events of a pipeline, or of all, by the cursor; there is none before the first instance has made it."""
    with psycopg.connect(plain(url), autocommit=True) as connection, suppress(psycopg.errors.UndefinedTable):
        query = "SELECT coalesce(sum(next_offset), 0) FROM penstock_cursors WHERE pipeline LIKE %s"
        found = connection.execute(query, [pipeline]).fetchone()
        return int(found[0]) if found else 0
    return 0


def counted(url: str, table: str) -> int:
    with psycopg.connect(plain(url), autocommit=True) as connection:
        counted = connection.execute(f"SELECT count(*) FROM {table}").fetchone()  # type: ignore[arg-type]  # noqa: S608 - names of ours
    return int(counted[0]) if counted else 0
