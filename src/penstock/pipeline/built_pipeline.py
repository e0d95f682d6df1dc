"""A pipeline as one lane's process holds it between windows: consumer, chain, action object, and what the last unit
left unfinished."""

from __future__ import annotations

import contextlib
import inspect
import pickle
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.config.spec import PipelineSpec
from penstock.core.backoff import Backoff
from penstock.core.clock import SYSTEM, Clock
from penstock.core.plugin import PipelineContext
from penstock.core.secrets import Scrubber
from penstock.kafka.partition_reader import Batch, PartitionReader
from penstock.pipeline.accounting import PartitionAccount
from penstock.pipeline.bounded_reader import LetterReader, Readable
from penstock.pipeline.breaker import Breaker
from penstock.pipeline.chain import Chain
from penstock.pipeline.executors.batch import BatchExecutor
from penstock.pipeline.executors.executor import ActionExecutor
from penstock.pipeline.executors.keyed import KeyedAsyncExecutor, KeyedThreadExecutor
from penstock.pipeline.executors.serial import SerialExecutor
from penstock.pipeline.external_source import view_of
from penstock.pipeline.items import Item
from penstock.pipeline.messages import CLOSING, Assignment, Blueprint, Bounds, Partition, PartitionOutcome
from penstock.pipeline.rate_limit import RateLimiter

_CLOSES_WITHIN = 5.0
_BLOCKED_WAIT, _BLOCKED_WAIT_AT_MOST = 1.0, 30.0
"""Seconds between two attempts at an event that waits for an outage to pass: the first wait, and the longest."""


class Acknowledger:
    """`ctx.event_source` of class plug-ins: takes the acknowledgement of an event that `act` deferred."""

    def __init__(self) -> None:
        self.executor: ActionExecutor | None = None

    def ack(self, event: Any, processed: bool = True) -> None:  # noqa: FBT001 - DataHub's signature
        if not processed or self.executor is None:
            return
        place = event.meta.get("kafka")
        if place is not None:
            self.executor.acknowledge((place["topic"], place["partition"], place["offset"]))
            return
        # A dead letter of an external source, replayed: its meta says nothing of Kafka.
        deferred = list(self.executor.deferred.items())
        for found in (place for place, (item, _) in deferred if item.envelope is event or item.event is event.event):
            self.executor.acknowledge(found)


@dataclass(slots=True, frozen=True)
class _Leftovers:
    """What a unit left of a partition, for a unit that begins exactly where it ended.

    L5: prepared events are kept because reading them again costs a re-fetch of the consumer's whole queue (16 MB) and
    repeats user code, in every window of a slow action. L4: kept for one epoch and topic id (and, with the pipeline
    itself, one revision); anything that differs is read again.
    """

    epoch: int
    topic_id: str
    next_offset: int
    pending: tuple[int, ...]
    position: int
    unread: frozenset[int]
    """Pending offsets at or above the position, to be read again."""
    items: list[Item]
    offsets: list[int]
    """Records at or above `next_offset` that were read, dropped ones included."""
    dropped: list[int]


class BuiltPipeline:
    """Built once per process and revision; used by one unit at a time."""

    def __init__(self, blueprint: bytes, *, replays: bool = False, clock: Clock = SYSTEM) -> None:
        """`replays`: records come with its units, and an external source is not made."""
        made: Blueprint = pickle.loads(blueprint)  # noqa: S301 - from our own driver
        self.spec = made.spec
        self.replays = replays
        self._clock = clock
        self.used_at = clock.monotonic()
        self.scrub: Callable[[str], str] = Scrubber(made.spec.secrets).scrub
        if made.folder and made.folder not in sys.path:
            sys.path.append(made.folder)
        source = Acknowledger()
        ctx = PipelineContext(made.spec.name, None, source, folder=made.folder, source=made.spec.source.config)
        view = view_of(made.spec, ctx) if made.spec.source.is_foreign and not replays else None
        self.chain = Chain.build(made.spec, ctx, clock)
        self.executor = executor_for(self.chain, made.spec, clock)
        source.executor = self.executor
        if self.executor.has_cursor and not (made.spec.source.is_foreign or replays):
            self.executor.verify_topics(made.client)
        self.external = view.attach(made, self.executor, self.scrub, clock) if view is not None else None
        self.breaker = Breaker(made.spec.options.breaker)
        self.rate_limiter = RateLimiter(clock)
        self.reader: Readable = self.external or _reader(made, clock)
        self.accounts: dict[Partition, PartitionAccount] = {}
        """Of the unit that runs, or ran last."""
        self._action_closed = False
        self._leftovers: dict[Partition, _Leftovers] = {}
        self._blocked: dict[Partition, tuple[int, Backoff]] = {}
        """The offset of an event that waits for an outage, and how often it was tried."""

    # -- where a unit begins and ends ------------------------------------------------------

    def place(self, assignments: list[Assignment]) -> list[Item]:
        """Move the reader to where the assignments say; returns items prepared by the last unit that are still
        wanted."""
        positions: dict[Partition, int] = {}
        items: list[Item] = []
        self.accounts = {}
        self.confirm(assignments)
        self.executor.open_cursors(assignments, replays=self.replays)
        for a in assignments:
            left = self._leftovers.pop(a.key, None)
            begins_at = self.executor.start_offset(a, replays=self.replays)
            if left is not None and self._continues(left, a, begins_at):
                account = PartitionAccount(a, a.next_offset, left.unread, len(a.pending))
                account.offsets, account.dropped = list(left.offsets), list(left.dropped)
                positions[a.key] = left.position
                items += left.items
            elif begins_at is not None:
                # A cursor says which events are finished: pending offsets of the assignment mean nothing to it.
                account = PartitionAccount(a, begins_at)
                positions[a.key] = begins_at
                self._begin_anew(a)
            else:
                account = PartitionAccount(a, a.next_offset, a.pending, len(a.pending))
                positions[a.key] = min(a.pending, default=a.next_offset)
                self._begin_anew(a)
            self.accounts[a.key] = account
        self.reader.place(positions)
        return items

    @staticmethod
    def _continues(left: _Leftovers, a: Assignment, begins_at: int | None) -> bool:
        left_at = (left.epoch, left.topic_id, left.next_offset, left.pending)
        return left_at == (a.epoch, a.topic_id, a.next_offset, a.pending) and begins_at in (None, a.next_offset)

    def confirm(self, assignments: list[Assignment]) -> None:
        """What the driver says is settled may be acknowledged."""
        if self.external is not None:
            for a in assignments:
                self.external.confirm(a)

    def _begin_anew(self, a: Assignment) -> None:
        self.executor.forget(a.key)
        for retry in a.retries:
            self.executor.retries[*a.key, retry.offset] = self.executor.retry_policy.resume(retry)

    def read(self, limit: int, timeout: float) -> Batch | None:
        """The next records, without those that are finished: these lie between pending offsets that are read again."""
        batch = self.reader.read(limit, timeout)
        if batch is None:
            return None
        partial = [tp for tp, start in batch.starts.items() if start < self.accounts[tp].began_at]
        if partial:
            accounts = self.accounts
            batch.keep(lambda record: accounts[record.topic(), record.partition()].wants(record.offset()))
        return batch

    def leave(self, outcomes: list[PartitionOutcome], items: dict[Partition, list[Item]]) -> None:
        """Keep what a unit did not finish, for the next unit if it begins where this one ended."""
        for part in outcomes:
            account = self.accounts[part.key]
            position = account.position(self.reader.position(part.key))
            self._leftovers[part.key] = _Leftovers(
                part.epoch,
                part.topic_id,
                part.next_offset,
                part.pending,
                position,
                frozenset(account.unread(position)),
                items.get(part.key, []),
                account.offsets,
                account.dropped,
            )
        self.used_at = self._clock.monotonic()

    def blocked_for(self, partition: Partition, offset: int) -> float:
        """Seconds until an event that waits for an outage is tried again; they grow with each attempt."""
        at, backoff = self._blocked.get(partition, (-1, None))
        if backoff is None or at != offset:
            backoff = Backoff(_BLOCKED_WAIT, _BLOCKED_WAIT_AT_MOST, clock=self._clock)
            self._blocked[partition] = (offset, backoff)
        return backoff.fail()

    @property
    def again_below(self) -> dict[Partition, int]:
        """Offsets below which everything was read before, by another process."""
        return {partition: account.began_at for partition, account in self.accounts.items() if account.reread}

    def rest(self) -> None:
        """Fetch nothing until the next unit; all else stays as it is."""
        self.reader.place({})

    @property
    def evictable(self) -> bool:
        """A class plug-in lives from start to stop, also while nothing comes in."""
        keeps = self.executor.deferred or self.external is not None
        return bool(getattr(self.chain.action, "parallel_safe", False)) and not keeps

    @property
    def closes_within(self) -> float:
        """Seconds after which a close that has not returned is left alone."""
        return _CLOSES_WITHIN if self.external is None else CLOSING

    def close_source(self) -> None:
        """Close the source alone, for the action never returns."""
        if self.external is not None:
            self.external.stop()
            self.external.close()

    def close_action(self) -> None:
        """Close the action, once; what it raises then concerns no event."""
        if self._action_closed:
            return
        self._action_closed = True
        close = self.chain.action.close
        with contextlib.suppress(Exception):
            if inspect.iscoroutinefunction(close) and isinstance(self.executor, KeyedAsyncExecutor):
                self.executor.run(close())
            else:
                close()

    def close(self) -> None:
        """The action first: what it still writes or acknowledges must be able to go out."""
        if self.external is not None:
            self.external.stop()
            flush = getattr(getattr(self.chain.action, "plugin", self.chain.action), "flush", None)
            if callable(flush):
                with contextlib.suppress(Exception):
                    flush()
        self.close_action()
        for part in (self.executor, self.chain, self.reader):
            with contextlib.suppress(Exception):
                part.close()


def _reader(made: Blueprint, clock: Clock) -> Readable:
    if made.spec.source.is_foreign:
        return LetterReader(Bounds({}), clock)
    return PartitionReader(made.client, name=made.spec.group)


def executor_for(chain: Chain, spec: PipelineSpec, clock: Clock = SYSTEM) -> ActionExecutor:
    """The way to run this chain's action."""
    if getattr(chain.action, "transactional", False):
        from penstock.pipeline.executors.transactional import TransactionalExecutor  # noqa: PLC0415 - only tables need a database's library

        return TransactionalExecutor(chain, spec, clock)
    if callable(getattr(chain.action, "act_batch", None)):
        return BatchExecutor(chain, spec, clock)
    if inspect.iscoroutinefunction(chain.action.act):
        return KeyedAsyncExecutor(chain, spec, clock)
    if spec.options.concurrency > 1:
        return KeyedThreadExecutor(chain, spec, clock)
    return SerialExecutor(chain, spec, clock)
