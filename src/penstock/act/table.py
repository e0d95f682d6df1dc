"""The `table` action: each event becomes a row of a table, exactly once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, field_validator, model_validator

from penstock.config.model import Model, ProblemAt
from penstock.core.declarations import REFERABLE, Address
from penstock.core.durations import Duration
from penstock.core.event import Event
from penstock.core.plugin import PipelineContext
from penstock.core.plugin_config import parse_config
from penstock.tables.action import RowAction
from penstock.tables.bulk import bulk_of
from penstock.tables.columns import ColumnSpec, Metadata, columns_of
from penstock.tables.errors import ColumnError
from penstock.tables.shape import Mode, Row, readers_of, shape_of
from penstock.tables.target import Connection, Target, parse_url

_METADATA: dict[Metadata, str] = {
    "topic": "kafka_topic",
    "partition": "kafka_partition",
    "offset": "kafka_offset",
    "timestamp": "kafka_timestamp",
    "key": "kafka_key",
}


class BatchSpec(Model):
    """How much is written at once."""

    size: int = Field(default=5_000, ge=1, le=100_000)
    """Events of one transaction at most."""
    time: Duration = Field(default=0.02, ge=0)
    """How long events are collected for one transaction."""


class TableConfig(Model):
    """Keys of the `table` action."""

    url: Annotated[str, Address("database"), REFERABLE]
    """Database as a SQLAlchemy URL: `postgresql://user:password@host/name`, `mysql://…`, `sqlite:////path/file.db`."""
    table: str = Field(min_length=1)
    """Name of the table, `schema.name` where it is in a schema of its own."""
    columns: dict[str, ColumnSpec] = Field(min_length=1)
    """Column to dotted path into the event, CEL expression, or `{from | cel, type, default}`."""
    mode: Mode = "append"
    """`append`: a row per event. `upsert`: the last event of a key. `latest`: the newest event of a key by `newest`."""
    keys: list[str] = Field(default_factory=list)
    """Columns that identify a row, for `upsert` and `latest`."""
    newest: str | None = None
    """With `latest`: the column by which one row is newer than another, for instance a timestamp."""
    metadata: dict[Metadata, str] = Field(default_factory=dict)
    """Where the event was, to column: `topic`, `partition`, `offset`, `timestamp`, `key`; `true`: all, as `kafka_…`."""
    create: bool = False
    """True: make the table if there is none, and add columns that it lacks."""
    batch: BatchSpec = Field(default_factory=BatchSpec)
    """How much is written at once."""

    @field_validator("url")
    @classmethod
    def _an_address(cls, url: str) -> str:
        parse_url(url)
        return url

    @field_validator("columns", mode="before")
    @classmethod
    def _short_forms(cls, columns: Any) -> Any:
        if not isinstance(columns, dict):
            return columns
        return {name: {"from": given} if isinstance(given, str) else given for name, given in columns.items()}

    @field_validator("metadata", mode="before")
    @classmethod
    def _all_of_it(cls, metadata: Any) -> Any:
        if metadata is True:
            return dict(_METADATA)
        return {} if metadata in (None, False) else metadata

    @model_validator(mode="after")
    def _keys_fit(self) -> Self:
        known = [*self.columns, *self.metadata.values()]
        if len(set(known)) != len(known):
            twice = next(name for name in known if known.count(name) > 1)
            raise ProblemAt(["metadata"], f"column {twice} is filled twice", received=twice)
        if self.mode == "replace":
            raise ProblemAt(["mode"], "'replace' is not allowed", allowed=["append", "upsert", "latest"])
        if self.mode == "append" and self.keys:
            raise ProblemAt(["keys"], "mode append has no keys", hint="mode: upsert finds a row again by its keys")
        if self.mode != "append" and not self.keys:
            raise ProblemAt(["keys"], f"required: mode {self.mode} finds a row again by them", allowed=known)
        for key in self.keys:
            if key not in known:
                raise ProblemAt(["keys"], f"there is no column {key}", received=key, allowed=known)
        if self.mode == "latest" and self.newest not in known:
            text = "required: the column that tells which row is newer" if self.newest is None else "no such column"
            raise ProblemAt(["newest"], text, received=self.newest, allowed=known)
        if self.mode != "latest" and self.newest is not None:
            raise ProblemAt(["newest"], f"mode {self.mode} takes the last event", hint="mode: latest compares")
        return self


class Table(RowAction[Row]):
    """Rows by columns; the batch is the worker's business."""

    config_model: ClassVar[type[TableConfig]] = TableConfig
    type_name: ClassVar[str] = "table"

    def __init__(self, config: TableConfig) -> None:
        super().__init__(Target(config.url))
        self.batch_size, self.batch_seconds = config.batch.size, config.batch.time
        columns = columns_of(config.columns, config.metadata)
        shape = shape_of(
            self.target,
            config.table,
            columns,
            mode=config.mode,
            keys=config.keys,
            newest=config.newest,
            create=config.create,
        )
        self._bulk = bulk_of(self.target, shape)
        self._readers = readers_of(shape, columns, self.target.dialect)
        self._needed = [(place, columns[place].name) for place in shape.places(shape.keys)]

    @classmethod
    def create(cls, config: dict[str, Any], ctx: PipelineContext) -> Self:  # noqa: ARG003 - the contract's signature
        return cls(parse_config(TableConfig, config, "table"))

    def prepare(self, event: Event) -> Row:
        row = tuple([read(event) for read in self._readers])
        for place, name in self._needed:
            if row[place] is None:
                raise ColumnError(f"column {name} is a key and the event has nothing for it")
        return row

    def write(self, connection: Connection, prepared: Sequence[Row]) -> None:
        self._bulk.write(connection, prepared)
