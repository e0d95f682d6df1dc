"""The housekeeping of an instance: words become searchable, what is too old goes, bulk jobs are done."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

import structlog

from penstock.core.errors import Transient
from penstock.service.bulk_jobs import new_worker, work_on_next
from penstock.service.letter_job_records import tidy
from penstock.store import Store

log = structlog.get_logger("penstock.upkeep")

_INDEX_EVERY: Final = 5.0
_INDEXED: Final = 2_000
_REST: Final = 4.0
"""How many times as long as a batch took the next one waits: intake needs the processor more."""
_BEHIND: Final = 40.0
"""Seconds; a minute is promised."""
_SWEEP_EVERY: Final = 60.0
_JOBS_EVERY: Final = 1.0
_STOP_SECONDS: Final = 30.0


class Upkeep:
    """Threads of one instance; all instances may have them, for each piece of work is taken by one at a time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._worker = new_worker()
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._again, args=(name, work, pause), name=f"upkeep-{name}", daemon=True)
            for name, work, pause in (
                ("search", self._index, _INDEX_EVERY),
                ("retention", self._sweep, _SWEEP_EVERY),
                ("jobs", self._jobs, _JOBS_EVERY),
            )
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Stop between two pieces of work."""
        self._stop.set()
        ends = time.monotonic() + _STOP_SECONDS
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(max(0.0, ends - time.monotonic()))

    def _again(self, name: str, work: Callable[[], object], pause: float) -> None:
        while not self._stop.is_set():
            try:
                work()
            except Exception as error:
                if isinstance(error, Transient):
                    log.warning("upkeep waits for the store", work=name, reason=str(error))
                else:
                    log.exception("upkeep failed", work=name)
            self._stop.wait(pause)

    def _index(self) -> None:
        """Until nothing waits; at full intake with a fifth of a core, unless words would be findable too late."""
        while self._goes_on():
            began = time.monotonic()
            if self._store.search.index_some(_INDEXED) < _INDEXED:
                return
            if self._store.search.seconds_behind() < _BEHIND:
                self._stop.wait(_REST * (time.monotonic() - began))

    def _sweep(self) -> None:
        tidy(self._store)
        self._store.failed_logins.forget()
        while self._goes_on() and self._store.retention.sweep().has_more:
            pass

    def _jobs(self) -> None:
        while self._goes_on() and work_on_next(self._store, self._worker, self._goes_on):
            pass

    def _goes_on(self) -> bool:
        return not self._stop.is_set()
