"""Units of a table pipeline without Spark and broker: the executor over a SQLite file, fed with records."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from penstock.config.spec import PipelineSpec
from penstock.core.clock import SYSTEM, Clock
from penstock.core.deadline import Deadline
from penstock.core.event import Record
from penstock.core.plugin import PipelineContext
from penstock.pipeline.chain import Chain
from penstock.pipeline.executors.transactional import TransactionalExecutor
from penstock.pipeline.items import Item
from penstock.pipeline.messages import Assignment, FailedEvent, PartitionOutcome
from penstock.pipeline.unit_result import UnitResult

TOPIC = "t"
KEY = (TOPIC, 0)


def table_spec(url: str, **options: Any) -> PipelineSpec:
    """A pipeline that writes `id` of every event whose `keep` is true."""
    columns = {"id": {"from": "id", "type": "bigint"}}
    return PipelineSpec.model_validate(
        {
            "name": "p",
            "source": {"config": {"topics": [TOPIC], "format": "json", "connection": {"bootstrap": "127.0.0.1:1"}}},
            "filters": [{"type": "match", "config": {"event": {"keep": True}}}],
            "action": {"type": "table", "config": {"url": url, "table": "rows", "columns": columns, "create": True}},
            "options": options,
        }
    )


def record(offset: int, value: bytes | None = None, partition: int = 0) -> Record:
    return Record(TOPIC, partition, offset, b"k", value or b'{"id": %d, "keep": true}' % offset, None, 1, 1)


def refused(offset: int) -> Record:
    """The table has no room for a text in a column of numbers."""
    return record(offset, b'{"id": "no number", "keep": true}')


def filtered(offset: int) -> Record:
    return record(offset, b'{"id": %d, "keep": false}' % offset)


@dataclass
class Outcome:
    """What a unit says of one partition."""

    began_at: int
    next_offset: int
    acted: int
    failures: list[FailedEvent]
    halt: str | None

    @property
    def failed(self) -> list[int]:
        return [each.record.offset() for each in self.failures]


class Worker:
    """A process that has the pipeline."""

    def __init__(self, url: str, clock: Clock = SYSTEM, **options: Any) -> None:
        self.spec = table_spec(url, **options)
        self.chain = Chain.build(self.spec, PipelineContext(self.spec.name))
        self.executor = TransactionalExecutor(self.chain, self.spec, clock)
        self.clock = clock

    def begin(self, *assignments: Assignment, replays: bool = False) -> list[int | None]:
        """The offsets to read from."""
        executor = self.executor
        executor.open_cursors(assignments, replays=replays)
        self.starts = {a.key: executor.start_offset(a, replays=replays) for a in assignments}
        self.assignments = {a.key: a for a in assignments}
        self.tally = UnitResult(str, throw=self.spec.options.failure_mode == "THROW")
        executor.begin(self.tally, Deadline.after(60.0, self.clock))
        return list(self.starts.values())

    def counts(self, key: tuple[str, int] = KEY) -> tuple[int, int]:
        """L2: events of this unit that were written, and that failed."""
        return self.tally.acted_by.get(key, 0), self.tally.failed_by.get(key, 0)

    def feed(self, records: Iterable[Record]) -> None:
        given = list(records)
        self.executor.feed(self.chain.prepare_batch(given).items)
        self.executor.mark_consumed({(r.topic(), r.partition()): r.offset() + 1 for r in given})

    def finish(self, key: tuple[str, int] = KEY) -> tuple[Outcome, list[Item]]:
        """The outcome of the partition, and what is not finished."""
        rest = self.executor.finish()
        self.executor.reported(
            [PartitionOutcome(*a.key, a.epoch, self.executor.cursor(a.key) or 0) for a in self.assignments.values()]
        )
        began_at, cursor = self.starts[key], self.executor.cursor(key)
        assert began_at is not None
        assert cursor is not None
        halt = self.tally.halt.code if self.tally.halt else None
        failures = [f for f in self.tally.failures if (f.record.topic(), f.record.partition()) == key]
        return Outcome(began_at, cursor, self.counts(key)[0], failures, halt), rest

    def run(self, a: Assignment, records: Iterable[Record]) -> Outcome:
        """A whole unit; records are those of the log, of which it reads what it wants."""
        (start,) = self.begin(a)
        assert start is not None
        self.feed(r for r in records if r.offset() >= start)
        return self.finish(a.key)[0]

    def close(self) -> None:
        self.chain.action.close()

    # -- what the database has -------------------------------------------------------------

    def query(self, statement: str) -> list[Any]:
        with self.executor.action.target.transaction() as connection:
            return [tuple(row) for row in connection.execute(sa.text(statement))]

    @property
    def rows(self) -> list[int]:
        return [row[0] for row in self.query('SELECT id FROM "rows" ORDER BY id')]

    @property
    def cursors(self) -> dict[str, int]:
        return dict(self.query('SELECT topic_id, next_offset FROM penstock_cursors WHERE "partition" = 0'))

    @property
    def failure_states(self) -> dict[int, str]:
        return dict(self.query('SELECT "offset", state FROM penstock_failures'))
