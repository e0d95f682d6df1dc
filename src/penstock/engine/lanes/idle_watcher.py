"""The idle watcher: wakes idle pipelines when something arrives, by one consumer per client configuration."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Mapping
from typing import Protocol

import structlog

from penstock.core.clock import SYSTEM, Clock
from penstock.core.threads import THREADS, Threads
from penstock.kafka.arrival_consumer import ArrivalConsumer
from penstock.kafka.client import KafkaClientConfig
from penstock.pipeline.messages import Partition

log = structlog.get_logger("penstock.idle-watcher")

_POLL = 0.1
"""Seconds of one poll: a pipeline that becomes idle is watched after so long at most; it has just read to the end."""
_UNWATCHED = 1.0
_AFTER_FAILURE = 1.0

Wake = Callable[[], None]


class Arrivals(Protocol):
    """`ArrivalConsumer`, or a test double; used by one thread."""

    def watch(self, wanted: Mapping[Partition, int]) -> None: ...
    def wait(self, timeout: float) -> list[tuple[Partition, int | None]]: ...
    def close(self) -> None: ...


class IdleWatcher:
    """Watches for one client configuration; `watch` and `leave` may be called from any thread."""

    def __init__(
        self,
        client: KafkaClientConfig,
        *,
        consumer: Callable[[KafkaClientConfig], Arrivals] = ArrivalConsumer,
        clock: Clock = SYSTEM,
        threads: Threads = THREADS,
    ) -> None:
        self._client, self._new_consumer = client, consumer
        self._clock, self._threads = clock, threads
        self._lock = threads.lock()
        self._watched: dict[Hashable, tuple[Mapping[Partition, int], Wake]] = {}
        self._changed = threads.event()
        self._stopping = False

    def start(self) -> None:
        self._threads.start("idle-watcher", self.run, owner="IdleWatcher", ends="at `stop`")

    def stop(self) -> None:
        self._stopping = True
        self._changed.set()

    def watch(self, owner: Hashable, cursors: Mapping[Partition, int], wake: Wake) -> None:
        """Call `wake` once, from the watcher's thread, when a record at or beyond a cursor arrives. `owner` is the
        runner itself: one that ends late must not end the watch of its successor (F10)."""
        with self._lock:
            self._watched[owner] = (dict(cursors), wake)
        self._changed.set()

    def leave(self, owner: Hashable) -> None:
        with self._lock:
            if self._watched.pop(owner, None) is not None:
                self._changed.set()

    def run(self) -> None:
        """The watcher's thread."""
        while not self._stopping:
            try:
                self._watch()
            except Exception:
                # Unwatched pipelines would never wake: each looks for itself, and the consumer is made anew.
                log.exception("the idle watcher failed; it starts again")
                self._wake_all()
                self._clock.sleep(_AFTER_FAILURE)

    def _watch(self) -> None:
        consumer: Arrivals | None = None
        self._changed.set()
        try:
            while not self._stopping:
                if self._changed.is_set():
                    self._changed.clear()
                    wanted = self._lowest()
                    consumer = consumer or (self._new_consumer(self._client) if wanted else None)
                    if consumer:
                        consumer.watch(wanted)
                if consumer is None or not self._watched:
                    self._changed.wait(_UNWATCHED)
                    continue
                self._wake_reached(consumer.wait(_POLL))
        finally:
            if consumer:
                with contextlib.suppress(Exception):
                    consumer.close()

    def _lowest(self) -> dict[Partition, int]:
        with self._lock:
            lowest: dict[Partition, int] = {}
            for cursors, _ in self._watched.values():
                for tp, cursor in cursors.items():
                    lowest[tp] = min(cursor, lowest.get(tp, cursor))
            return lowest

    def _wake_reached(self, arrivals: list[tuple[Partition, int | None]]) -> None:
        reached: list[Wake] = []
        with self._lock:
            for tp, offset in arrivals:
                for owner, (cursors, wake) in list(self._watched.items()):
                    if tp in cursors and (offset is None or cursors[tp] <= offset):
                        del self._watched[owner]
                        reached.append(wake)
            if arrivals:
                # F28: the consumer stands behind what it delivered. A pipeline that began to watch at that offset since
                # is not woken by it; `ArrivalConsumer.watch` goes back for it.
                self._changed.set()
        self._call(reached)

    def _wake_all(self) -> None:
        with self._lock:
            wakes = [wake for _, wake in self._watched.values()]
            self._watched.clear()
        self._call(wakes)

    def _call(self, wakes: list[Wake]) -> None:
        for wake in wakes:
            try:
                wake()
            except Exception:
                # The others have to be woken, too; they are no longer watched.
                log.exception("a pipeline cannot be woken")
