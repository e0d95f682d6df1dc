"""Keeps running exactly the triggers that the store says are enabled; every instance has one such loop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, Final, Protocol

import structlog

from penstock.config.spec import PipelineSpec
from penstock.core.errors import PenstockError, Unavailable
from penstock.service.trigger_specs import pipeline_name
from penstock.store import Store
from penstock.store.work.model import TriggerChange, TriggerRow

log = structlog.get_logger("penstock.triggers")

EVERY: Final = 0.5
"""Seconds between looks at the store: together with what a stop takes they stay below the two seconds within which
every instance obeys."""
_HANDS: Final = 8
"""Triggers that are begun or ended side by side: one that takes long to end must not hold up the others."""
_FIRST_BACKOFF: Final = 1.0
_LONGEST_BACKOFF: Final = 60.0


class Runner(Protocol):
    """What takes pipelines in and lets them go; called from several threads, but for one pipeline by one at a time."""

    def take(self, spec: PipelineSpec) -> None:
        """Start it; raises `PenstockError` where it cannot be."""

    def drop(self, name: str) -> None:
        """Finish what is under way, and leave the group."""

    def limit_rate(self, name: str, rate: float | None) -> None:
        """Change the rate of one that runs."""

    def defect(self, name: str) -> str | None:
        """Why one that was taken in does not run although it should; None: it does."""

    def refused(self, name: str, reason: str | None) -> None:
        """Show why a trigger cannot be run; None: it can."""


@dataclass(slots=True)
class _Held:
    """One trigger, as this instance has it."""

    revision: int = -1
    """What `spec` was made from; -1: nothing yet."""
    spec: PipelineSpec | None = None
    """What runs; None: nothing does."""
    job: Future[None] | None = None
    failures: int = 0
    due: float = 0.0
    """When the next attempt may be made, by the loop's clock."""
    seen: int = -1
    """The revision that the failures are of."""

    @property
    def busy(self) -> bool:
        return self.job is not None and not self.job.done()


class TriggerLoop(threading.Thread):
    """A reconciler: the store says what is wanted, the loop makes it so, one trigger apart from the others."""

    def __init__(
        self,
        store: Store,
        compiled: Callable[[TriggerRow], PipelineSpec],
        runner: Runner,
        *,
        every: float = EVERY,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(name="triggers", daemon=True)
        self._store = store
        self._compiled = compiled
        self._runner = runner
        self._every = every
        self._clock = clock
        self._held: dict[str, _Held] = {}
        self._hands = ThreadPoolExecutor(_HANDS, thread_name_prefix="trigger")
        self._over = threading.Event()
        self._away = False
        self._read: tuple[tuple[Any, ...], list[TriggerChange]] = ((), [])

    def run(self) -> None:
        while not self._over.wait(self._every):
            try:
                self.look()
            except Exception:
                log.exception("triggers could not be looked at; what runs goes on")

    def stop(self, timeout: float) -> None:
        """Nothing is begun or ended afterwards, unless what is under way takes longer than the timeout."""
        self._over.set()
        if self.is_alive():
            self.join(timeout)
        self._hands.shutdown(wait=False, cancel_futures=True)
        self.settle(timeout)

    def settle(self, timeout: float | None = None) -> None:
        """Wait until all that was begun is done."""
        wait([held.job for held in self._held.values() if held.job is not None], timeout)

    @property
    def running(self) -> set[str]:
        """Ids of the triggers that run here."""
        return {each for each, held in list(self._held.items()) if held.spec is not None}

    def look(self) -> None:
        """Compare once, and begin whatever must be done."""
        try:
            changes = self._changes()
        except Unavailable as error:
            if not self._away:
                log.warning("triggers cannot be read; what runs goes on", reason=str(error))
            self._away = True
            return
        self._away = False
        wanted = {change.id: change.revision for change in changes if change.enabled}
        for trigger in wanted.keys() | self._held.keys():
            held = self._held.setdefault(trigger, _Held())
            if held.busy or self._over.is_set():
                continue
            if trigger not in wanted:
                self._end(trigger, held)
            elif self._must_act(trigger, held, wanted[trigger]):
                held.job = self._hands.submit(self._obey, trigger, held, wanted[trigger])

    def _changes(self) -> list[TriggerChange]:
        """What is wanted; it is read anew only where it is something else."""
        # Before the rows: what is changed in between is read again.
        stamp = self._store.triggers.stamp()
        if stamp != self._read[0]:
            self._read = stamp, self._store.triggers.changes()
        return self._read[1]

    def _end(self, trigger: str, held: _Held) -> None:
        if held.spec is None and held.failures == 0:
            del self._held[trigger]
        else:
            held.job = self._hands.submit(self._obey, trigger, held, None)

    def _must_act(self, trigger: str, held: _Held, revision: int) -> bool:
        if held.seen != revision:
            held.seen, held.failures, held.due = revision, 0, 0.0
        if held.spec is not None and held.revision == revision:
            reason = self._runner.defect(held.spec.name)
            if reason is None:
                self._forgive(held)
                return False
            self._failed(trigger, held, reason)
            held.revision = -1
        return self._clock() >= held.due

    def _forgive(self, held: _Held) -> None:
        # Not at its start: one that fails again and again after it was begun must wait longer each time.
        if held.failures and self._clock() >= held.due + _LONGEST_BACKOFF:
            held.failures = 0

    def _obey(self, trigger: str, held: _Held, revision: int | None) -> None:
        """Make one trigger what it should be; whatever is wrong with it stays its own affair."""
        try:
            row = None if revision is None else self._store.triggers.get(trigger)
            if row is None or not row.enabled or row.deleted_at is not None:
                self._drop(held)
                held.failures = 0
            else:
                self._bring(held, self._compiled(row), row.revision)
            self._runner.refused(pipeline_name(trigger), None)
        except Unavailable as error:
            self._failed(trigger, held, str(error))
        except Exception as error:
            if not isinstance(error, PenstockError):
                log.exception("trigger failed in an unexpected way", trigger=trigger)
            # What it was before is not wanted any more, whatever it should be now.
            self._drop(held)
            self._failed(trigger, held, str(error))

    def _bring(self, held: _Held, spec: PipelineSpec, revision: int) -> None:
        before = held.spec
        if before is not None and held.revision != -1 and _but_for_rate(before) == _but_for_rate(spec):
            # Nothing that the consumer was made from has changed: it goes on, without a rebalance.
            if before.options.rate_limit != spec.options.rate_limit:
                self._runner.limit_rate(spec.name, spec.options.rate_limit)
        else:
            self._drop(held)
            self._runner.take(spec)
            log.info("trigger was restarted" if before else "trigger was started", pipeline=spec.name)
        held.spec, held.revision = spec, revision

    def _drop(self, held: _Held) -> None:
        if held.spec is not None:
            self._runner.drop(held.spec.name)
            log.info("trigger was stopped", pipeline=held.spec.name)
        held.spec, held.revision = None, -1

    def _failed(self, trigger: str, held: _Held, reason: str) -> None:
        held.failures += 1
        pause = min(_FIRST_BACKOFF * 2 ** (held.failures - 1), _LONGEST_BACKOFF)
        held.due = self._clock() + pause
        log.warning("trigger does not run", trigger=trigger, reason=reason, again_in=f"{pause:g} s")
        self._runner.refused(pipeline_name(trigger), reason)


def _but_for_rate(spec: PipelineSpec) -> PipelineSpec:
    return spec.model_copy(update={"options": spec.options.model_copy(update={"rate_limit": None})})
