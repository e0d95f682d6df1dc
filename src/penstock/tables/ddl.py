"""The table that a processor's rows fit into, as the statement that makes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, get_args

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.schema import CreateTable

from penstock.core.errors import ConfigError
from penstock.core.loading import did_you_mean
from penstock.tables.columns import ColumnType, sql_type
from penstock.tables.processor import Processor, Writer

DIALECTS: Final[dict[str, Any]] = {
    "postgresql": postgresql.dialect,
    "mysql": mysql.dialect,
    "mariadb": mysql.dialect,
    "sqlite": sqlite.dialect,
}
_ORIGIN: Final[dict[str, ColumnType]] = {
    "ps_topic": "text",
    "ps_partition": "integer",
    "ps_offset": "bigint",
    "ps_ingested_at": "bigint",
}
"""Where a row comes from; filled by themselves where a table has these columns."""


def ddl_of(processor: type[Processor], table: str, dialect: str) -> str:
    """`CREATE TABLE` with the columns that the class names, and its keys as the primary key."""
    if dialect not in DIALECTS:
        raise ConfigError(f"there is no database `{dialect}`", received=dialect, allowed=list(DIALECTS))
    made = sa.Table(table, sa.MetaData(), *_columns(processor))
    return f"{str(CreateTable(made).compile(dialect=DIALECTS[dialect]())).strip()};\n"


def _columns(processor: type[Processor]) -> list[sa.Column[Any]]:
    if issubclass(processor, Writer):
        raise ConfigError(
            f"{processor.__name__} writes to tables of its own", hint="`penstock db create-staging` makes them"
        )
    kinds = _kinds(processor.__name__, processor.columns)
    keys = list(processor.keys)
    unknown = [key for key in keys if key not in kinds]
    if unknown:
        hint = did_you_mean(unknown[0], list(kinds)) or None
        raise ConfigError(f"{processor.__name__}: the key {unknown[0]} is no column", received=unknown[0], hint=hint)
    return [
        sa.Column(name, sql_type(kind, key=name in keys), primary_key=name in keys, autoincrement=False)
        for name, kind in (kinds | {name: kind for name, kind in _ORIGIN.items() if name not in kinds}).items()
    ]


def _kinds(name: str, columns: Mapping[str, str] | Sequence[str]) -> dict[str, ColumnType]:
    if not columns or isinstance(columns, str):
        raise ConfigError(
            f"{name} does not name its columns",
            hint='give the class an attribute: columns = {"id": "bigint", "name": "text"}',
        )
    given = dict(columns) if isinstance(columns, Mapping) else dict.fromkeys(columns, "text")
    known: dict[str, ColumnType] = {kind: kind for kind in get_args(ColumnType)}
    for column, kind in given.items():
        if kind not in known:
            hint = did_you_mean(str(kind), list(known)) or f"known are: {', '.join(known)}"
            raise ConfigError(
                f"{name}: column {column} has no type `{kind}`", received=kind, allowed=list(known), hint=hint
            )
    return {column: known[kind] for column, kind in given.items()}
