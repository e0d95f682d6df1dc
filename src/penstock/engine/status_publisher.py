"""Tells the store and the metrics, every second, what this instance is doing."""

from __future__ import annotations

import os
import socket
import threading
import time
from typing import Protocol

import structlog

from penstock.config.settings import Settings
from penstock.config.stored import stored
from penstock.core.errors import Unavailable
from penstock.core.interval import IntervalGate
from penstock.core.memory import give_back
from penstock.core.metrics import Metrics
from penstock.engine.dead_letter_retention import DeadLetterRetention
from penstock.engine.pipelines.runner import PipelineRunner
from penstock.store import InstanceRow, OwnedPartition, StateRow, Store

log = structlog.get_logger("penstock.publisher")

_EVERY = 1.0
_GIVES_BACK = 30.0
_PARTITIONS = 2.0
_HEARTBEAT = 2.0
_EXPIRE = 60.0
_PATIENCE = 5.0
"""Seconds after which a store that has not answered counts as away: a server that hangs refuses nothing for long."""
_LAST_WORDS = 10.0
"""Seconds that a stop waits for the store to be told of it: fewer than SQLite waits for a lock, or a stop may last."""


class Published(Protocol):
    """The instance, as far as it is published."""

    id: str
    settings: Settings
    store: Store
    metrics: Metrics
    flows: list[PipelineRunner]
    invalid: list[StateRow]


class Publisher(threading.Thread):
    """One per instance."""

    def __init__(self, published: Published, version: str, http_address: str | None) -> None:
        super().__init__(name="publisher", daemon=True)
        self._row = InstanceRow(
            id=published.id,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=version,
            started_at=int(time.time() * 1000),
            http_address=http_address,
        )
        self._published, self._store, self._metrics = published, published.store, published.metrics
        self._trouble: str | None = None
        """Why the store could not be written last time."""
        self._asked_at: float | None = None
        """When the writing began that is still under way."""
        self._last: dict[str, object] = {}
        self._said: set[str] = set()
        """Pipelines of which the store has a word of this instance."""
        self._times = IntervalGate()
        self._janitor = DeadLetterRetention(published.store, published.settings.dead_letters)
        self._done = threading.Event()

    def run(self) -> None:
        while not self._done.wait(_EVERY):
            try:
                self.publish()
            except Exception:
                log.exception("publishing failed; it goes on")
        try:
            self._leave()
        except Exception:
            log.exception("the store was not told of the stop")

    def stop(self) -> None:
        """A last word, then the instance is forgotten; what it did stays in the history. A store that hangs is not
        waited for: others see that this instance is silent."""
        self._done.set()
        self.join(_LAST_WORDS)
        if self.is_alive() or self.trouble is not None:
            log.warning("the store was not told of the stop", reason=self.trouble)

    def _leave(self) -> None:
        # A store that was away a moment ago would be waited for in vain.
        if self.trouble is None:
            self.publish()
        if self.trouble is None:
            try:
                self._store.instances.remove(self._row.id)
            except Unavailable as error:
                self._trouble = str(error)

    @property
    def trouble(self) -> str | None:
        """What is wrong with the store: it could not be written last time, or has not answered for a while."""
        asked_at = self._asked_at
        waited = 0.0 if asked_at is None else time.monotonic() - asked_at
        return self._trouble or (f"the store is away: no answer for {waited:.0f} s" if waited > _PATIENCE else None)

    def publish(self) -> None:
        """Write what has changed; an absent store is waited for."""
        self._asked_at = time.monotonic()
        try:
            self._write()
        finally:
            self._asked_at = None

    def _write(self) -> None:
        try:
            if self._times.is_due("heartbeat", _HEARTBEAT):
                self._store.instances.heartbeat(self._row)
            if self._times.is_due("expire", _EXPIRE):
                self._store.instances.expire(_EXPIRE)
            self._states()
            if not self._done.is_set():
                self._janitor.step()
            self._specs()
            if self._times.is_due("partitions", _PARTITIONS) or self._done.is_set():
                self._partitions()
            if self._times.is_due("memory", _GIVES_BACK):
                # What the start, or a burst, has left.
                give_back()
        except Unavailable as error:
            self._metrics.store_errors.labels("publish").inc()
            self._last.clear()
            self._trouble = str(error)
            log.warning("the store cannot be written", reason=str(error))
        else:
            self._trouble = None

    def _changed(self, key: str, value: object) -> bool:
        last = self._last.get(key)
        if last is value or last == value:
            return False
        self._last[key] = value
        return True

    def _states(self) -> None:
        invalid, flows = list(self._published.invalid), list(self._published.flows)
        rows = [row for row in invalid if self._changed(f"state {row.pipeline}", row)]
        rows += [self._state(flow) for flow in flows if self._changed(f"state {flow.name}", _mark(flow))]
        self._store.pipelines.put_states(rows)
        names = {row.pipeline for row in invalid} | {flow.name for flow in flows}
        if gone := self._said - names:
            self._store.pipelines.forget_states(self._row.id, sorted(gone))
            self._store.partitions.put_all(self._row.id, {name: [] for name in gone})
            self._last = {key: value for key, value in self._last.items() if key.partition(" ")[2] not in gone}
        self._said = names

    def _specs(self) -> None:
        """What each pipeline runs by, for commands that are given no file."""
        for flow in list(self._published.flows):
            if self._changed(f"spec {flow.name}", flow.spec):
                self._store.pipelines.save_spec(flow.name, flow.spec.version, stored(flow.spec))

    def _state(self, flow: PipelineRunner) -> StateRow:
        done = flow.books.summary()
        return StateRow(
            pipeline=flow.name,
            instance=self._row.id,
            state=flow.state,
            reason=flow.said,
            events=done.events,
            failures=done.failed,
            acted=done.acted,
            filtered=done.filtered,
            p50_ms=done.p50_ms,
            p99_ms=done.p99_ms,
            revision=flow.obeyed,
        )

    def _partitions(self) -> None:
        owned: dict[str, list[OwnedPartition]] = {}
        mirrored = []
        for flow in list(self._published.flows):
            rows = [OwnedPartition(p.topic, p.partition, p.committed, p.end) for p in flow.partitions()]
            if self._changed(f"partitions {flow.name}", rows):
                owned[flow.name] = rows
            mirror = flow.membership.mirror_rows()
            if self._changed(f"mirror {flow.name}", mirror):
                mirrored += mirror
        self._store.partitions.put_all(self._row.id, owned)
        self._store.offsets.mirror(mirrored)


def _mark(flow: PipelineRunner) -> tuple[object, ...]:
    """Says whether its state is another one: hundreds of pipelines are asked each second, and most of them rest."""
    return flow.state, flow.said, flow.obeyed, flow.books.entries
