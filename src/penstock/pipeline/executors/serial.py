"""Acting in the unit's own thread, one event after the other."""

from __future__ import annotations

from penstock.core.event import Event
from penstock.kafka.partition_reader import Runs
from penstock.pipeline.accounting import partition_runs
from penstock.pipeline.executors.executor import Verdict, coordinates
from penstock.pipeline.executors.inline import InlineExecutor
from penstock.pipeline.items import FailedItem, Item
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
    _step = 1
    """Events between two samples of the latency; more and more while they are quick."""

    def _go(self, items: list[Item], runs: Runs | None = None) -> None:
        while items:
            self._ahead = items
            at = 0
            for partition, count in runs or partition_runs(items):
                done, verdict = self._go_through(items, at, at + count, partition)
                at += done
                if verdict != "done":
                    break
            else:
                return
            if verdict == "stop":
                self._rest += items[at:]
                return
            items, runs = self._ready(items[at:]), None

    def _go_through(self, items: list[Item], at: int, end: int, partition: Partition) -> tuple[int, Verdict]:
        """A run of one partition: number of items behind us, and `done` unless something ends the run early."""
        clock, start, self._place = self.clock.monotonic, at, partition
        while at < end:
            self._uncounted = at
            began = clock()
            done, verdict = self._run(items[at : min(at + self._step, end)], at)
            seconds = clock() - began
            self.took(seconds, done)
            at += done
            if done:
                self.result.sample(items[at - 1])
            if verdict in ("stop", "later"):
                return at - start, verdict
            if seconds >= _SAMPLE_EVERY:
                self._step = max(1, len(items) // _SAMPLES)
            elif done >= self._step:
                self._step *= 2
        return at - start, "done"

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
