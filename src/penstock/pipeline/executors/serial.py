"""Acting in the unit's own thread: one event after the other, or a batch at a time."""

from __future__ import annotations

import time
from abc import abstractmethod
from typing import Any

from penstock.config.spec import PipelineSpec
from penstock.core.event import Event
from penstock.pipeline.chain import Chain, FailedItem, Item
from penstock.pipeline.executors.executor import ActionExecutor, Verdict, coordinates, partition_of
from penstock.pipeline.messages import Partition
from penstock.pipeline.retry_queue import RetryQueue
from penstock.pipeline.unit_result import ActResult

_SAMPLES = 50
"""Latencies taken per batch; more would show in the cost of an event and not in the figures."""


class InlineExecutor(ActionExecutor):
    """What acts in the unit's own thread. Another thread may look at `_flight` and give the unit up."""

    def __init__(self, chain: Chain, spec: PipelineSpec) -> None:
        super().__init__(chain, spec)
        self._parking = RetryQueue(self.strand)
        self._rest: list[Item] = []
        self._ahead: list[Item] = []
        """What is being worked through; what is in flight is in it."""
        self._flight: Item | None = None
        self._began = 0.0
        self._given_up = False

    def feed(self, items: list[Item]) -> None:
        self._go(self._sorted_out(items) if self._parking or self.tries else items)

    def _sorted_out(self, items: list[Item]) -> list[Item]:
        """Without those that have to wait."""
        kept = []
        for item in items:
            if self._parking.behind(item):
                continue
            if self.is_early(item):
                self._parking.park(item, self.tries[coordinates(item)].due)
            else:
                kept.append(item)
        return kept

    @abstractmethod
    def _go(self, items: list[Item]) -> None:
        """Work on these items, which have nothing to wait for."""

    def wake(self) -> None:
        while not (self.deadline.expired or self.tally.full) and (line := self._parking.take_due(time.monotonic())):
            self._ahead = line
            first = self._tried_again(line[0])
            self._go(([] if first is None else [first]) + line[1:])

    def _tried_again(self, item: Item) -> Item | None:
        self._began, self._flight = time.monotonic(), item
        try:
            return self.again(item)
        finally:
            self._flight = None

    @property
    def next_due(self) -> float | None:
        return self._parking.next_due

    @property
    def waiting(self) -> dict[Partition, list[int]]:
        return self._parking.offsets if self._parking else {}

    @property
    def _notable(self) -> bool:
        """Whether all before the event in flight is finished, but for failures, which the log names."""
        return self.exact and not (self.deferred or self._parking or self.tries)

    @property
    def all_done(self) -> bool:
        return self._notable and not self._rest

    def finish(self) -> list[Item]:
        self.note_quick()
        rest = self._rest + self._parking.items()
        self._rest = []
        self._parking.clear()
        return sorted(rest, key=coordinates)

    def overdue(self, now: float) -> bool:
        return self._flight is not None and now - self._began > self.timeout

    def give_up(self) -> tuple[list[Item], list[Item]] | None:
        item = self._flight
        self._given_up = True
        # The thread sets the flight before it looks whether it was given up: it is either still at this event, or it
        # will not begin another.
        if item is None or self._flight is not item:
            return None
        self.tainted = True
        ahead = self._ahead
        at = next(index for index, each in enumerate(ahead) if each is item)
        return self._hanging(item), [*ahead[at:], *self._rest, *self._parking.items()]

    def _hanging(self, item: Item) -> list[Item]:
        return [item]


class SerialExecutor(InlineExecutor):
    """One event after the other."""

    def _go(self, items: list[Item]) -> None:
        at, step = 0, max(1, len(items) // _SAMPLES)
        while at < len(items):
            self._ahead = items
            began = time.perf_counter()
            done, verdict = self._run(items[at : at + step])
            self.took(time.perf_counter() - began, done)
            at += done
            if done:
                self.tally.sample(items[at - 1])
            if verdict == "stop":
                self._rest += items[at:]
                return
            if verdict == "later":
                items, at = self._sorted_out(items[at:]), 0

    def _run(self, items: list[Item]) -> tuple[int, Verdict]:  # noqa: C901, PLR0912, PLR0915 - the hottest loop
        """Number of items behind us, and whether all of them are (`done`)."""
        act, end, clock, tries = self.action.act, self.deadline.at, time.monotonic, self.tries
        pages, exact = self.pages, self._notable
        passed = good = 0
        verdict: Verdict = "done"
        for item in items:
            self._began = now = clock()
            if now >= end:
                verdict = "stop"
                break
            self._flight = item
            if self._given_up:
                verdict = "stop"
                break
            if pages is not None:
                if exact:
                    pages.acting_on(item.record)
                else:
                    pages.begun(item.record)
            if type(item) is Event:
                # The common case, kept free of calls: a result of None or True needs nothing more.
                try:
                    result = act(item)
                except BaseException as error:  # noqa: BLE001 - as in `one`
                    self.tally.acted += good
                    good = 0
                    verdict = self.fail(item, "act", error)
                else:
                    if result is None or result is True:
                        good += 1
                        passed += 1
                        if tries:
                            tries.pop(coordinates(item), None)
                        if pages is not None and not exact:
                            pages.ended(item.record, done=True)
                        continue
                    good += result is False
                    verdict = self.unusual(item, result)
            elif isinstance(item, FailedItem):
                self.tally.acted += good
                good = 0
                verdict = self.fail(item, item.stage, item.error)
            if pages is not None:
                # A failure is only in this memory: should it be lost, the event is open.
                pages.ended(item.record, done=False)
            if verdict == "stop":
                break
            if exact and verdict != "failed":
                # What is done is no longer one number.
                exact = False
                if pages is not None:
                    pages.idle()
            passed += 1
            if verdict == "later":
                self._parking.park(item, tries[coordinates(item)].due)
                break
            if self.tally.full or (pages is not None and pages.full):
                verdict = "stop"
                break
        self._flight = None
        self.tally.acted += good
        return passed, verdict


class BatchExecutor(InlineExecutor):
    """An action that takes many events at once."""

    tail_only = False

    def __init__(self, chain: Chain, spec: PipelineSpec) -> None:
        super().__init__(chain, spec)
        self._batch: list[Event] = []

    def _go(self, items: list[Item]) -> None:
        while items:
            if self.deadline.expired or self._given_up:
                self._rest += items
                return
            self._ahead = items
            end = self._end_of_batch(items)
            events = [item for item in items[:end] if isinstance(item, Event)]
            results = iter(self._act(events) if events else [])
            for index, item in enumerate(items[:end]):
                verdict = self._take(item, next(results) if isinstance(item, Event) else None)
                if verdict == "later":
                    self._parking.park(item, self.tries[coordinates(item)].due)
                elif verdict == "stop":
                    self._rest += items[index:]
                    return
            if events:
                self.tally.sample(events[0], events[-1])
            items = self._sorted_out(items[end:])

    def _end_of_batch(self, items: list[Item]) -> int:
        """With THROW nothing is begun behind an event that is about to stop the pipeline."""
        if self.spec.options.failure_mode != "THROW":
            return len(items)
        return next((index + 1 for index, item in enumerate(items) if isinstance(item, FailedItem)), len(items))

    def _act(self, events: list[Event]) -> list[Any]:
        self._batch = events
        if self.pages is not None:
            firsts: dict[Partition, int] = {}
            for event in events:
                firsts.setdefault(partition_of(event), event.record.offset())
            self.pages.working(firsts, {partition_of(event): event.record.offset() + 1 for event in events})
        self._began, self._flight = time.monotonic(), events[0]
        try:
            results = self._timed(events)
            if len(results) != len(events):
                raise ActResult(
                    f"act_batch returned {len(results)} results for {len(events)} events",
                    hint="return one result per event, in order",
                )
        except BaseException as error:  # noqa: BLE001 - as in `one`
            results = [error] * len(events)
        finally:
            self._flight = None
            if self.pages is not None:
                self.pages.idle()
        return results

    def _timed(self, events: list[Event]) -> list[Any]:
        began = time.perf_counter()
        try:
            return list(self.action.act_batch(events))
        finally:
            self.chain.times.add("act", time.perf_counter() - began, len(events))

    def _take(self, item: Item, result: Any) -> Verdict:
        if isinstance(item, FailedItem):
            return self.fail(item, item.stage, item.error)
        if isinstance(result, BaseException):
            return self.fail(item, "act", result)
        return self.done(item, result)

    def _hanging(self, item: Item) -> list[Item]:  # noqa: ARG002 - the whole batch hangs
        return list(self._batch)
