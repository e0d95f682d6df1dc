"""Strands: events acted on side by side, those of one key (or partition) in order. Threads for plain actions, one
event loop for async ones."""

from __future__ import annotations

import asyncio
import threading
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from penstock.config.spec import PipelineSpec
from penstock.core.event import Event
from penstock.pipeline.chain import Chain, FailedItem, Item
from penstock.pipeline.executors.executor import ActionExecutor, Verdict, coordinates
from penstock.pipeline.messages import Partition
from penstock.pipeline.retry_queue import offsets_of
from penstock.pipeline.unit_result import TimedOut

_ROOM = 500
"""Items waiting behind busy strands: what is unfinished at a window's end has to fit into the commit metadata."""
_LOOK_EVERY = 0.5
_IDLE = 30.0
"""Seconds an idle thread waits before it looks by itself; it is called when there is something to do."""


@dataclass(slots=True, eq=False)
class ActiveEvent:
    """One event in somebody's hands."""

    strand: Hashable
    item: Item
    began: float
    again: bool
    """It has failed before: its failed step comes first."""
    back: bool = False
    """The action has returned: it can no longer be given up."""


class KeyedExecutor(ActionExecutor):
    """Shared queueing: one queue per strand; a strand is either ready, in somebody's hands, or asleep until a retry."""

    overlaps = True

    def __init__(self, chain: Chain, spec: PipelineSpec) -> None:
        super().__init__(chain, spec)
        self._queues: dict[Hashable, deque[Item]] = {}
        self._ready: deque[Hashable] = deque()
        self._asleep: dict[Hashable, float] = {}
        self._flights: set[ActiveEvent] = set()
        self._waiting = 0
        """Items in queues of strands that are not asleep."""
        self._returned: list[Item] = []
        self._changed = threading.Condition()

    def feed(self, items: list[Item]) -> None:
        with self._changed:
            for item in items:
                self._put(item)
        self._start()
        with self._changed:
            # Reading ahead ends here: the next batch is taken when there is room for it, or never in this unit.
            while self._waiting > _ROOM and self._may_begin:
                self._changed.wait(min(_LOOK_EVERY, self.deadline.remaining))
                self._look_after_flights()
                self._start()

    def _put(self, item: Item) -> None:
        name = self.strand(item)
        queue = self._queues.get(name)
        if queue is not None:
            queue.append(item)
            self._waiting += name not in self._asleep
            return
        self._queues[name] = deque((item,))
        if self.is_early(item):
            self._asleep[name] = self.tries[coordinates(item)].due
        else:
            self._ready.append(name)
            self._waiting += 1

    @property
    def _may_begin(self) -> bool:
        return not (self.deadline.expired or self.tally.full or (self.pages is not None and self.pages.full))

    def take(self) -> ActiveEvent | None:
        """The next item of a ready strand, which is then in the caller's hands; None when nothing may begin."""
        with self._changed:
            if not self._ready or not self._may_begin:
                return None
            name = self._ready.popleft()
            item = self._queues[name].popleft()
            self._waiting -= 1
            flight = ActiveEvent(name, item, time.monotonic(), bool(self.tries) and coordinates(item) in self.tries)
            self._flights.add(flight)
            if self.pages is not None:
                self.pages.begun(item.record)
            return flight

    def is_back(self, flight: ActiveEvent) -> bool:
        """The action has returned; False: it was given up meanwhile, and what it did counts for nothing."""
        with self._changed:
            flight.back = flight in self._flights
            return flight.back

    def land(self, flight: ActiveEvent, verdict: Verdict) -> None:
        """The strand is free again."""
        with self._changed:
            self._land(flight, verdict)
            if not self._flights or self._waiting <= _ROOM:
                # Only then may somebody wait for it; waking the unit's thread for each event costs as much as a strand.
                self._changed.notify_all()

    def _land(self, flight: ActiveEvent, verdict: Verdict) -> None:
        self._flights.discard(flight)
        self.took(time.monotonic() - flight.began, 1)
        name, item = flight.strand, flight.item
        if self.pages is not None:
            self.pages.ended(item.record, done=verdict == "done")
        queue = self._queues[name]
        if verdict == "stop":
            self._waiting -= len(queue)
            self._returned += [item, *queue]
            del self._queues[name]
        elif verdict == "later":
            self._waiting -= len(queue)
            queue.appendleft(item)
            self._asleep[name] = self.tries[coordinates(item)].due
        elif queue:
            self._ready.append(name)
        else:
            del self._queues[name]

    def judged(self, item: Item | None, result: Any, error: BaseException | None) -> Verdict:
        """What becomes of an item that the action has returned from; None: it was dropped before."""
        if item is None:
            return "done"
        if isinstance(item, FailedItem):
            return self.fail(item, item.stage, item.error)
        if error is not None:
            return self.fail(item, "timeout" if isinstance(error, TimedOut) else "act", error)
        verdict = self.done(item, result)
        self.tally.sample(item)
        return verdict

    def work(self, flight: ActiveEvent) -> Item | None:
        """What is to be acted on; None: it was dropped this time."""
        return self.again(flight.item) if flight.again else flight.item

    @abstractmethod
    def _start(self) -> None:
        """See to it that somebody takes what is ready."""

    def wake(self) -> None:
        now = time.monotonic()
        with self._changed:
            for name in [name for name, due in self._asleep.items() if due <= now]:
                del self._asleep[name]
                self._ready.append(name)
                self._waiting += len(self._queues[name])
            self._look_after_flights()
        self._start()

    @property
    def next_due(self) -> float | None:
        with self._changed:
            times = list(self._asleep.values())
            times += [flight.began + self.timeout for flight in self._flights]
        return min(times, default=None)

    @property
    def waiting(self) -> dict[Partition, list[int]]:
        with self._changed:
            return offsets_of(item for name in self._asleep for item in self._queues[name]) if self._asleep else {}

    def _look_after_flights(self) -> None:
        """Give up what takes too long; the condition is held."""
        now = time.monotonic()
        for flight in [f for f in self._flights if now - f.began > self.timeout and not f.back]:
            self.tainted = True
            self._land(flight, self.fail(flight.item, "timeout", self.timed_out()))
            self._replace(flight)

    def _replace(self, flight: ActiveEvent) -> None:
        """Another one takes the place of whoever hangs with this flight."""

    @property
    def busy(self) -> bool:
        return bool(self._flights or self._ready)

    def wait_idle(self) -> None:
        with self._changed:
            while self._flights or (self._ready and self._may_begin):
                if not self._changed.wait(min(_LOOK_EVERY, self.timeout)):
                    self._look_after_flights()
                    self._start()

    def finish(self) -> list[Item]:
        with self._changed:
            self.wait_idle()
            self.note_quick()
            rest = self._returned + [item for queue in self._queues.values() for item in queue]
            self._queues.clear()
            self._ready.clear()
            self._asleep.clear()
            self._returned = []
            self._waiting = 0
        return sorted(rest, key=coordinates)


class KeyedThreadExecutor(KeyedExecutor):
    """N threads for a plain `act`. Daemons: one that hangs must not keep the process."""

    def __init__(self, chain: Chain, spec: PipelineSpec) -> None:
        super().__init__(chain, spec)
        self._size = spec.options.concurrency
        self._running = 0
        self._idle = 0
        self._calls = threading.Condition()
        self._closed = False

    def _start(self) -> None:
        with self._calls:
            wanted = len(self._ready)
            for _ in range(min(self._size - self._running, wanted - self._idle)):
                self._running += 1
                threading.Thread(target=self._live, name=f"strand-{self.spec.name}", daemon=True).start()
            self._calls.notify(min(wanted, self._idle))

    def _live(self) -> None:
        while True:
            while flight := self.take():
                if not self._fly(flight):
                    return
            with self._calls:
                if self._closed:
                    return
                if not self._ready or not self._may_begin:
                    self._idle += 1
                    self._calls.wait(_IDLE)
                    self._idle -= 1

    def _fly(self, flight: ActiveEvent) -> bool:
        """False: this thread was given up meanwhile, and another has its place."""
        error = result = None
        item = self.work(flight)
        if isinstance(item, Event):
            try:
                result = self.action.act(item)
            except BaseException as raised:  # noqa: BLE001 - whatever user code raises, SystemExit included, ends this event alone
                error = raised
        if not self.is_back(flight):
            return False
        self.land(flight, self.judged(item, result, error))
        return True

    def _replace(self, flight: ActiveEvent) -> None:  # noqa: ARG002 - any thread is as good as another
        self._running -= 1

    def close(self) -> None:
        with self._calls:
            self._closed = True
            self._calls.notify_all()


class KeyedAsyncExecutor(KeyedExecutor):
    """One event loop for an `async def act`, alive as long as the action."""

    def __init__(self, chain: Chain, spec: PipelineSpec) -> None:
        super().__init__(chain, spec)
        self._size = spec.options.concurrency
        self._loop = asyncio.new_event_loop()
        self._running = 0
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"loop-{spec.name}", daemon=True)
        self._thread.start()

    def _start(self) -> None:
        self._loop.call_soon_threadsafe(self._spawn)

    def _spawn(self) -> None:
        for _ in range(min(self._size - self._running, len(self._ready))):
            self._running += 1
            task = self._loop.create_task(self._run())
            task.add_done_callback(lambda _: self._ended())

    def _ended(self) -> None:
        self._running -= 1
        if self._may_begin:
            self._spawn()

    async def _run(self) -> None:
        while flight := self.take():
            error = result = None
            item = self.work(flight)
            if isinstance(item, Event):
                timer: asyncio.Timeout | None = None
                try:
                    # A coroutine can be ended where a thread cannot: no process has to go for it.
                    async with asyncio.timeout(self.timeout) as timer:
                        result = await self.action.act(item)
                except BaseException as raised:  # noqa: BLE001 - as in threads
                    error = self.timed_out() if timer is not None and timer.expired() else raised
            if not self.is_back(flight):
                return
            self.land(flight, self.judged(item, result, error))

    def _look_after_flights(self) -> None:
        """The loop's own timers do; only one that holds up the whole loop is given up from outside."""
        now = time.monotonic()
        if any(now - flight.began > self.timeout + 2.0 for flight in self._flights):
            super()._look_after_flights()

    def run(self, coroutine: Any) -> Any:
        """Run a coroutine of the action on its own loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(timeout=10)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=5)
        if not self._thread.is_alive():
            self._loop.close()
