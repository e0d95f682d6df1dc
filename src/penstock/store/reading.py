"""Rows as objects. By a row's own mapping SQLAlchemy works out the names of its columns for each row anew, which takes
longer than to read it."""

from __future__ import annotations

from typing import Any, TypeVar

import sqlalchemy as sa

T = TypeVar("T")


def read_as(kind: type[T], connection: sa.Connection, query: sa.Select[Any]) -> list[T]:
    """An object of this kind for each row; columns are named as its fields."""
    result = connection.execute(query)
    names = tuple(result.keys())
    return [kind(**dict(zip(names, row, strict=True))) for row in result]
