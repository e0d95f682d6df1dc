"""Desired state on an instance: reads what is desired of each pipeline, hands it to the runners, and writes what the
runners themselves ask for (failed, paused by the breaker, resumed)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import structlog

from penstock.core.errors import PenstockError, Unavailable
from penstock.core.metrics import Metrics
from penstock.core.periodic import Periodic
from penstock.core.status import State
from penstock.core.threads import THREADS, Threads
from penstock.store import Desired, DesiredRow, Store
from penstock.store.desired import said

log = structlog.get_logger("penstock.desired_state")

_EVERY = 0.5
"""Seconds between looks at the store. An idle pipeline may sit in a poll for another one: together they stay below the
two seconds within which every instance follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredState:
    """What is desired of one pipeline now."""

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
    """A pause that should end by itself is over: try, and report by `resume` or `pause` how it went."""

    @property
    def away(self) -> bool:
        """Stay out of the group."""
        return self.held_by is not None or self.state in ("stopped", "failed")

    @property
    def paused(self) -> bool:
        """Keep the partitions, run nothing."""
        return self.state == "paused" and not self.trial

    def shown(self) -> tuple[State, str | None]:
        """State and reason of a runner that follows it."""
        if self.held_by is not None and self.state != "failed":
            return "stopped", f"offsets are being reset by {self.held_by}"
        return self.state, said(self.by, self.reason)


class Controlled(Protocol):
    """A runner, as far as it follows the desired state."""

    name: str

    def set_desired(self, desired: DesiredState) -> None: ...


class DesiredStateSync:
    """One per instance. While the store is unavailable, what was desired last holds."""

    def __init__(
        self,
        instance: str,
        store: Store,
        metrics: Metrics,
        runners: Callable[[], Iterable[Controlled]],
        *,
        threads: Threads = THREADS,
        every: float = _EVERY,
        stop_within: float = 5.0,
    ) -> None:
        """`stop_within`: seconds that a stop waits for the store to take what runners asked for."""
        self._instance, self._store, self._metrics, self._runners = instance, store, metrics, runners
        self._stop_within = stop_within
        self._lock = threads.lock()
        self._known: dict[str, DesiredState] = {}
        self._unwritten: dict[str, list[Callable[[], DesiredRow]]] = {}
        self._unavailable = False
        self._unreadable: set[str] = set()
        """Pipelines whose row was logged as unreadable."""
        self._loop = Periodic(
            "desired-state",
            self.refresh,
            every=every,
            owner="DesiredStateSync",
            last=self.refresh,
            threads=threads,
        )

    def start(self) -> None:
        self._loop.start()

    def stop(self) -> None:
        """A last try to write what runners asked for; a store that hangs is not waited for."""
        self._loop.stop(self._stop_within)
        if self._unwritten:
            log.warning("the store does not have what pipelines asked for", pipelines=sorted(self._unwritten))

    @property
    def is_alive(self) -> bool:
        return self._loop.is_alive

    def refresh(self) -> None:
        """Write what runners ask for, then read what is desired of them."""
        try:
            self._write()
            self.read()
            self._unavailable = False
        except Unavailable as error:
            self._metrics.store_errors.labels("control").inc()
            if not self._unavailable:
                log.warning("desired states cannot be read; what was desired last holds", reason=str(error))
            self._unavailable = True

    def read(self) -> None:
        """Take what is desired from the store; raises `Unavailable`."""
        rows = self._store.desired.all()
        unreadable = {name: str(row.unreadable) for name, row in rows.items() if row.unreadable is not None}
        for name in unreadable.keys() - self._unreadable:
            log.error("its desired state cannot be read: paused", pipeline=name, reason=unreadable[name])
        self._unreadable = set(unreadable)
        with self._lock:
            # What a runner asks for and the store does not have yet takes precedence.
            self._known.update({name: _desired(row) for name, row in rows.items() if name not in self._unwritten})
        for runner in self._runners():
            runner.set_desired(self.desired(runner.name))

    def _write(self) -> None:
        for pipeline, writes in list(self._unwritten.items()):
            while writes:
                try:
                    writes[0]()
                except Unavailable:
                    raise
                except PenstockError as error:
                    # A change that the store refuses for good must not hide the pauses and stops of others.
                    log.error("the store refuses a desired state", pipeline=pipeline, reason=str(error))
                writes.pop(0)
            with self._lock:
                if not self._unwritten[pipeline]:
                    del self._unwritten[pipeline]

    def desired(self, pipeline: str) -> DesiredState:
        """What is known to be desired of a pipeline."""
        with self._lock:
            return self._known.get(pipeline, DesiredState())

    # -- what runners ask for --------------------------------------------------------------

    def fail(self, pipeline: str, reason: str, events: Sequence[Mapping[str, Any]]) -> None:
        """THROW stopped at these events: no instance runs the pipeline until a person resumes it."""
        store, by = self._store.desired, self._instance
        self._change(
            pipeline,
            {"state": "failed", "by": by, "reason": reason},
            lambda: store.fail(pipeline, by=by, reason=reason, events=events),
        )

    def pause(self, pipeline: str, *, by: str, reason: str, resume_after: float | None = None) -> None:
        """Pause on every instance; after `resume_after` seconds `DesiredState.trial` is set."""
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
        for runner in self._runners():
            if runner.name == pipeline:
                runner.set_desired(self.desired(pipeline))
        self._loop.wake()


def _desired(row: DesiredRow) -> DesiredState:
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
