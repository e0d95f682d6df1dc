"""Desired state on an instance: reads what is wanted of each pipeline, hands it to the flows, and writes what the
flows themselves want."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import structlog

from penstock.core.errors import Unavailable
from penstock.core.metrics import Metrics
from penstock.core.status import State
from penstock.store import Desired, DesiredRow, Store
from penstock.store.desired import said

log = structlog.get_logger("penstock.control")

_EVERY = 0.5
"""Seconds between looks at the store. A cold member may sit in a poll for another one: together they stay below the
two seconds within which every instance obeys."""
_LAST_WORDS = 5.0
"""Seconds that a stop waits for the store to be told what flows want."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredState:
    """What is wanted of one flow now."""

    state: Desired = "running"
    by: str | None = None
    reason: str | None = None
    revision: int = 0
    restarts: int = 0
    rate_limit: float | None = None
    """Events per second instead of the spec's; 0: no limit."""
    held_by: str | None = None
    """Who is changing the group's offsets."""
    trial: bool = False
    """A pause that should end by itself is over: try, and say by `Control.resume` or `Control.pause` how it went."""

    @property
    def away(self) -> bool:
        """Stay out of the group."""
        return self.held_by is not None or self.state in ("stopped", "failed")

    @property
    def paused(self) -> bool:
        """Keep the partitions, run nothing."""
        return self.state == "paused" and not self.trial

    def shown(self) -> tuple[State, str | None]:
        """State and reason of a flow that obeys."""
        if self.held_by is not None and self.state != "failed":
            return "stopped", f"offsets are being reset by {self.held_by}"
        return self.state, said(self.by, self.reason)


class Controlled(Protocol):
    """A flow, as far as it is controlled."""

    name: str

    def want(self, wanted: DesiredState) -> None: ...


class DesiredStateSync(threading.Thread):
    """One per instance. While the store is away, what was wanted last holds."""

    def __init__(
        self, instance: str, store: Store, metrics: Metrics, flows: Callable[[], Iterable[Controlled]]
    ) -> None:
        super().__init__(name="control", daemon=True)
        self._instance, self._store, self._metrics, self._flows = instance, store, metrics, flows
        self._lock = threading.Lock()
        self._known: dict[str, DesiredState] = {}
        self._unwritten: dict[str, list[Callable[[], DesiredRow]]] = {}
        self._wake = threading.Event()
        self._done = False
        self._away = False
        self._unreadable: set[str] = set()
        """Pipelines whose row was logged as unreadable."""

    def run(self) -> None:
        over = False
        while not over:
            self._wake.wait(_EVERY)
            self._wake.clear()
            over = self._done  # asked before the last look, which is for what the flows wanted until the stop
            try:
                self.refresh()
            except Exception:
                log.exception("control failed; it goes on")

    def stop(self) -> None:
        """A last try to write what the flows wanted; a store that hangs is not waited for."""
        self._done = True
        self._wake.set()
        if self.is_alive():
            self.join(_LAST_WORDS)
        if self._unwritten:
            log.warning("the store was not told what pipelines wanted", pipelines=sorted(self._unwritten))

    def refresh(self) -> None:
        """Write what flows want, then read what is wanted of them."""
        try:
            self._write()
            self.read()
            self._away = False
        except Unavailable as error:
            self._metrics.store_errors.labels("control").inc()
            if not self._away:
                log.warning("desired states cannot be read; what was wanted last holds", reason=str(error))
            self._away = True

    def read(self) -> None:
        """Take what is wanted from the store; raises `Unavailable`."""
        self._take(self._store.desired.all())

    def _write(self) -> None:
        for pipeline, writes in list(self._unwritten.items()):
            while writes:
                writes[0]()
                writes.pop(0)
            with self._lock:
                if not self._unwritten[pipeline]:
                    del self._unwritten[pipeline]

    def _take(self, rows: Mapping[str, DesiredRow]) -> None:
        unreadable = {name: str(row.unreadable) for name, row in rows.items() if row.unreadable is not None}
        for name in unreadable.keys() - self._unreadable:
            log.error("its desired state cannot be read: paused", pipeline=name, reason=unreadable[name])
        self._unreadable = set(unreadable)
        with self._lock:
            # What a flow wants and the store does not know yet is stronger than what the store says.
            fresh = {name: _wanted(row) for name, row in rows.items() if name not in self._unwritten}
            self._known.update(fresh)
        for flow in self._flows():
            flow.want(self.wanted(flow.name))

    def wanted(self, pipeline: str) -> DesiredState:
        """What is known to be wanted of a pipeline."""
        with self._lock:
            return self._known.get(pipeline, DesiredState())

    # -- what flows want -------------------------------------------------------------------

    def fail(self, pipeline: str, reason: str, events: Sequence[Mapping[str, Any]]) -> None:
        """THROW stopped at these events: no instance runs the pipeline until a person resumes it."""
        store, by = self._store.desired, self._instance
        self._change(
            pipeline,
            {"state": "failed", "by": by, "reason": reason},
            lambda: store.fail(pipeline, by=by, reason=reason, events=events),
        )

    def pause(self, pipeline: str, *, by: str, reason: str, resume_after: float | None = None) -> None:
        """Pause on every instance; after `resume_after` seconds `Wanted.trial` is set."""
        store = self._store.desired
        self._change(
            pipeline,
            {"state": "paused", "by": by, "reason": reason},
            lambda: store.set(pipeline, "paused", by=by, reason=reason, resume_after=resume_after),
        )

    def resume(self, pipeline: str, *, by: str, reason: str | None = None) -> None:
        """Run again on every instance."""
        store = self._store.desired
        self._change(
            pipeline,
            {"state": "running", "by": by, "reason": reason},
            lambda: store.set(pipeline, "running", by=by, reason=reason),
        )

    def _change(self, pipeline: str, values: dict[str, Any], write: Callable[[], DesiredRow]) -> None:
        with self._lock:
            self._known[pipeline] = replace(self._known.get(pipeline, DesiredState()), trial=False, **values)
            self._unwritten.setdefault(pipeline, []).append(write)
        for flow in self._flows():
            if flow.name == pipeline:
                flow.want(self.wanted(pipeline))
        self._wake.set()


def _wanted(row: DesiredRow) -> DesiredState:
    return DesiredState(
        state=row.state,
        by=row.set_by,
        reason=row.reason,
        revision=row.revision,
        restarts=row.restarts,
        rate_limit=row.rate_limit,
        held_by=row.held_by if row.held else None,
        trial=row.state == "paused" and row.resume_is_due,
    )
