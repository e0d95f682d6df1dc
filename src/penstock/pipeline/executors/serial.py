"""Acting in the unit's own thread, one event after the other."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.core.event import Event
from penstock.pipeline.chain import FailedItem, Item
from penstock.pipeline.executors.executor import Verdict, coordinates, partition_of
from penstock.pipeline.executors.inline import InlineExecutor
from penstock.pipeline.messages import Partition

_SAMPLES = 50
"""Latencies taken of a batch that takes long."""
_SAMPLE_EVERY = 0.002
"""Seconds between two of them where events are quick: more would show in the cost of an event, not in the figures."""


class SerialExecutor(InlineExecutor):
    """One event after the other. A batch is worked on in runs of one partition, so that counts and the in-flight log
    cost nothing per event but one write."""

    _uncounted = 0
    """Place in `_ahead` from which on everything behind us is done, and not counted yet."""
    _place: Partition = ("", 0)

    def _go(self, items: list[Item], partition: Partition | None = None) -> None:
        at, clock = 0, self.clock.monotonic
        step = first_step = max(1, len(items) // _SAMPLES)
        run_end = 0
        self._ahead = items
        while at < len(items):
            if at >= run_end:
                self._place = partition or partition_of(items[at])
                run_end = len(items) if partition else _end_of_run(items, at)
            self._uncounted = at
            began = clock()
            done, verdict = self._run(items[at : min(at + step, run_end)], at)
            seconds = clock() - began
            self.took(seconds, done)
            step = 2 * step if seconds < _SAMPLE_EVERY else first_step
            at += done
            if done:
                self.result.sample(items[at - 1])
            if verdict == "stop":
                self._rest += items[at:]
                return
            if verdict == "later":
                items = self._ahead = self._ready(items[at:])
                at = run_end = 0

    def _run(self, items: list[Item], start: int) -> tuple[int, Verdict]:
        """Number of items behind us, and whether all of them are (`done`); `start` is their place in `_ahead`."""
        act, end, clock, retries = self.action.act, self.deadline.at, self.clock.monotonic, self.retries
        cells, at = self.slots.act_cell(self._place)
        passed = good = 0
        verdict: Verdict = "done"
        for item in items:
            self._began = now = clock()
            self._flight = item
            # F16: checked for each event, with the deadline.
            if now >= end or self.stopping:
                verdict = "stop"
                break
            cells[at] = item.record.offset()
            if type(item) is Event:
                # The common case, kept free of calls: a result of None or True needs nothing more.
                try:
                    result = act(item)
                except BaseException as raised:  # noqa: BLE001 - whatever user code raises, SystemExit included, ends this event alone
                    result = raised
                if result is None or result is True:
                    good += 1
                    passed += 1
                    if retries:
                        retries.pop(coordinates(item), None)
                    continue
            else:
                result = None
            if not self._returns():
                return passed, "stop"
            self.result.add_acted(self._place, good)
            good, self._uncounted = 0, start + passed + 1
            verdict = self._end(item, result)
            if verdict == "stop":
                break
            passed += 1
            if verdict == "later":
                self._queue.add(item, retries[coordinates(item)].due)
                break
            if self.result.full:
                verdict = "stop"
                break
        cells[at] = -1
        if self._returns():
            self.result.add_acted(self._place, good)
        return passed, verdict

    def _end(self, item: Item, result: object) -> Verdict:
        """What becomes of an event that is not simply done."""
        if isinstance(item, FailedItem):
            return self.fail(item, item.stage, item.error)
        if isinstance(result, BaseException):
            return self.fail(item, "act", result)
        return self.unusual(item, result)

    def _give_up_at(self, at: int) -> tuple[list[Item], list[Item]]:
        self.result.add_acted(self._place, max(0, at - self._uncounted))
        return super()._give_up_at(at)


def _end_of_run(items: Sequence[Item], at: int) -> int:
    """Where the events of one partition end."""
    first = items[at].record
    topic, partition = first.topic(), first.partition()
    for index in range(at + 1, len(items)):
        record = items[index].record
        if record.partition() != partition or record.topic() != topic:
            return index
    return len(items)
