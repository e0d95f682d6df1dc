"""Writes into the store, every second, what this instance is doing."""

from __future__ import annotations

import os
import socket
from typing import Protocol

import structlog

from penstock.config.settings import Settings
from penstock.config.stored import stored
from penstock.core.clock import SYSTEM, Clock
from penstock.core.errors import Unavailable
from penstock.core.interval import IntervalGate
from penstock.core.memory import give_back
from penstock.core.metrics import Metrics
from penstock.core.periodic import Periodic
from penstock.core.threads import THREADS, Threads
from penstock.engine.dead_letter_retention import DeadLetterRetention
from penstock.engine.pipelines.runner import PipelineRunner
from penstock.store import InstanceRow, OwnedPartition, StateRow, Store

log = structlog.get_logger("penstock.publisher")

_EVERY = 1.0
_GIVES_BACK = 30.0
_PARTITIONS = 2.0
_HEARTBEAT = 2.0
_EXPIRE = 60.0


class Published(Protocol):
    """The instance, as far as it is published."""

    id: str
    settings: Settings
    store: Store
    metrics: Metrics
    runners: list[PipelineRunner]
    invalid: list[StateRow]


class StatusPublisher:
    """One per instance."""

    def __init__(
        self,
        published: Published,
        version: str,
        http_address: str | None,
        *,
        clock: Clock = SYSTEM,
        threads: Threads = THREADS,
        every: float = _EVERY,
        patience: float = 5.0,
        stop_within: float = 10.0,
    ) -> None:
        """`patience`: seconds after which a store that has not answered counts as unavailable: a server that hangs
        refuses nothing for long. `stop_within`: seconds that a stop waits for the last write, fewer than SQLite waits
        for a lock."""
        self._row = InstanceRow(
            id=published.id,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=version,
            started_at=clock.now_ms(),
            http_address=http_address,
        )
        self._published, self._store, self._metrics = published, published.store, published.metrics
        self._clock, self._patience, self._stop_within = clock, patience, stop_within
        self._trouble: str | None = None
        """Why the store could not be written last time."""
        self._asked_at: float | None = None
        """When the write began that is still in progress."""
        self._last: dict[str, object] = {}
        self._said: set[str] = set()
        """Pipelines of which the store has a state of this instance."""
        self._times = IntervalGate(clock)
        self._retention = DeadLetterRetention(published.store, published.settings.dead_letters, clock)
        self._stopping = False
        self._loop = Periodic(
            "status-publisher",
            self.publish,
            every=every,
            owner="StatusPublisher",
            last=self._leave,
            threads=threads,
        )

    def start(self) -> None:
        self._loop.start()

    def stop(self) -> None:
        """A last write, then the instance is forgotten; what it did stays in the history. A store that hangs is not
        waited for: the missing heartbeat shows that this instance is gone."""
        self._stopping = True
        if not self._loop.stop(self._stop_within) or self.trouble is not None:
            log.warning("the stop could not be written into the store", reason=self.trouble)

    @property
    def is_alive(self) -> bool:
        return self._loop.is_alive

    def _leave(self) -> None:
        # A store that was unavailable a moment ago would be waited for in vain.
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
        waited = 0.0 if asked_at is None else self._clock.monotonic() - asked_at
        silent = f"the store does not answer: no answer for {waited:.0f} s" if waited > self._patience else None
        return self._trouble or silent

    def publish(self) -> None:
        """Write what has changed; an unavailable store is tried again with the next one."""
        self._asked_at = self._clock.monotonic()
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
            if not self._stopping:
                self._retention.step()
            self._specs()
            if self._times.is_due("partitions", _PARTITIONS) or self._stopping:
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
        invalid, runners = list(self._published.invalid), list(self._published.runners)
        rows = [row for row in invalid if self._changed(f"state {row.pipeline}", row)]
        rows += [self._state(runner) for runner in runners if self._changed(f"state {runner.name}", _mark(runner))]
        self._store.pipelines.put_states(rows)
        names = {row.pipeline for row in invalid} | {runner.name for runner in runners}
        if gone := self._said - names:
            self._store.pipelines.forget_states(self._row.id, sorted(gone))
            self._store.partitions.put_all(self._row.id, {name: [] for name in gone})
            self._last = {key: value for key, value in self._last.items() if key.partition(" ")[2] not in gone}
        self._said = names

    def _specs(self) -> None:
        """What each pipeline runs by, for commands that are given no file."""
        for runner in list(self._published.runners):
            if self._changed(f"spec {runner.name}", runner.spec):
                self._store.pipelines.save_spec(runner.name, runner.spec.version, stored(runner.spec))

    def _state(self, runner: PipelineRunner) -> StateRow:
        done = runner.stats.summary()
        return StateRow(
            pipeline=runner.name,
            instance=self._row.id,
            state=runner.state,
            reason=runner.status.explanation,
            events=done.events,
            failures=done.failed,
            acted=done.acted,
            filtered=done.filtered,
            p50_ms=done.p50_ms,
            p99_ms=done.p99_ms,
            revision=runner.observed_revision,
        )

    def _partitions(self) -> None:
        owned: dict[str, list[OwnedPartition]] = {}
        mirrored = []
        for runner in list(self._published.runners):
            rows = [OwnedPartition(p.topic, p.partition, p.committed, p.end) for p in runner.partition_statuses()]
            if self._changed(f"partitions {runner.name}", rows):
                owned[runner.name] = rows
            mirror = runner.membership.mirror_rows()
            if self._changed(f"mirror {runner.name}", mirror):
                mirrored += mirror
        self._store.partitions.put_all(self._row.id, owned)
        self._store.offsets.mirror(mirrored)


def _mark(runner: PipelineRunner) -> tuple[object, ...]:
    """Says whether its state is another one: hundreds of pipelines are asked each second, and most of them rest."""
    return runner.state, runner.status.explanation, runner.observed_revision, runner.stats.entries
