"""An event that killed its worker, of a pipeline that writes into a database: its cursor must pass it, too."""

from __future__ import annotations

from penstock.config.spec import PipelineSpec
from penstock.engine.pipelines.partitions import PartitionState
from penstock.tables import cursor
from penstock.tables.target import Target


def was_written(spec: PipelineSpec, own: PartitionState, offset: int) -> bool:
    """Whether the event took effect before its worker died; `Unavailable` where the database is away."""
    target, place = _reached(spec, own)
    try:
        with target.transaction() as connection:
            found = cursor.read(connection, place)
            return found is not None and found > offset
    finally:
        target.close()


def pass_over(spec: PipelineSpec, own: PartitionState, offset: int) -> None:
    """The event is a dead letter: the cursor goes on behind it, and a replay may write it."""
    target, place = _reached(spec, own)
    try:
        with target.transaction() as connection:
            if cursor.read(connection, place) == offset:
                cursor.move(connection, place, offset, offset + 1)
                cursor.keep(connection, place, [(offset, b"")])
                cursor.settle(connection, place, offset + 1)
    finally:
        target.close()


def _reached(spec: PipelineSpec, own: PartitionState) -> tuple[Target, cursor.Place]:
    place = cursor.Place(spec.name, own.topic_id, own.partition, own.topic)
    return Target(str(spec.action.config["url"])), place
