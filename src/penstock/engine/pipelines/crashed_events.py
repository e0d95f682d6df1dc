"""Events that killed their worker twice: read by the driver, because no worker can report them, and made dead letters.

For a sink with a cursor in its database, the cursor has to pass the event, too, so that the partition can continue and
the event can still be replayed exactly once.
"""

from __future__ import annotations

from typing import Protocol

from penstock.act.registry import has_cursor
from penstock.config.spec import PipelineSpec
from penstock.core.clock import SYSTEM, Clock
from penstock.core.dead_letter import Stage
from penstock.core.deadline import Deadline
from penstock.core.errors import PenstockError, Terminal, Unavailable
from penstock.core.event import Record
from penstock.engine.pipelines.partitions import PartitionState
from penstock.kafka.client import KafkaClientConfig
from penstock.kafka.partition_reader import PartitionReader
from penstock.pipeline.failures import failed_event
from penstock.pipeline.items import FailedItem
from penstock.pipeline.messages import FailedEvent, Partition

_READ_WITHIN = 10.0


class Crashed(PenstockError, Terminal):
    """An event ended the process that worked on it."""

    code = "crash"


class CrashedEvents(Protocol):
    """What the driver asks about a poison event; each may raise `Unavailable`."""

    def failure(self, state: PartitionState, offset: int, *, stage: Stage, reason: str) -> FailedEvent | None:
        """The failure of the first event at or behind this offset; None: there is none any more."""

    def cursor(self, state: PartitionState) -> int | None:
        """The partition's cursor in the target; None: the target has none."""

    def pass_over(self, state: PartitionState, offset: int, cursor: int | None) -> None:
        """Move the target's cursor behind the event at `offset`, which is a durable dead letter now. There is no event
        between `cursor` and `offset`."""


class KafkaCrashedEvents:
    """Reads the event from its topic; cursors are in the target's database."""

    def __init__(self, spec: PipelineSpec, client: KafkaClientConfig) -> None:
        self._spec, self._client = spec, client
        self._has_cursor = has_cursor(spec)

    def failure(self, state: PartitionState, offset: int, *, stage: Stage, reason: str) -> FailedEvent | None:
        return failure_of(self._client, self._spec.group, state.key, offset, stage=stage, reason=reason)

    def cursor(self, state: PartitionState) -> int | None:
        if not self._has_cursor:
            return None
        from penstock.engine.pipelines.crashed_cursors import CrashedCursors  # noqa: PLC0415 - loads database libraries

        with CrashedCursors.opened(self._spec) as cursors:
            return cursors.read(cursors.place(*state.key, state.topic_id))

    def pass_over(self, state: PartitionState, offset: int, cursor: int | None) -> None:
        if self._has_cursor:
            from penstock.engine.pipelines.crashed_cursors import CrashedCursors  # noqa: PLC0415 - as above

            with CrashedCursors.opened(self._spec) as cursors:
                cursors.pass_over(cursors.place(*state.key, state.topic_id), offset, cursor)


def failure_of(
    client: KafkaClientConfig, group: str, partition: Partition, offset: int, *, stage: Stage, reason: str
) -> FailedEvent | None:
    """The failure of the first event from this offset on; None: there is none any more. Raises `Unavailable`."""
    record = _read(client, group, partition, offset)
    return None if record is None else failure_for(record, stage=stage, reason=reason)


def failure_for(record: Record, *, stage: Stage, reason: str) -> FailedEvent:
    """The failure of an event of which a worker died."""
    text = "the action holds its process" if stage == "timeout" else "the process that worked on the event died, twice"
    error = Crashed(f"{text}: {reason}" if reason else text)
    return failed_event(FailedItem(record, stage, error), stage, error, str)


def _read(
    client: KafkaClientConfig, group: str, partition: Partition, offset: int, clock: Clock = SYSTEM
) -> Record | None:
    reader = PartitionReader(client, name=group)
    deadline = Deadline.after(_READ_WITHIN, clock)
    try:
        reader.place({partition: offset})
        while not deadline.expired:
            batch = reader.read(1, min(1.0, deadline.remaining))
            if batch is not None and batch.records:
                return Record.of(batch.records[0])
            if reader.at_end(partition) or partition in reader.trouble.out_of_range | reader.trouble.gone:
                return None
    finally:
        reader.close()
    raise Unavailable(f"{partition[0]}/{partition[1]}@{offset} cannot be read", hint=reader.trouble.error)
