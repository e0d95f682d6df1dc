"""Ways to run an action over prepared items: one after the other, in batches, or on strands side by side."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from penstock.config.spec import PipelineSpec
from penstock.core.deadline import Deadline
from penstock.core.errors import PenstockError, Terminal, Unavailable
from penstock.core.event import Event
from penstock.core.latency import Latencies
from penstock.worker.chain import Broken, Item
from penstock.worker.failing import failed_event
from penstock.worker.journal import Pages
from penstock.worker.protocol import FailedEvent, Halt

_FAILURES_AT_MOST = 1_000
_FAILURE_BYTES_AT_MOST = 8 << 20
"""A unit ends early at these limits, so that a topic full of poison cannot flood the driver."""
_SAMPLES = 50
"""Latencies taken per batch; more would show in the cost of an event and not in the figures."""


class ActResult(PenstockError, Terminal):
    """An action returned something that says neither done nor deferred."""

    code = "act-result"


class Tally:
    """What a unit has done so far; strands share it."""

    def __init__(self, scrub: Callable[[str], str], *, throw: bool) -> None:
        self.acted = 0
        self.failures: list[FailedEvent] = []
        self.latencies = Latencies()
        self.halt: Halt | None = None
        self.lock = threading.Lock()
        self._scrub = scrub
        self._throw = throw
        self._bytes = 0

    def fail(self, item: Item, stage: Any, error: BaseException, value: Any = None) -> bool:
        """Record a failure; True when the event counts as finished, False when the pipeline stops at it (THROW)."""
        failed = failed_event(item, stage, error, self._scrub, value)
        with self.lock:
            self.failures.append(failed)
            self._bytes += len(failed.record.value() or b"")
            if self._throw and self.halt is None:
                self.halt = Halt("throw", failed.failure.error_code, failed.failure.error)
        return not self._throw

    def outage(self, error: Unavailable) -> None:
        with self.lock:
            wait = getattr(error, "retry_after", None)
            self.halt = self.halt or Halt("outage", error.code, self._scrub(str(error)), wait)

    @property
    def full(self) -> bool:
        """True: take no more events in this unit."""
        return self.halt is not None or len(self.failures) >= _FAILURES_AT_MOST or self._bytes >= _FAILURE_BYTES_AT_MOST


class Acting(ABC):
    """Runs the action over items that are fed in order."""

    in_order = True
    """What is unfinished at the end is always the tail of what was fed."""

    def __init__(self, action: Any, spec: PipelineSpec) -> None:
        self.action = action
        self.spec = spec
        self.tally: Tally
        self.deadline: Deadline
        self.pages: Pages | None = None
        self.deferred: dict[tuple[str, int, int], Item] = {}
        """Events whose acknowledgement the action put off, by coordinates."""

    def begin(self, tally: Tally, deadline: Deadline, pages: Pages | None = None) -> None:
        self.tally = tally
        self.deadline = deadline
        self.pages = pages

    @property
    def notable(self) -> bool:
        """Whether what is done may be noted in the journal: failures and deferrals are only in this memory."""
        return self.pages is not None and self.in_order and not self.tally.failures and not self.deferred

    @abstractmethod
    def feed(self, items: list[Item]) -> None:
        """Work on these items, or take them in as far as there is room."""

    @property
    def behind(self) -> bool:
        """Whether something that was fed is not finished yet."""
        return True

    @abstractmethod
    def finish(self) -> list[Item]:
        """Wait for what is being acted on; return what was not begun (or stopped the pipeline), in order. Nothing
        begins after the deadline."""

    def close(self) -> None:  # noqa: B027 - only strands have threads to end
        """Let go of threads."""

    def settle(self, item: Event, result: Any) -> bool:
        """Take an unusual result of `act`: False defers, anything but None and True is a failure. True when the item
        is finished."""
        if result is False:
            r = item.record
            self.deferred[r.topic(), r.partition(), r.offset()] = item
            return True
        wrong = ActResult(
            f"act returned {type(result).__name__}",
            received=type(result).__name__,
            allowed="None or True (done), False (deferred)",
        )
        return self.tally.fail(item, "act", wrong, item.value)

    def one(self, item: Item, act: Callable[[Any], Any]) -> bool:
        """Act on one item; True when it is finished."""
        if isinstance(item, Broken):
            return self.tally.fail(item, item.stage, item.error, item.value)
        try:
            result = act(item)
        except BaseException as error:  # noqa: BLE001 - whatever user code raises, SystemExit included, ends this event alone
            return self.failed(item, error)
        return self.done(item, result)

    def done(self, item: Event, result: Any) -> bool:
        """Take the result of `act`, counted; True when the item is finished."""
        if result is None or result is True or result is False:
            with self.tally.lock:
                self.tally.acted += 1
        return result is None or result is True or self.settle(item, result)

    def failed(self, item: Event, error: BaseException) -> bool:
        """Take an exception of `act`: an outage stops the unit and spares the event. True when the item is finished."""
        if isinstance(error, Unavailable):
            self.tally.outage(error)
            return False
        return self.tally.fail(item, "act", error, item.value)


class Serial(Acting):
    """One event after the other, in the unit's own thread."""

    def __init__(self, action: Any, spec: PipelineSpec) -> None:
        super().__init__(action, spec)
        self._rest: list[Item] = []

    def feed(self, items: list[Item]) -> None:
        step = max(1, len(items) // _SAMPLES)
        for start in range(0, len(items), step):
            if self.pages is not None and self.notable:
                record = items[start].record
                self.pages.acting_on((record.topic(), record.partition()), record.offset(), record.offset())
            done = self._run(items[start : start + step])
            if done < len(items[start : start + step]):
                self._rest = items[start + done :]
                return
            sample_latency(self.tally, items[start])

    def _run(self, items: list[Item]) -> int:
        """Number of items finished before the deadline or a halt."""
        act, end, clock = self.action.act, self.deadline.at, time.monotonic
        done = bad = 0
        for item in items:
            if clock() >= end:
                break
            if type(item) is Event:
                # The common case, kept free of calls: a result of None or True needs nothing more.
                try:
                    result = act(item)
                except BaseException as error:  # noqa: BLE001 - as in `one`
                    if not self.failed(item, error):
                        break
                    bad += 1
                else:
                    if result is not None and result is not True:
                        if not self.settle(item, result):
                            break
                        bad += result is not False
            elif self.one(item, act):
                bad += 1
            else:
                break
            done += 1
        self.tally.acted += done - bad
        return done

    @property
    def behind(self) -> bool:
        return bool(self._rest)

    def finish(self) -> list[Item]:
        rest, self._rest = self._rest, []
        return rest


class Batches(Acting):
    """An action that takes many events at once."""

    def __init__(self, action: Any, spec: PipelineSpec) -> None:
        super().__init__(action, spec)
        self._rest: list[Item] = []

    def feed(self, items: list[Item]) -> None:
        if self.deadline.expired:
            self._rest = items
            return
        events = [item for item in items if isinstance(item, Event)]
        try:
            results = list(self.action.act_batch(events)) if events else []
            if len(results) != len(events):
                raise ActResult(
                    f"act_batch returned {len(results)} results for {len(events)} events",
                    hint="return one result per event, in order",
                )
        except Unavailable as error:
            self.tally.outage(error)
            self._rest = items
            return
        except BaseException as error:  # noqa: BLE001 - as in `one`
            results = [error] * len(events)
        outcome = iter(results)
        for index, item in enumerate(items):
            if not self._take(item, next(outcome) if isinstance(item, Event) else None):
                self._rest = items[index:]
                return
        if events:
            sample_latency(self.tally, events[0])
            sample_latency(self.tally, events[-1])

    def _take(self, item: Item, result: Any) -> bool:
        if isinstance(item, Broken):
            return self.tally.fail(item, item.stage, item.error, item.value)
        if isinstance(result, BaseException):
            return self.failed(item, result)
        return self.done(item, result)

    @property
    def behind(self) -> bool:
        return bool(self._rest)

    def finish(self) -> list[Item]:
        rest, self._rest = self._rest, []
        return rest


def sample_latency(tally: Tally, item: Item) -> None:
    """Time from the record's timestamp to now."""
    if type(item) is Event:
        stamp = item.record.timestamp()[1]
        if stamp > 0:
            tally.latencies.add((max(0.0, time.time() * 1000 - stamp),))
