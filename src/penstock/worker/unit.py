"""One unit at work: read, prepare, act until the deadline; then say per partition how far it came."""

from __future__ import annotations

import threading
import time
import traceback

from penstock.core.deadline import Deadline
from penstock.core.errors import PenstockError, Terminal, Transient, Unavailable
from penstock.core.event import RecordLike
from penstock.worker.acting import Tally
from penstock.worker.chain import Item
from penstock.worker.journal import Pages
from penstock.worker.pipeline import Pipeline
from penstock.worker.protocol import Halt, Partition, PartitionOutcome, UnitOutcome, UnitRequest

_BATCH = 2_000
"""Records per read: large enough that its fixed costs vanish, small enough that the deadline is kept."""


class UnitRun(threading.Thread):
    """Runs in a thread of its own, so that units wait for Kafka side by side and a slow one can be left behind."""

    def __init__(
        self, request: UnitRequest, pipeline: Pipeline | Exception, deadline: Deadline, pages: Pages | None = None
    ) -> None:
        super().__init__(name=f"unit-{request.pipeline}", daemon=True)
        self.request = request
        self.pipeline = pipeline
        self.deadline = deadline
        self.pages = pages
        self.outcome = UnitOutcome(request.unit, request.pipeline, request.generation, "done")
        self._unprepared: list[RecordLike] = []

    def run(self) -> None:
        if isinstance(self.pipeline, Exception):
            self.outcome.halt = _build_halt(self.pipeline)
            self._unmoved()
            return
        try:
            self._work(self.pipeline)
        except BaseException as error:  # noqa: BLE001 - a unit must always have an outcome, or its partitions would never be planned again
            text = self.pipeline.scrub("".join(traceback.format_exception_only(error)).strip())
            self.outcome.halt = Halt(
                "outage" if isinstance(error, Transient) else "error",
                getattr(error, "code", type(error).__name__),
                text,
            )
            self._unmoved()

    def _unmoved(self) -> None:
        # Nothing counts as done: the same offsets are planned again.
        self.outcome.failures.clear()
        self.outcome.partitions = [
            PartitionOutcome(a.topic, a.partition, a.epoch, a.frontier, a.holes) for a in self.request.assignments
        ]

    def _work(self, pipeline: Pipeline) -> None:
        acting, tally = pipeline.acting, Tally(pipeline.scrub, throw=pipeline.spec.options.failure_mode == "THROW")
        rest = pipeline.place(self.request.assignments)
        acting.begin(tally, self.deadline, self.pages)
        read, idle = 0, 0.0
        began = time.monotonic()
        try:
            if rest:
                acting.feed(rest)
            while not (self.deadline.expired or tally.full) and read < self.request.max_records:
                waited = time.monotonic()
                batch = pipeline.read(min(_BATCH, self.request.max_records - read), self.deadline.remaining)
                idle += time.monotonic() - waited
                if batch is None:
                    continue
                try:
                    items = pipeline.chain.prepare(batch.records)
                except Unavailable as error:
                    # I6: an outage concerns no event; what was read is read again by the next unit.
                    tally.outage(error)
                    self._unprepared = batch.records
                    break
                read += len(batch.records)
                self.outcome.counts.filtered += len(batch.records) - len(items)
                acting.feed(items)
                if self.pages is not None and acting.notable and not acting.behind:
                    self.pages.done(batch.ends)
        finally:
            unfinished = acting.finish()
        counts = self.outcome.counts
        counts.read, counts.acted, counts.failed = read, tally.acted, len(tally.failures)
        self.outcome.failures, self.outcome.latencies, self.outcome.halt = tally.failures, tally.latencies, tally.halt
        self.outcome.busy = time.monotonic() - began - idle
        self._report(pipeline, unfinished)

    def _report(self, pipeline: Pipeline, unfinished: list[Item]) -> None:
        open_offsets: dict[Partition, set[int]] = {}
        for record in [*(item.record for item in unfinished), *self._unprepared]:
            open_offsets.setdefault((record.topic(), record.partition()), set()).add(record.offset())
        tail_only = pipeline.acting.in_order
        deferred = list(pipeline.acting.deferred)
        trouble = pipeline.reader.trouble
        reported: dict[Partition, tuple[int, tuple[int, ...]]] = {}
        for a in self.request.assignments:
            holes = pipeline.unread_holes(a.key) | {o for t, p, o in deferred if (t, p) == a.key}
            frontier = pipeline.frontier(a.key)
            unbegun = open_offsets.get(a.key, set())
            if unbegun and tail_only and not holes:
                frontier = min(unbegun)
            else:
                holes |= unbegun
            reported[a.key] = (frontier, tuple(sorted(holes)))
            at_end = pipeline.reader.at_end(a.key)
            self.outcome.more = self.outcome.more or bool(unbegun) or not at_end
            self.outcome.partitions.append(
                PartitionOutcome(
                    *a.key,
                    a.epoch,
                    *reported[a.key],
                    at_end and not unbegun,
                    a.key in trouble.out_of_range,
                    a.key in trouble.gone,
                )
            )
        if trouble.error and not self.outcome.counts.read and self.outcome.halt is None:
            self.outcome.halt = Halt("outage", "broker", trouble.error)
        for record in self._unprepared:
            # These are in nobody's memory: the next unit must go back to them.
            reported.pop((record.topic(), record.partition()), None)
        pipeline.leave(unfinished, reported)


class UnknownBlueprint(LookupError):
    """The process does not have the blueprint that the driver thinks it has."""


def _build_halt(error: Exception) -> Halt:
    if isinstance(error, UnknownBlueprint):
        return Halt("unknown", "unknown", str(error))
    if isinstance(error, Transient):
        return Halt("outage", getattr(error, "code", "outage"), str(error))
    if isinstance(error, PenstockError) and isinstance(error, Terminal):
        return Halt("build", error.code, str(error))
    return Halt("error", type(error).__name__, f"{type(error).__name__}: {error}")
