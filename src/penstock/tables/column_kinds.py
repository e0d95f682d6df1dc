"""Kinds of columns of the WhereHows tables, in the words of each database."""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

_MYSQL: Final = ("mysql", "mariadb")
# Binary: paths and names that differ in case or accents are different, as they are everywhere else.
_COLLATION: Final = "utf8mb4_bin"
ROW_ID: Final = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
"""SQLite numbers rows by itself only where the column is declared as INTEGER."""


def name_text(name: str, length: int, **options: Any) -> sa.Column[Any]:
    """A text that may be part of a key: MySQL wants its length, the others take any."""
    kind = sa.Text().with_variant(mysql.VARCHAR(length, charset="utf8mb4", collation=_COLLATION), *_MYSQL)
    return sa.Column(name, kind, **options)


def text(name: str, **options: Any) -> sa.Column[Any]:
    """A text of any length that occurs in paths and names."""
    return sa.Column(
        name, sa.Text().with_variant(mysql.TEXT(charset="utf8mb4", collation=_COLLATION), *_MYSQL), **options
    )


def long_text(name: str, **options: Any) -> sa.Column[Any]:
    """A document: a schema, a list in JSON."""
    kind = mysql.LONGTEXT(charset="utf8mb4", collation=_COLLATION)
    return sa.Column(name, sa.Text().with_variant(kind, *_MYSQL), **options)


def big(name: str, **options: Any) -> sa.Column[Any]:
    return sa.Column(name, sa.BigInteger(), **options)


def flag(name: str) -> sa.Column[Any]:
    """`Y` or `N`."""
    return sa.Column(name, sa.String(1))


def small_id(name: str, **options: Any) -> sa.Column[Any]:
    return sa.Column(name, sa.Integer(), autoincrement=False, **options)
