"""Strands: events acted on side by side, those of one key (or partition) in order. Threads for plain actions, one
event loop for async ones."""

from __future__ import annotations

import asyncio
import threading
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from penstock.config.spec import PipelineSpec
from penstock.worker.acting import Acting, sample_latency
from penstock.worker.chain import Broken, Item

_ROOM = 500
"""Items waiting behind busy strands: what is unfinished at a window's end has to fit into the commit metadata."""


class Strands(Acting):
    """Shared queueing: one queue per strand; a strand is either free, waiting or in somebody's hands."""

    in_order = False

    def __init__(self, action: Any, spec: PipelineSpec) -> None:
        super().__init__(action, spec)
        self._strand = _strand_of(spec.ordering)
        self._queues: dict[Hashable, deque[Item]] = {}
        self._ready: deque[Hashable] = deque()
        self._waiting = 0
        self._busy = 0
        self._returned: list[Item] = []
        self._changed = threading.Condition()

    def feed(self, items: list[Item]) -> None:
        with self._changed:
            for item in items:
                self._put(item)
        self._start()
        with self._changed:
            # Reading ahead ends here: the next batch is taken when there is room for it, or never in this unit.
            while self._waiting > _ROOM and not self.deadline.expired and not self.tally.full:
                self._changed.wait(min(0.5, self.deadline.remaining))

    def _put(self, item: Item) -> None:
        name = self._strand(item)
        queue = self._queues.get(name)
        if queue is None:
            self._queues[name] = deque((item,))
            self._ready.append(name)
        else:
            queue.append(item)
        self._waiting += 1

    def take(self) -> tuple[Hashable, Item] | None:
        """The next item of a free strand, which is then in the caller's hands; None when nothing may begin."""
        with self._changed:
            if not self._ready or self.deadline.expired or self.tally.full:
                return None
            name = self._ready.popleft()
            self._waiting -= 1
            self._busy += 1
            return name, self._queues[name].popleft()

    def give_back(self, name: Hashable, item: Item, *, finished: bool) -> None:
        """The strand is free again; an item that was not finished is returned with the rest."""
        with self._changed:
            if not finished:
                self._returned.append(item)
            elif self._queues[name]:
                self._ready.append(name)
            else:
                del self._queues[name]
            self._busy -= 1
            self._changed.notify_all()

    @abstractmethod
    def _start(self) -> None:
        """See to it that somebody takes what is ready."""

    def finish(self) -> list[Item]:
        with self._changed:
            while self._busy or (self._ready and not self.deadline.expired and not self.tally.full):
                self._changed.wait(0.5)
            rest = self._returned + [item for queue in self._queues.values() for item in queue]
            self._queues.clear()
            self._ready.clear()
            self._returned = []
            self._waiting = 0
        return sorted(rest, key=lambda item: item.record.offset())


class ThreadStrands(Strands):
    """N threads for a plain `act`."""

    def __init__(self, action: Any, spec: PipelineSpec) -> None:
        super().__init__(action, spec)
        self._size = spec.options.concurrency
        self._pool = ThreadPoolExecutor(self._size, thread_name_prefix=f"strand-{spec.name}")
        self._running = 0
        self._count = threading.Lock()

    def _start(self) -> None:
        with self._count:
            missing = min(self._size - self._running, len(self._ready))
            self._running += max(0, missing)
        for _ in range(missing):
            self._pool.submit(self._run)

    def _run(self) -> None:
        try:
            while taken := self.take():
                name, item = taken
                finished = self.one(item, self.action.act)
                if finished:
                    sample_latency(self.tally, item)
                self.give_back(name, item, finished=finished)
        finally:
            with self._count:
                self._running -= 1
        if self._ready:
            # A strand became free between the last look and the end of this thread's turn.
            self._start()

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


class LoopStrands(Strands):
    """One event loop for an `async def act`, alive as long as the action."""

    def __init__(self, action: Any, spec: PipelineSpec) -> None:
        super().__init__(action, spec)
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
        self._spawn()

    async def _run(self) -> None:
        while taken := self.take():
            name, item = taken
            finished = await self._one(item)
            if finished:
                sample_latency(self.tally, item)
            self.give_back(name, item, finished=finished)

    async def _one(self, item: Item) -> bool:
        if isinstance(item, Broken):
            return self.tally.fail(item, item.stage, item.error, item.value)
        try:
            result = await self.action.act(item)
        except BaseException as error:  # noqa: BLE001 - whatever user code raises, SystemExit included, ends this event alone
            return self.failed(item, error)
        return self.done(item, result)

    def run(self, coroutine: Any) -> Any:
        """Run a coroutine of the action on its own loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(timeout=10)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=5)
        if not self._thread.is_alive():
            self._loop.close()


def _strand_of(ordering: str) -> Callable[[Item], Hashable]:
    if ordering == "partition":
        return lambda item: (item.record.topic(), item.record.partition())
    if ordering == "key":
        return _key_strand
    return lambda item: (item.record.topic(), item.record.partition(), item.record.offset())


def _key_strand(item: Item) -> Hashable:
    record = item.record
    key = record.key()
    # An event without a key has no order to keep with others.
    place = (record.topic(), record.partition())
    return (*place, key) if key is not None else (*place, None, record.offset())
