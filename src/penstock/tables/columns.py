"""From events to rows: what each column is made of, and what its type takes."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

import sqlalchemy as sa
from pydantic import Field, model_validator

from penstock.config.model import Model
from penstock.core.clock import parse_time
from penstock.core.event import Event, json_bytes
from penstock.core.expression import Cel, Expression
from penstock.tables.errors import ColumnError
from penstock.tables.quick import INTEGERS, Reader, quick_reader

ColumnType = Literal["text", "integer", "bigint", "float", "decimal", "boolean", "timestamp", "date", "json", "bytes"]
Metadata = Literal["topic", "partition", "offset", "timestamp", "key"]

PATH: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_MISSING: Final = object()


class ColumnSpec(Model):
    """What a column is made of."""

    from_: str | None = Field(default=None, alias="from")
    """Dotted path into the event, for instance `customer.name`; or a CEL expression."""
    cel: Cel | None = None
    """CEL expression, where a path would be taken for something else."""
    type: ColumnType | None = None
    """Type of the column; absent: that of the table's column, or `text` for one that is to be made."""
    default: Any = None
    """Value where the event has none, or null."""

    @model_validator(mode="after")
    def _one_source(self) -> ColumnSpec:
        if (self.from_ is None) == (self.cel is None):
            raise ValueError("give either `from` or `cel`")
        if self.from_ is not None and not PATH.fullmatch(self.from_):
            Expression(self.from_)
        return self

    @property
    def path(self) -> str | None:
        """None: it is an expression."""
        if self.from_ is None or not PATH.fullmatch(self.from_):
            return None
        return self.from_.removeprefix("event.")

    @property
    def getter(self) -> Reader:
        path = self.path
        return Expression(self.cel or self.from_ or "") if path is None else _path(path)


_METADATA: Final[dict[str, tuple[Callable[[Event], Any], ColumnType]]] = {
    "topic": (lambda event: event.record.topic(), "text"),
    "partition": (lambda event: event.record.partition(), "integer"),
    "offset": (lambda event: event.record.offset(), "bigint"),
    "timestamp": (lambda event: event.timestamp, "timestamp"),
    "key": (lambda event: event.key, "text"),
}


class Column:
    """One column of the rows."""

    __slots__ = ("_default", "_get", "_path", "name", "type")

    def __init__(
        self, name: str, get: Reader, kind: ColumnType | None, default: Any = None, path: str | None = None
    ) -> None:
        self.name = name
        self.type = kind
        self._get = get
        self._default = default
        self._path = path

    def reader(self, convert: Callable[[Any], Any], kind: ColumnType | None) -> Reader:
        """The column's value of an event, as the database takes it."""
        get, default, name = self._get, self._default, self.name

        def read(event: Event) -> Any:
            value = get(event)
            if value is None or value is _MISSING:
                value = default
            if value is None:
                return None
            try:
                return convert(value)
            except ColumnError as error:
                raise ColumnError(f"column {name}: {error.message}", received=error.received) from None

        return read if self._path is None else quick_reader(self._path, kind, read)


def columns_of(specs: Mapping[str, ColumnSpec], metadata: Mapping[Metadata, str]) -> list[Column]:
    """The columns, metadata last; `metadata` maps what it is to the column's name."""
    made = [Column(name, spec.getter, spec.type, spec.default, spec.path) for name, spec in specs.items()]
    return made + [Column(name, *_METADATA[what]) for what, name in metadata.items()]


def _path(path: str) -> Reader:
    if "." not in path:

        def field(event: Event) -> Any:
            value = event.value
            return value.get(path, _MISSING) if isinstance(value, Mapping) else _MISSING

        return field
    names = path.split(".")

    def within(event: Event) -> Any:
        value = event.value
        for name in names:
            if not isinstance(value, Mapping):
                return _MISSING
            value = value.get(name, _MISSING)
        return value

    return within


# -- types ---------------------------------------------------------------------------------


def converter(kind: ColumnType) -> Callable[[Any], Any]:
    """Makes a value fit for a type, or raises `ColumnError`; never cuts, rounds or guesses."""
    return _CONVERTERS[kind]


def kind_of(column: sa.Column[Any]) -> ColumnType | None:
    """Our word for a database's type; None: whatever comes is handed over."""
    kind = column.type
    for types, word in _KINDS:
        if isinstance(kind, types):
            return word
    return None


def sql_type(kind: ColumnType, *, key: bool) -> sa.types.TypeEngine[Any]:
    """The type of a column that is to be made."""
    if kind == "text" and key:
        return sa.String(255)  # MySQL takes no key over texts of any length
    return _SQL[kind]


def _no(value: Any, wanted: str) -> ColumnError:
    shown = repr(value)
    return ColumnError(
        f"{wanted} is wanted, not {shown if len(shown) <= 80 else shown[:77] + '...'}", received=shown[:200]
    )


def _text(value: Any) -> str:
    if type(value) is str and "\0" not in value:
        return value
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            raise _no(value, "text in UTF-8") from None
    elif isinstance(value, bool):
        value = "true" if value else "false"
    elif not isinstance(value, str):
        value = json_bytes(value).decode() if isinstance(value, (Mapping, list, tuple)) else str(value)
    if "\0" in value:
        raise _no(value, "text without NUL")
    return str(value)


def _integer(kind: str) -> Callable[[Any], int]:
    low, high = INTEGERS[kind]

    def convert(value: Any) -> int:
        if type(value) is int and low <= value <= high:
            return value
        whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        if not whole and not (isinstance(value, (str, decimal.Decimal)) and re.fullmatch(r"[+-]?[0-9]+", str(value))):
            raise _no(value, "a whole number")
        number = int(value)
        if not low <= number <= high:
            raise _no(value, f"a whole number from {low} to {high}")
        return number

    return convert


def _float(value: Any) -> float:
    if isinstance(value, (int, float, decimal.Decimal, str)) and not isinstance(value, bool):
        try:
            return float(value)
        except (ValueError, OverflowError):
            pass
    raise _no(value, "a number")


def _decimal(value: Any) -> decimal.Decimal:
    if isinstance(value, (int, float, decimal.Decimal, str)) and not isinstance(value, bool):
        try:
            number = decimal.Decimal(str(value))
        except decimal.InvalidOperation:
            raise _no(value, "a number") from None
        if number.is_finite():
            return number
    raise _no(value, "a number")


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if value in (0, 1):
        return bool(value)
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise _no(value, "true or false")


def _timestamp(value: Any) -> dt.datetime:
    """Epoch milliseconds or an ISO text; always in UTC, without a zone where the database has none."""
    if isinstance(value, dt.datetime):
        return value if value.tzinfo else value.replace(tzinfo=dt.UTC)
    try:
        if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
            return dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(milliseconds=value)
        if isinstance(value, str):
            return dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(milliseconds=parse_time(value))
    except (ValueError, OverflowError):
        pass
    raise _no(value, "epoch milliseconds or a time like 2026-01-01T00:00:00Z")


def _date(value: Any) -> dt.date:
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return value
    if isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d-\d\d", value):
        try:
            return dt.date.fromisoformat(value)
        except ValueError:
            raise _no(value, "a date like 2026-01-31") from None
    return _timestamp(value).date()


def _json(value: Any) -> str:
    return json_bytes(value).decode()


def _bytes(value: Any) -> bytes:
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    if isinstance(value, str):
        return value.encode()
    raise _no(value, "bytes or text")


_CONVERTERS: Final[dict[str, Callable[[Any], Any]]] = {
    "text": _text,
    "integer": _integer("integer"),
    "bigint": _integer("bigint"),
    "float": _float,
    "decimal": _decimal,
    "boolean": _boolean,
    "timestamp": _timestamp,
    "date": _date,
    "json": _json,
    "bytes": _bytes,
}
_KINDS: Final[tuple[tuple[Any, ColumnType], ...]] = (
    (sa.BigInteger, "bigint"),
    (sa.Integer, "bigint"),
    (sa.Boolean, "boolean"),
    (sa.Float, "float"),
    (sa.Numeric, "decimal"),
    (sa.JSON, "json"),
    (sa.DateTime, "timestamp"),
    (sa.Date, "date"),
    (sa.LargeBinary, "bytes"),
    (sa.String, "text"),
)
_SQL: Final[dict[str, sa.types.TypeEngine[Any]]] = {
    "text": sa.Text(),
    "integer": sa.Integer(),
    "bigint": sa.BigInteger(),
    "float": sa.Double(),
    "decimal": sa.Numeric(38, 9),
    "boolean": sa.Boolean(),
    "timestamp": sa.DateTime(timezone=True),
    "date": sa.Date(),
    "json": sa.JSON(),
    "bytes": sa.LargeBinary(),
}
