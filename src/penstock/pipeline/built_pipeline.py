"""A pipeline as one lane's worker holds it between windows: consumer, chain, action object, and what the last unit
left unfinished."""

from __future__ import annotations

import contextlib
import inspect
import pickle
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from penstock.config.spec import PipelineSpec
from penstock.core.plugin import PipelineContext
from penstock.core.secrets import Scrubber
from penstock.kafka.partition_reader import Batch, PartitionReader
from penstock.pipeline.bounded_reader import LetterReader, Readable
from penstock.pipeline.breaker import Breaker
from penstock.pipeline.chain import Chain, Item
from penstock.pipeline.executors.executor import ActionExecutor
from penstock.pipeline.executors.keyed import KeyedAsyncExecutor, KeyedThreadExecutor
from penstock.pipeline.executors.serial import BatchExecutor, SerialExecutor
from penstock.pipeline.external_source import view_of
from penstock.pipeline.messages import CLOSING, Assignment, Blueprint, Bounds, Partition, PartitionOutcome
from penstock.pipeline.rate_limit import RateLimiter
from penstock.pipeline.retry import RetryState

_CLOSES_WITHIN = 5.0


class Acknowledger:
    """`ctx.event_source` of class plug-ins: takes the acknowledgement of an event that `act` deferred."""

    def __init__(self) -> None:
        self.acting: ActionExecutor | None = None

    def ack(self, event: Any, processed: bool = True) -> None:  # noqa: FBT001 - DataHub's signature
        if not processed or self.acting is None:
            return
        place = event.meta.get("kafka")
        if place is not None:
            self.acting.acknowledge((place["topic"], place["partition"], place["offset"]))
            return
        # A dead letter of a foreign source, replayed: its meta says nothing of Kafka.
        deferred = list(self.acting.deferred.items())
        for found in (place for place, (item, _) in deferred if item.envelope is event or item.event is event.event):
            self.acting.acknowledge(found)


@dataclass(slots=True, frozen=True)
class _Kept:
    """What a unit left of a partition, for the unit that begins where it ended."""

    next_offset: int
    pending: tuple[int, ...]
    position: int
    items: list[Item]


class BuiltPipeline:
    """Built once per worker and revision; used by one unit at a time."""

    def __init__(self, blueprint: bytes, *, replays: bool = False) -> None:
        """`replays`: records come with its units, and a source of the user's own is not made."""
        made: Blueprint = pickle.loads(blueprint)  # noqa: S301 - from our own driver
        self.spec = made.spec
        self.replays = replays
        self.used_at = time.monotonic()
        self.scrub: Callable[[str], str] = Scrubber(made.spec.secrets).scrub
        if made.folder and made.folder not in sys.path:
            sys.path.append(made.folder)
        source = Acknowledger()
        ctx = PipelineContext(made.spec.name, None, source, folder=made.folder, source=made.spec.source.config)
        view = view_of(made.spec, ctx) if made.spec.source.is_foreign and not replays else None
        self.chain = Chain.build(made.spec, ctx)
        self.acting = acting_for(self.chain, made.spec)
        source.acting = self.acting
        self.foreign = view.attach(made, self.acting, self.scrub) if view is not None else None
        self.breaker = Breaker(made.spec.options.breaker)
        self.pacer = RateLimiter()
        self.reader: Readable = self.foreign or _reader(made)
        self._action_closed = False
        self._kept: dict[Partition, _Kept] = {}
        self._skips: dict[Partition, tuple[frozenset[int], int]] = {}

    def place(self, assignments: list[Assignment]) -> list[Item]:
        """Stand where the assignments say; returns items already prepared by the last unit that are still wanted."""
        wanted: dict[Partition, int] = {}
        rest: list[Item] = []
        self.confirm(assignments)
        self.acting.open_cursors(assignments, replays=self.replays)
        for a in assignments:
            kept = self._kept.pop(a.key, None)
            cursor = self.acting.start_offset(a, replays=self.replays)
            if cursor is not None and (cursor != a.next_offset or a.pending):
                # Pending offsets are of no account where a cursor decides.
                wanted[a.key] = cursor
                self._begin_anew(replace(a, pending=()))
                continue
            if kept is not None and (kept.next_offset, kept.pending) == (a.next_offset, a.pending):
                wanted[a.key] = kept.position
                rest += kept.items
                continue
            wanted[a.key] = min(a.pending, default=a.next_offset)
            self._begin_anew(a)
        self.reader.place(wanted)
        return rest

    def confirm(self, assignments: list[Assignment]) -> None:
        """What the driver says is settled may be acknowledged."""
        if self.foreign is not None:
            for a in assignments:
                self.foreign.confirm(a)

    def _begin_anew(self, a: Assignment) -> None:
        self._skips.pop(a.key, None)
        if a.pending:
            # Finished events between the pending are read again but not acted on again.
            self._skips[a.key] = (frozenset(a.pending), a.next_offset)
        self.acting.forget(a.key)
        now = time.monotonic()
        for retry in a.retries:
            tries = RetryState(retry.attempts, retry.first_failed_at, now + retry.wait)
            self.acting.tries[*a.key, retry.offset] = tries

    def read(self, limit: int, timeout: float) -> Batch | None:
        batch = self.reader.read(limit, timeout)
        if batch and self._skips:
            batch.records = [r for r in batch.records if self._wanted((r.topic(), r.partition()), r.offset())]
            for tp, end in batch.ends.items():
                if tp in self._skips and end >= self._skips[tp][1]:
                    del self._skips[tp]
        return batch

    def _wanted(self, partition: Partition, offset: int) -> bool:
        skip = self._skips.get(partition)
        return skip is None or offset in skip[0] or offset >= skip[1]

    def leave(self, outcomes: list[PartitionOutcome], rest: dict[Partition, list[Item]]) -> None:
        """Keep what a unit did not finish, for the next unit to take up if it begins where this one ended."""
        for part in outcomes:
            position = self.reader.position(part.key)
            self._kept[part.key] = _Kept(part.next_offset, part.pending, position, rest.get(part.key, []))
        self.used_at = time.monotonic()

    @property
    def again_below(self) -> dict[Partition, int]:
        """Offsets below which everything was read before, by another process."""
        return {partition: next_offset for partition, (_, next_offset) in self._skips.items()}

    def is_skipping(self, partition: Partition) -> bool:
        """Whether the reader is still among pending that an assignment named."""
        return partition in self._skips

    def unread_pending(self, partition: Partition) -> set[int]:
        """Holes of an assignment that the reader has not come to yet."""
        skip = self._skips.get(partition)
        position = self.reader.position(partition)
        return {offset for offset in skip[0] if offset >= position} if skip else set()

    def next_offset(self, partition: Partition) -> int:
        """The next offset to read beyond everything taken so far."""
        skip = self._skips.get(partition)
        position = self.reader.position(partition)
        return max(position, skip[1]) if skip else position

    def rest(self) -> None:
        """Fetch nothing until the next unit; all else stays as it is."""
        self.reader.place({})

    @property
    def evictable(self) -> bool:
        """A class plug-in lives from start to stop, also while nothing comes in."""
        keeps = self.acting.deferred or self.foreign is not None
        return bool(getattr(self.chain.action, "parallel_safe", False)) and not keeps

    @property
    def closes_within(self) -> float:
        """Seconds after which a close that has not returned is left alone."""
        return _CLOSES_WITHIN if self.foreign is None else CLOSING

    def leave_source(self) -> None:
        """Close the source alone, for the action never returns."""
        if self.foreign is not None:
            self.foreign.stop()
            self.foreign.close()

    def close_action(self) -> None:
        """Close the action, once; what it raises then concerns no event."""
        if self._action_closed:
            return
        self._action_closed = True
        close = self.chain.action.close
        with contextlib.suppress(Exception):
            if inspect.iscoroutinefunction(close) and isinstance(self.acting, KeyedAsyncExecutor):
                self.acting.run(close())
            else:
                close()

    def close(self) -> None:
        """The action first: what it still writes or acknowledges must be able to go out."""
        if self.foreign is not None:
            self.foreign.stop()
            flush = getattr(getattr(self.chain.action, "plugin", self.chain.action), "flush", None)
            if callable(flush):
                with contextlib.suppress(Exception):
                    flush()
        self.close_action()
        for part in (self.acting, self.chain, self.reader):
            with contextlib.suppress(Exception):
                part.close()


def _reader(made: Blueprint) -> Readable:
    if made.spec.source.is_foreign:
        return LetterReader(Bounds({}))
    return PartitionReader(made.client, name=made.spec.group)


def acting_for(chain: Chain, spec: PipelineSpec) -> ActionExecutor:
    """The way to run this chain's action."""
    if getattr(chain.action, "transactional", False):
        from penstock.pipeline.executors.transactional import TransactionalExecutor  # noqa: PLC0415 - only tables need a database's library

        return TransactionalExecutor(chain, spec)
    if callable(getattr(chain.action, "act_batch", None)):
        return BatchExecutor(chain, spec)
    if inspect.iscoroutinefunction(chain.action.act):
        return KeyedAsyncExecutor(chain, spec)
    return KeyedThreadExecutor(chain, spec) if spec.options.concurrency > 1 else SerialExecutor(chain, spec)
