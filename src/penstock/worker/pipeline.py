"""A pipeline as one lane's worker holds it between windows: consumer, chain, action object, and what the last unit
left unfinished."""

from __future__ import annotations

import contextlib
import inspect
import pickle
import sys
import time
from collections.abc import Callable
from typing import Any

from penstock.core.plugin import PipelineContext
from penstock.core.secrets import Scrubber
from penstock.kafka.reader import Batch, Reader
from penstock.worker.acting import Acting, Batches, Serial
from penstock.worker.chain import Chain, Item
from penstock.worker.protocol import Assignment, Blueprint, Partition
from penstock.worker.strands import LoopStrands, ThreadStrands


class Acknowledger:
    """`ctx.event_source` of class plug-ins: takes the acknowledgement of an event that `act` deferred."""

    def __init__(self) -> None:
        self.acting: Acting | None = None

    def ack(self, event: Any, processed: bool = True) -> None:  # noqa: FBT001 - DataHub's signature
        if not processed or self.acting is None:
            return
        place = event.meta["kafka"]
        self.acting.deferred.pop((place["topic"], place["partition"], place["offset"]), None)


class Pipeline:
    """Built once per worker and generation; used by one unit at a time."""

    def __init__(self, blueprint: bytes) -> None:
        made: Blueprint = pickle.loads(blueprint)  # noqa: S301 - from our own driver
        self.spec = made.spec
        self.used_at = time.monotonic()
        self.scrub: Callable[[str], str] = Scrubber(made.spec.secrets).scrub
        if made.folder and made.folder not in sys.path:
            sys.path.append(made.folder)
        source = Acknowledger()
        self.chain = Chain.build(
            made.spec, PipelineContext(made.spec.name, None, source, folder=made.folder, source=made.spec.source.config)
        )
        self.acting = _acting(self.chain.action, made.spec)
        source.acting = self.acting
        self.reader = Reader(made.client, name=made.spec.group)
        self._rest: list[Item] = []
        self._reported: dict[Partition, tuple[int, tuple[int, ...]]] = {}
        self._skips: dict[Partition, tuple[frozenset[int], int]] = {}

    def place(self, assignments: list[Assignment]) -> list[Item]:
        """Stand where the assignments say; returns items already prepared by the last unit that are still wanted."""
        kept = {a.key for a in assignments if self._reported.get(a.key) == (a.frontier, a.holes)}
        wanted: dict[Partition, int] = {}
        for a in assignments:
            if a.key in kept:
                wanted[a.key] = self.reader.position(a.key)
                continue
            wanted[a.key] = min(a.holes, default=a.frontier)
            self._skips.pop(a.key, None)
            if a.holes:
                # Finished events between the holes are read again but not acted on again.
                self._skips[a.key] = (frozenset(a.holes), a.frontier)
        self.reader.place(wanted)
        rest = [item for item in self._rest if _place(item) in kept]
        self.acting.deferred = {k: v for k, v in self.acting.deferred.items() if k[:2] in kept}
        self._rest = []
        self._reported = {}
        return rest

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

    def leave(self, rest: list[Item], reported: dict[Partition, tuple[int, tuple[int, ...]]]) -> None:
        """Keep what a unit did not finish, for the next unit to take up if it begins where this one ended."""
        self._rest = rest
        self._reported = reported
        self.used_at = time.monotonic()

    def unread_holes(self, partition: Partition) -> set[int]:
        """Holes of an assignment that the reader has not come to yet."""
        skip = self._skips.get(partition)
        position = self.reader.position(partition)
        return {offset for offset in skip[0] if offset >= position} if skip else set()

    def frontier(self, partition: Partition) -> int:
        """The next offset to read beyond everything taken so far."""
        skip = self._skips.get(partition)
        position = self.reader.position(partition)
        return max(position, skip[1]) if skip else position

    @property
    def evictable(self) -> bool:
        """A class plug-in lives from start to stop, also while nothing comes in."""
        return bool(getattr(self.chain.action, "parallel_safe", False)) and not self.acting.deferred

    def close(self) -> None:
        """The action first: what it still writes or acknowledges must be able to go out."""
        close = self.chain.action.close
        if inspect.iscoroutinefunction(close) and isinstance(self.acting, LoopStrands):
            self.acting.run(close())
        else:
            close()
        for part in (self.acting, self.chain, self.reader):
            with contextlib.suppress(Exception):
                part.close()


def _acting(action: Any, spec: Any) -> Acting:
    if callable(getattr(action, "act_batch", None)):
        return Batches(action, spec)
    if inspect.iscoroutinefunction(action.act):
        return LoopStrands(action, spec)
    return ThreadStrands(action, spec) if spec.options.concurrency > 1 else Serial(action, spec)


def _place(item: Item) -> Partition:
    return item.record.topic(), item.record.partition()
