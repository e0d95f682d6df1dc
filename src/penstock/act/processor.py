"""The `processor` action: each topic has a processor that makes rows of its events, exactly once; WhereHows' model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

from pydantic import Field, field_validator

from penstock.config.model import Model
from penstock.core.clock import SYSTEM
from penstock.core.declarations import REFERABLE, Address, Needs
from penstock.core.errors import ConfigError
from penstock.core.event import Event
from penstock.core.loading import did_you_mean
from penstock.core.plugin import PipelineContext
from penstock.core.plugin_config import parse_config
from penstock.tables.action import RowAction
from penstock.tables.bulk import Bulk, bulk_of
from penstock.tables.clusters import Clusters
from penstock.tables.cursor import Place
from penstock.tables.errors import ColumnError, TargetError
from penstock.tables.expressions import Expressions
from penstock.tables.processor import Processor, ProcessorSettings, Writer
from penstock.tables.registry import is_built_in, resolve_processor
from penstock.tables.shape import Mode, Row, Shape, conversion, tells_apart
from penstock.tables.staging import identity_of
from penstock.tables.target import Connection, Target, parse_url

_ORIGIN: dict[str, Callable[[Event], Any]] = {
    "ps_topic": lambda event: event.record.topic(),
    "ps_partition": lambda event: event.record.partition(),
    "ps_offset": lambda event: event.record.offset(),
    "ps_ingested_at": lambda _event: SYSTEM.now_ms(),
}


_NOT_BUILT_IN = Needs("import", "a processor that is not built in", lambda name: not is_built_in(name))


class TopicSpec(Model):
    """What is done with the events of a topic."""

    processor: Annotated[str, _NOT_BUILT_IN] = Field(min_length=1)
    """Short name, WhereHows' class name, `package.module:Class` or `./file.py:Class`."""
    table: str = Field(min_length=1)
    """Table that its rows go to."""


class ProcessorConfig(Model):
    """Keys of the `processor` action."""

    url: Annotated[str, Address("database"), REFERABLE]
    """Database as a SQLAlchemy URL."""
    topics: dict[str, TopicSpec] = Field(min_length=1)
    """Topic to processor and table."""
    values: Literal["fixed", "v0.2.1"] = "fixed"
    """`v0.2.1`: the values that WhereHows computed, its mistakes included."""
    expressions: dict[str, Any] = Field(default_factory=dict)
    """Regular expressions over paths and names that replace the built-in ones."""
    zone: str = "UTC"
    """Time zone of dates made from times."""
    owners: bool = True
    """False: audit events leave owners alone."""

    @field_validator("url")
    @classmethod
    def _an_address(cls, url: str) -> str:
        parse_url(url)
        return url

    @field_validator("expressions")
    @classmethod
    def _known_expressions(cls, expressions: dict[str, Any]) -> dict[str, Any]:
        try:
            Expressions.of(expressions)
        except ConfigError as error:
            raise ValueError(str(error)) from None
        return expressions


class Prepared(NamedTuple):
    """What is to be written of one event."""

    route: Route
    record: dict[str, Any] | None
    rows: list[dict[str, Any]]


class _Plan(NamedTuple):
    """How rows with the same names are written."""

    bulk: Bulk
    fits: list[tuple[str, Callable[[Any], Any]]]


class Route:
    """One topic's way into its table."""

    def __init__(self, target: Target, topic: str, spec: TopicSpec, processor: Processor) -> None:
        self.topic = topic
        self.processor = processor
        self.writer = processor if isinstance(processor, Writer) else None
        self._target = target
        self._plans: dict[tuple[str, ...], _Plan] = {}
        found = target.inspect(spec.table)
        if found is None and self.writer is None:
            hint = "`penstock db create-staging` makes the staging tables"
            raise TargetError(f"topic {topic}: there is no table {spec.table}", received=spec.table, hint=hint)
        self._table = found
        self._identity = identity_of(spec.table) or tuple(processor.keys)
        self._mode: Mode = "append"
        if found is not None and self._identity:
            # Two partitions may bring the same row at the same moment: where the database can tell, it does.
            self._mode = "upsert" if tells_apart(target, found, self._identity) else "replace"
        if found is not None:
            self._origin = {name: read for name, read in _ORIGIN.items() if name in found.c}
            self._required = [c.name for c in found.c if not c.nullable and c.server_default is None and not _auto(c)]
            self._check(processor.columns)

    def _check(self, names: Mapping[str, str] | Sequence[str]) -> None:
        for name in names:
            self._column(name)

    def _column(self, name: str) -> None:
        if self._table is not None and name not in self._table.c:
            known = list(self._table.c.keys())
            raise TargetError(
                f"topic {self.topic}: table {self._table.name} has no column {name}",
                received=name,
                allowed=known,
                hint=did_you_mean(name, known) or None,
            )

    def rows(self, event: Event) -> list[dict[str, Any]]:
        """The processor's rows, with where they come from, complete."""
        made = self.processor.process(event.value, event.record.topic())
        rows = [made] if isinstance(made, Mapping) else list(made or ())
        origin = {name: read(event) for name, read in self._origin.items()} if rows else {}
        complete = [{**row, **origin} for row in rows]
        for row in complete if self._required else ():
            missing = [name for name in self._required if row.get(name) is None]
            if missing:
                raise ColumnError(f"nothing for {', '.join(missing)}, which must not be null", received=missing)
        return complete

    def write(self, connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
        """Rows with the same columns are written together, in their order."""
        lots: dict[tuple[str, ...], tuple[_Plan, list[Row]]] = {}
        for row in rows:
            given = tuple(row)
            plan = self._plans.get(given) or self._planned(given)
            lot = lots.get(plan.bulk.shape.names)
            if lot is None:
                lot = lots[plan.bulk.shape.names] = (plan, [])
            values = [None if (value := row[name]) is None else fit(value) for name, fit in plan.fits]
            lot[1].append(tuple(values))
        for plan, lot_rows in lots.values():
            plan.bulk.write(connection, lot_rows)

    def _planned(self, given: tuple[str, ...]) -> _Plan:
        """How rows with these names are written; what the table has no column for is left out."""
        if self._table is None:
            raise TargetError(f"topic {self.topic}: its processor returns rows, and there is no table for them")
        names = tuple(name for name in given if name in self._table.c)
        shape = Shape(self._table, names, self._mode, tuple(key for key in self._identity if key in names))
        fits = [(name, conversion(self._table.c[name], self._target.dialect)) for name in names]
        made = self._plans[given] = _Plan(bulk_of(self._target, shape), fits)
        return made


class ProcessorAction(RowAction[Prepared]):
    """Rows by processors."""

    config_model: ClassVar[type[ProcessorConfig]] = ProcessorConfig
    type_name: ClassVar[str] = "processor"

    def __init__(self, config: ProcessorConfig, folder: str | None) -> None:
        super().__init__(Target(config.url))
        self._clusters = Clusters(values=config.values)
        settings = ProcessorSettings(
            clusters=self._clusters,
            expressions=Expressions.of(config.expressions),
            values=config.values,
            zone=config.zone,
            owners=config.owners,
        )
        self._routes = {
            topic: Route(self.target, topic, spec, _made(spec.processor, folder, settings))
            for topic, spec in config.topics.items()
        }

    @classmethod
    def create(cls, config: dict[str, Any], ctx: PipelineContext) -> Self:
        return cls(parse_config(ProcessorConfig, config, "processor"), ctx.folder)

    def open(self, place: Place, offset: int) -> tuple[int, list[bytes]]:
        with self.target.transaction() as connection:
            self._clusters.refresh(connection)
        return super().open(place, offset)

    def prepare(self, event: Event) -> Prepared:
        route = self._routes[event.record.topic()]
        if route.writer is not None:
            return Prepared(route, event.value, [])
        return Prepared(route, None, route.rows(event))

    def write(self, connection: Connection, prepared: Sequence[Prepared]) -> None:
        self._clusters.refresh(connection)
        rows: dict[str, list[dict[str, Any]]] = {}
        for each in prepared:
            if each.route.writer is not None:
                each.route.writer.write(connection, each.record, each.route.topic)
            else:
                rows.setdefault(each.route.topic, []).extend(each.rows)
        for topic, some in rows.items():
            self._routes[topic].write(connection, some)


def _made(name: str, folder: str | None, settings: ProcessorSettings) -> Processor:
    processor = resolve_processor(name, folder)()
    processor.configure(settings)
    return processor


def _auto(column: Any) -> bool:
    """Whether the database numbers the rows by this column, or works it out."""
    return bool(column.identity or column.computed or (column.primary_key and column.autoincrement is True))
