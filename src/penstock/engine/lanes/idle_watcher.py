"""The doorbell: wakes cold pipelines when something arrives, at the cost of one consumer per client configuration."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import structlog

from penstock.kafka.arrival_consumer import ArrivalConsumer
from penstock.kafka.client import KafkaClientConfig
from penstock.pipeline.messages import Partition

log = structlog.get_logger("penstock.doorbell")

Ring = Callable[[], None]


class IdleWatcher(threading.Thread):
    """Watches for one client configuration; `watch` and `leave` may be called from any thread."""

    def __init__(self, client: KafkaClientConfig) -> None:
        super().__init__(name="doorbell", daemon=True)
        self._client = client
        self._lock = threading.Lock()
        self._waiting: dict[str, tuple[Mapping[Partition, int], Ring]] = {}
        self._changed = threading.Event()
        self._stopping = False

    def watch(self, name: str, cursors: Mapping[Partition, int], ring: Ring) -> None:
        """Ring once when a record at or beyond a cursor arrives."""
        with self._lock:
            self._waiting[name] = (dict(cursors), ring)
        self._changed.set()

    def leave(self, name: str) -> None:
        with self._lock:
            if self._waiting.pop(name, None) is not None:
                self._changed.set()

    def stop(self) -> None:
        self._stopping = True
        self._changed.set()

    def run(self) -> None:
        while not self._stopping:
            try:
                self._watch()
            except Exception:
                # Without a bell nobody would ever wake up: everyone who waits looks for himself, and the bell is hung
                # anew.
                log.exception("the doorbell failed")
                self._ring_all()
                time.sleep(1.0)

    def _watch(self) -> None:
        bell: ArrivalConsumer | None = None
        self._changed.set()
        try:
            while not self._stopping:
                if self._changed.is_set():
                    self._changed.clear()
                    wanted = self._lowest()
                    bell = bell or (ArrivalConsumer(self._client) if wanted else None)
                    if bell:
                        bell.watch(wanted)
                if bell is None or not self._waiting:
                    self._changed.wait(1.0)
                    continue
                # Short enough that a pipeline that falls asleep now is watched soon; it has just read to the end.
                self._ring(bell.wait(0.1))
        finally:
            if bell:
                with contextlib.suppress(Exception):
                    bell.close()

    def _ring_all(self) -> None:
        with self._lock:
            rings = [ring for _, ring in self._waiting.values()]
            self._waiting.clear()
        for ring in rings:
            ring()

    def _lowest(self) -> dict[Partition, int]:
        with self._lock:
            lowest: dict[Partition, int] = {}
            for cursors, _ in self._waiting.values():
                for tp, cursor in cursors.items():
                    lowest[tp] = min(cursor, lowest.get(tp, cursor))
            return lowest

    def _ring(self, arrivals: list[tuple[Partition, int | None]]) -> None:
        rung: list[Any] = []
        with self._lock:
            for tp, offset in arrivals:
                for name, (cursors, ring) in list(self._waiting.items()):
                    if tp in cursors and (offset is None or cursors[tp] <= offset):
                        del self._waiting[name]
                        rung.append(ring)
            if rung:
                self._changed.set()
        for ring in rung:
            ring()
