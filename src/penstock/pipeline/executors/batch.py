"""Acting in the unit's own thread, a batch at a time."""

from __future__ import annotations

from typing import Any

from penstock.config.spec import PipelineSpec
from penstock.core.clock import SYSTEM, Clock
from penstock.core.event import Event
from penstock.kafka.partition_reader import Runs
from penstock.pipeline.chain import Chain
from penstock.pipeline.executors.executor import Verdict, coordinates, partition_of
from penstock.pipeline.executors.inline import InlineExecutor
from penstock.pipeline.items import FailedItem, Item
from penstock.pipeline.messages import Partition
from penstock.pipeline.unit_result import ActResult


class BatchExecutor(InlineExecutor):
    """An action that takes many events at once and says for each how it went."""

    tail_only = False

    def __init__(self, chain: Chain, spec: PipelineSpec, clock: Clock = SYSTEM) -> None:
        super().__init__(chain, spec, clock)
        self._batch: list[Event] = []
        self._throws = spec.options.failure_mode == "THROW"

    def _go(self, items: list[Item], runs: Runs | None = None) -> None:  # noqa: ARG002 - a batch may be of many
        while items:
            if self.deadline.expired or self.stopping or self.result.full:
                self._rest += items
                return
            self._ahead = items
            end = self._end_of_batch(items)
            events = [item for item in items[:end] if isinstance(item, Event)]
            results = iter(self._act(events) if events else [])
            if not self._returns():
                return
            for item in items[:end]:
                # F13: every result counts, also behind one that ends the unit: those events were acted on.
                verdict = self._take(item, next(results) if isinstance(item, Event) else None)
                if verdict == "later":
                    self._queue.add(item, self.retries[coordinates(item)].due)
                elif verdict == "stop":
                    self._rest.append(item)
            if events:
                self.result.sample(events[0], events[-1])
            items = self._ready(items[end:])

    def _end_of_batch(self, items: list[Item]) -> int:
        """With THROW nothing is begun behind an event that is about to stop the pipeline."""
        if not self._throws:
            return len(items)
        return next((index + 1 for index, item in enumerate(items) if isinstance(item, FailedItem)), len(items))

    def _act(self, events: list[Event]) -> list[Any]:
        self._batch = events
        ranges: dict[Partition, tuple[int, int]] = {}
        for event in events:
            place, offset = partition_of(event), event.record.offset()
            ranges[place] = (ranges[place][0] if place in ranges else offset, offset + 1)
        self.slots.begin_ranges(ranges)
        began = self.clock.monotonic()
        self._began, self._flight = began, events[0]
        try:
            results = list(self.action.act_batch(events))
            if len(results) != len(events):
                raise ActResult(
                    f"act_batch returned {len(results)} results for {len(events)} events",
                    hint="return one result per event, in order",
                )
        except BaseException as error:  # noqa: BLE001 - whatever user code raises, SystemExit included, ends these events alone
            results = [error] * len(events)
        finally:
            self.slots.end_ranges()
            self.chain.times.add("act", self.clock.monotonic() - began, len(events))
        return results

    def _take(self, item: Item, result: Any) -> Verdict:
        error = item.error if isinstance(item, FailedItem) else result
        if not isinstance(error, BaseException):
            return self.done(item, result)  # type: ignore[arg-type]  # what did not fail is an event
        halt = self.result.halt
        if self._throws and halt is not None and halt.kind == "throw":
            # The pipeline stops at an event before this one, which is tried again when it is resumed.
            return "stop"
        return self.fail(item, item.stage if isinstance(item, FailedItem) else "act", error)

    def _give_up_at(self, at: int) -> tuple[list[Item], list[Item]]:  # noqa: ARG002 - the whole batch hangs
        return list(self._batch), self._ahead
