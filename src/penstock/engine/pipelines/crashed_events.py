"""An event that killed its worker twice becomes a dead letter: nobody else can tell what it was, so the driver reads
it."""

from __future__ import annotations

from penstock.core.dead_letter import Stage
from penstock.core.deadline import Deadline
from penstock.core.errors import PenstockError, Terminal, Unavailable
from penstock.core.event import Record
from penstock.kafka.client import KafkaClientConfig
from penstock.kafka.partition_reader import PartitionReader
from penstock.pipeline.chain import FailedItem
from penstock.pipeline.failures import failed_event
from penstock.pipeline.messages import FailedEvent, Partition

_READ_WITHIN = 10.0


class Crashed(PenstockError, Terminal):
    """An event ended the process that worked on it."""

    code = "crash"


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


def _read(client: KafkaClientConfig, group: str, partition: Partition, offset: int) -> Record | None:
    reader = PartitionReader(client, name=group)
    deadline = Deadline.after(_READ_WITHIN)
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
