"""Events that hang or kill their worker, of a pipeline whose target has the cursor: the driver moves the cursor behind
such an event, once it is a dead letter."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from penstock.config.spec import PipelineSpec
from penstock.tables import cursor
from penstock.tables.cursor import Place
from penstock.tables.target import Target


class CrashedCursors:
    """The cursors of one pipeline, as the driver reads and moves them. Tables and work orders alike: both have cursor
    and failures in the database that has their rows. Every method is one transaction, blocks for it, and raises
    `Unavailable` where the database does not answer.

    The order that loses nothing, for an event at `offset`:

    1. `read`: a cursor above `offset` says that the event has ended, in the target or as a failure there: it is passed.
    2. Read the log from the cursor (from the assignment's next offset where there is none). Another first record than
       the event itself is one that was never written: plan the partition again, one event at a time.
    3. Settle the event as a dead letter.
    4. `pass_over`.

    A driver that dies in between begins again at 1.
    """

    def __init__(self, target: Target, pipeline: str) -> None:
        self._target = target
        self._pipeline = pipeline

    @classmethod
    @contextmanager
    def opened(cls, spec: PipelineSpec) -> Iterator[CrashedCursors]:
        """The cursors in the target that the pipeline's action names."""
        target = Target(str(spec.action.config["url"]))
        try:
            yield cls(target, spec.name)
        finally:
            target.close()

    def place(self, topic: str, partition: int, topic_id: str) -> Place:
        """L4: with the topic id of the assignment under which the event was read."""
        return Place(self._pipeline, topic_id, partition, topic)

    def read(self, place: Place) -> int | None:
        """The cursor; None: the target has none."""
        with self._target.transaction() as connection:
            return cursor.read(connection, place)

    def was_written(self, place: Place, offset: int) -> bool:
        """Whether the event has ended in the target: written, filtered, or noted there as a failure."""
        found = self.read(place)
        return found is not None and found > offset

    def pass_over(self, place: Place, offset: int, current: int | None = None) -> None:
        """Move the cursor from `current` behind the event at `offset`, which is a dead letter; a replay may write it.

        `current` is the cursor below which the caller found the log without a record before `offset` (compaction,
        transaction markers); absent: `offset` itself. Without effect where the cursor is behind the event already.
        I5: `Fenced` where the cursor is neither: events before this one are not written, for instance because an older
        copy of the database was restored.
        """
        expected = offset if current is None else min(current, offset)
        with self._target.transaction() as connection:
            found = cursor.read(connection, place)
            if found is not None and found > offset:
                return
            if found is None:
                cursor.begin(connection, place, offset + 1)
            else:
                cursor.move(connection, place, expected, offset + 1)
            # Only this one: failures before it may be known to a dead worker and this table alone.
            cursor.keep_settled(connection, place, offset)
