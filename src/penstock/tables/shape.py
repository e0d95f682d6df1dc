"""A table as its pipeline sees it: the columns it fills, found in the database or made there."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import sqlalchemy as sa
from sqlalchemy import exc

from penstock.core.event import Event
from penstock.core.loading import did_you_mean
from penstock.tables.columns import Column, ColumnType, converter, kind_of, sql_type
from penstock.tables.errors import TargetError, words
from penstock.tables.target import Target

Mode = Literal["append", "upsert", "latest", "replace"]
Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """Where rows go, and what they are."""

    table: sa.Table
    names: tuple[str, ...]
    mode: Mode
    keys: tuple[str, ...] = ()
    newest: str | None = None
    """With `latest`: the column that tells which of two rows is the newer one."""

    def places(self, names: Sequence[str]) -> tuple[int, ...]:
        return tuple(self.names.index(name) for name in names)


def shape_of(
    target: Target,
    table: str,
    columns: Sequence[Column],
    *,
    mode: Mode,
    keys: Sequence[str] = (),
    newest: str | None = None,
    create: bool = False,
) -> Shape:
    """Look at the table, or make what is missing of it; `TargetError` names what does not fit."""
    found = target.inspect(table)
    if found is None:
        if not create:
            hint = "make it, or let it be made with create: true"
            raise TargetError(f"there is no table {table} in {target.shown}", received=table, hint=hint)
        _make(target, table, columns, keys)
    else:
        missing = [column for column in columns if column.name not in found.c]
        if missing and not create:
            raise _no_columns(table, missing, found)
        for column in missing:
            _add(target, found, column)
    made = target.inspect(table)
    if made is None:
        raise TargetError(f"the table {table} was made and is not there", received=table)
    if mode in ("upsert", "latest"):
        _require_key(target, made, keys)
    return Shape(made, tuple(column.name for column in columns), mode, tuple(keys), newest)


def readers_of(shape: Shape, columns: Sequence[Column], dialect: str) -> list[Callable[[Event], Any]]:
    """How each column's value is taken from an event."""
    made: list[Callable[[Event], Any]] = []
    for column in columns:
        there = shape.table.c[column.name]
        kind = column.type or kind_of(there)
        made.append(column.reader(conversion(there, dialect, kind), kind))
    return made


def conversion(column: sa.Column[Any], dialect: str, kind: ColumnType | None = None) -> Callable[[Any], Any]:
    """Makes values fit for the column and for the driver."""
    word = kind or kind_of(column)
    if word is None:
        return lambda value: value
    convert = converter(word)
    if word in ("timestamp", "date", "decimal") or (word == "json" and isinstance(column.type, sa.JSON)):
        bare = word == "timestamp" and not getattr(column.type, "timezone", False)
        return lambda value: _driven(convert(value), dialect, bare=bare)
    return convert


def _driven(value: Any, dialect: str, *, bare: bool) -> Any:
    """As the driver takes it: times without a zone are UTC, and SQLite has neither times nor decimals."""
    if isinstance(value, dt.datetime) and (bare or dialect != "postgresql"):
        value = value.astimezone(dt.UTC).replace(tzinfo=None)
    if dialect == "sqlite":
        if isinstance(value, dt.datetime):
            return value.isoformat(" ", "microseconds")
        if isinstance(value, (dt.date, decimal.Decimal)):
            return str(value)
    return value


_UNIQUE: Final = "the keys must be unique in the table, so that a row is found again"


def _require_key(target: Target, table: sa.Table, keys: Sequence[str]) -> None:
    with target.transaction() as connection:
        inspector = sa.inspect(connection)
        found = [inspector.get_pk_constraint(table.name, schema=table.schema)["constrained_columns"]]
        found += [each["column_names"] for each in inspector.get_unique_constraints(table.name, schema=table.schema)]
        found += [
            [name for name in index["column_names"] if name]
            for index in inspector.get_indexes(table.name, schema=table.schema)
            if index["unique"]
        ]
    if set(keys) not in [set(each) for each in found if each]:
        has = "; ".join(", ".join(each) for each in found if each) or "none"
        raise TargetError(
            f"table {table.name} has no unique key over {', '.join(keys)}",
            received=list(keys),
            allowed=has,
            hint=_UNIQUE,
        )


def tells_apart(target: Target, table: sa.Table, identity: Sequence[str]) -> bool:
    """Whether the database itself keeps one row per identity, where NULL equals NULL: then it can be upserted."""
    if target.dialect == "mysql":
        return "ps_identity" in table.c
    with target.transaction() as connection:
        indexes = sa.inspect(connection).get_indexes(table.name, schema=table.schema)
    return any(
        index["unique"]
        and set(index["column_names"]) == set(identity)
        and index.get("dialect_options", {}).get("postgresql_nulls_not_distinct")
        for index in indexes
    )


def _no_columns(table: str, missing: Sequence[Column], found: sa.Table) -> TargetError:
    names = [column.name for column in missing]
    known = list(found.c.keys())
    hint = did_you_mean(names[0], known) or "make them, or let them be added with create: true"
    return TargetError(f"table {table} has no column {', '.join(names)}", received=names, allowed=known, hint=hint)


def _make(target: Target, table: str, columns: Sequence[Column], keys: Sequence[str]) -> None:
    schema, _, name = table.rpartition(".")
    made = sa.Table(
        name,
        sa.MetaData(),
        *(
            sa.Column(
                column.name,
                sql_type(column.type or "text", key=column.name in keys),
                primary_key=column.name in keys,
                autoincrement=False,
            )
            for column in columns
        ),
        schema=schema or None,
    )
    try:
        with target.transaction() as connection:
            made.create(connection, checkfirst=True)
    except exc.SQLAlchemyError as error:
        if target.inspect(table) is None:  # else another lane was faster
            raise TargetError(f"the table {table} cannot be made: {words(error)}", received=table) from error


def _add(target: Target, table: sa.Table, column: Column) -> None:
    prepare = target.preparer
    kind = sql_type(column.type or "text", key=False).compile(dialect=target.sql_dialect)
    statement = f"ALTER TABLE {prepare.format_table(table)} ADD COLUMN {prepare.quote(column.name)} {kind}"
    try:
        with target.transaction() as connection:
            connection.exec_driver_sql(statement)
    except exc.SQLAlchemyError as error:
        now = target.inspect(table.fullname)
        if now is None or column.name not in now.c:  # else another lane was faster
            text = f"column {column.name} cannot be added to {table.fullname}: {words(error)}"
            raise TargetError(text, received=column.name) from error
