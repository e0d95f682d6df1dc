"""Events acted on at the same time, those of one ordering key in order: threads for plain actions, one event loop for
async ones."""

from __future__ import annotations

import asyncio
import threading
from abc import abstractmethod
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from penstock.config.spec import PipelineSpec
from penstock.core.clock import SYSTEM, Clock
from penstock.core.event import Event
from penstock.kafka.partition_reader import Runs
from penstock.pipeline.chain import Chain
from penstock.pipeline.executors.executor import ActionExecutor, Verdict, coordinates
from penstock.pipeline.items import FailedItem, Item
from penstock.pipeline.messages import Partition
from penstock.pipeline.retry import offsets_of
from penstock.pipeline.unit_result import TimedOut

_ROOM = 500
"""Items queued behind busy ordering keys: what is unfinished at a window's end has to fit into the commit metadata."""
_LOOK_EVERY = 0.5
_IDLE = 30.0
"""Seconds an idle thread waits before it looks by itself; it is notified when there is something to do."""
_LOOP_GRACE = 2.0
"""Seconds beyond the time-out after which an event loop that is held up by one coroutine is given up."""


@dataclass(slots=True, eq=False)
class ActiveEvent:
    """One event that is acted on."""

    key: Hashable
    """Its ordering key."""
    item: Item
    began: float
    again: bool
    """It has failed before: its failed step comes first."""
    slot: int | None
    """In the in-flight log."""
    returned: bool = False
    """The action has returned: it can no longer be given up."""


class KeyedExecutor(ActionExecutor):
    """One queue per ordering key; a key is either ready, acted on, or waits for a retry."""

    overlaps = True

    def __init__(self, chain: Chain, spec: PipelineSpec, clock: Clock = SYSTEM) -> None:
        super().__init__(chain, spec, clock)
        self.concurrency = spec.options.concurrency
        self._queues: dict[Hashable, deque[Item]] = {}
        self._ready: deque[Hashable] = deque()
        self._delayed: dict[Hashable, float] = {}
        """Ordering keys that wait for a retry, and until when."""
        self._active: set[ActiveEvent] = set()
        self._queued = 0
        """Items in queues of keys that are not delayed."""
        self._returned: list[Item] = []
        """Items that this unit will not begin."""
        self._changed = threading.Condition()

    def feed(self, items: list[Item], runs: Runs | None = None) -> None:  # noqa: ARG002 - keys decide
        with self._changed:
            for item in items:
                self._put(item)
        self._start()
        with self._changed:
            # Back-pressure: the next batch is read when there is room for it, or never in this unit.
            while self._queued > _ROOM and self._may_begin:
                self._changed.wait(min(_LOOK_EVERY, self.deadline.remaining))
                self._end_overdue()
                self._start()

    def _put(self, item: Item) -> None:
        key = self.ordering_key(item)
        queue = self._queues.get(key)
        if queue is not None:
            queue.append(item)
            self._queued += key not in self._delayed
            return
        self._queues[key] = deque((item,))
        if self.is_early(item):
            self._delayed[key] = self.retries[coordinates(item)].due
        else:
            self._ready.append(key)
            self._queued += 1

    @property
    def _may_begin(self) -> bool:
        return not (self.stopping or self.deadline.expired or self.result.full)

    def take(self) -> ActiveEvent | None:
        """The next item of a ready key, which the caller then acts on; None when nothing may begin."""
        with self._changed:
            if not self._ready or not self._may_begin:
                return None
            key = self._ready.popleft()
            item = self._queues[key].popleft()
            self._queued -= 1
            again = bool(self.retries) and coordinates(item) in self.retries
            active = ActiveEvent(key, item, self.clock.monotonic(), again, self.slots.begin(item.record))
            self._active.add(active)
            return active

    def has_returned(self, active: ActiveEvent) -> bool:
        """The action has returned; False: the event was given up meanwhile, and what it did counts for nothing."""
        with self._changed:
            active.returned = active in self._active
            return active.returned

    def settle(self, active: ActiveEvent, verdict: Verdict) -> None:
        """The ordering key is free again."""
        with self._changed:
            self._settle(active, verdict)
            if not self._active or self._queued <= _ROOM:
                # Only then may the unit's thread wait for it; waking it for each event costs as much as the event.
                self._changed.notify_all()

    def _settle(self, active: ActiveEvent, verdict: Verdict) -> None:
        self._active.discard(active)
        self.slots.end(active.slot)
        self.took(self.clock.monotonic() - active.began, 1)
        key, item = active.key, active.item
        queue = self._queues[key]
        if verdict == "stop":
            self._queued -= len(queue)
            self._returned += [item, *queue]
            del self._queues[key]
        elif verdict == "later":
            self._queued -= len(queue)
            queue.appendleft(item)
            self._delayed[key] = self.retries[coordinates(item)].due
        elif queue:
            self._ready.append(key)
        else:
            del self._queues[key]

    def judged(self, active: ActiveEvent, item: Item | None, result: Any, error: BaseException | None) -> Verdict:
        """What becomes of an item that the action has returned from; None: it was dropped before."""
        if item is None:
            return self.dropped(active.item)
        if isinstance(item, FailedItem):
            return self.fail(item, item.stage, item.error)
        if error is not None:
            return self.fail(item, "timeout" if isinstance(error, TimedOut) else "act", error)
        verdict = self.done(item, result)
        self.result.sample(item)
        return verdict

    def work(self, active: ActiveEvent) -> Item | None:
        """What is to be acted on; None: it was dropped this time."""
        return self.retry_steps(active.item) if active.again else active.item

    @abstractmethod
    def _start(self) -> None:
        """Have enough threads or coroutines for what is ready."""

    def wake(self) -> None:
        now = self.clock.monotonic()
        with self._changed:
            for key in [key for key, due in self._delayed.items() if due <= now]:
                del self._delayed[key]
                self._ready.append(key)
                self._queued += len(self._queues[key])
            self._end_overdue()
        self._start()

    @property
    def next_due(self) -> float | None:
        with self._changed:
            times = list(self._delayed.values())
            times += [active.began + self.timeout for active in self._active]
        return min(times, default=None)

    @property
    def waiting(self) -> dict[Partition, list[int]]:
        with self._changed:
            return offsets_of(item for key in self._delayed for item in self._queues[key]) if self._delayed else {}

    @property
    def unfinished(self) -> bool:
        return bool(self._queues or self._active or self._returned)

    def _end_overdue(self) -> None:
        """Give up what takes too long; the condition is held."""
        now = self.clock.monotonic()
        for active in [a for a in self._active if now - a.began > self.timeout and not a.returned]:
            self.tainted = True
            self._settle(active, self.fail(active.item, "timeout", self.timed_out()))
            self._replace(active)

    def _replace(self, active: ActiveEvent) -> None:
        """Another thread takes the place of the one that hangs."""

    @property
    def busy(self) -> bool:
        return bool(self._active or self._ready)

    def wait_idle(self) -> None:
        with self._changed:
            while self._active or (self._ready and self._may_begin):
                if not self._changed.wait(min(_LOOK_EVERY, self.timeout)):
                    self._end_overdue()
                    self._start()

    def finish(self) -> list[Item]:
        with self._changed:
            self.wait_idle()
            self.note_quick()
            rest = self._returned + [item for queue in self._queues.values() for item in queue]
            self._queues.clear()
            self._ready.clear()
            self._delayed.clear()
            self._returned = []
            self._queued = 0
        return sorted(rest, key=coordinates)


class KeyedThreadExecutor(KeyedExecutor):
    """N threads for a plain `act`. Daemons: one that hangs must not keep the process."""

    def __init__(self, chain: Chain, spec: PipelineSpec, clock: Clock = SYSTEM) -> None:
        super().__init__(chain, spec, clock)
        self._running = 0
        self._idle = 0
        self._calls = threading.Condition()
        self._closed = False

    def _start(self) -> None:
        with self._calls:
            wanted = len(self._ready)
            for _ in range(min(self.concurrency - self._running, wanted - self._idle)):
                self._running += 1
                threading.Thread(target=self._live, name=f"act-{self.spec.name}", daemon=True).start()
            self._calls.notify(min(wanted, self._idle))

    def _live(self) -> None:
        while True:
            while active := self.take():
                if not self._act(active):
                    return
            with self._calls:
                if self._closed:
                    return
                if not self._ready or not self._may_begin:
                    self._idle += 1
                    self._calls.wait(_IDLE)
                    self._idle -= 1

    def _act(self, active: ActiveEvent) -> bool:
        """False: this thread was given up meanwhile, and another has its place."""
        error = result = None
        item = self.work(active)
        if isinstance(item, Event):
            try:
                result = self.action.act(item)
            except BaseException as raised:  # noqa: BLE001 - whatever user code raises, SystemExit included, ends this event alone
                error = raised
        if not self.has_returned(active):
            return False
        self.settle(active, self.judged(active, item, result, error))
        return True

    def _replace(self, active: ActiveEvent) -> None:  # noqa: ARG002 - any thread is as good as another
        self._running -= 1

    def close(self) -> None:
        with self._calls:
            self._closed = True
            self._calls.notify_all()


class KeyedAsyncExecutor(KeyedExecutor):
    """One event loop for an `async def act`, alive as long as the action."""

    def __init__(self, chain: Chain, spec: PipelineSpec, clock: Clock = SYSTEM) -> None:
        super().__init__(chain, spec, clock)
        self._loop = asyncio.new_event_loop()
        self._running = 0
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"loop-{spec.name}", daemon=True)
        self._thread.start()

    def _start(self) -> None:
        self._loop.call_soon_threadsafe(self._spawn)

    def _spawn(self) -> None:
        for _ in range(min(self.concurrency - self._running, len(self._ready))):
            self._running += 1
            task = self._loop.create_task(self._run())
            task.add_done_callback(lambda _: self._ended())

    def _ended(self) -> None:
        self._running -= 1
        if self._may_begin:
            self._spawn()

    async def _run(self) -> None:
        while active := self.take():
            error = result = None
            item = self.work(active)
            if isinstance(item, Event):
                timer: asyncio.Timeout | None = None
                try:
                    # A coroutine can be ended where a thread cannot: no process has to go for it.
                    async with asyncio.timeout(self.timeout) as timer:
                        result = await self.action.act(item)
                except BaseException as raised:  # noqa: BLE001 - as in threads
                    error = self.timed_out() if timer is not None and timer.expired() else raised
            if not self.has_returned(active):
                return
            self.settle(active, self.judged(active, item, result, error))

    def _end_overdue(self) -> None:
        """The loop's own timers end coroutines; only one that holds up the whole loop is given up from outside."""
        now = self.clock.monotonic()
        if any(now - active.began > self.timeout + _LOOP_GRACE for active in self._active):
            super()._end_overdue()

    def run(self, coroutine: Any) -> Any:
        """Run a coroutine of the action on its own loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(timeout=10)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=5)
        if not self._thread.is_alive():
            self._loop.close()
