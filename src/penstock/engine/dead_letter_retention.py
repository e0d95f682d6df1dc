"""Keeps the store's dead letters within their limits: one batch at a time, so that no other call waits for it."""

from __future__ import annotations

from typing import Final

import structlog

from penstock.config.settings import DeadLetterSettings
from penstock.core.clock import SYSTEM, Clock
from penstock.store import Store

log = structlog.get_logger("penstock.dead_letters")

_REST: Final = 60.0
"""Seconds until the next look when there was nothing to do."""
_SWEEP: Final = 3600.0


class DeadLetterRetention:
    """Each `step` is one batch; the publisher calls it every second."""

    def __init__(self, store: Store, settings: DeadLetterSettings, clock: Clock = SYSTEM) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._due = 0.0
        self._sweep_due = 0.0

    def step(self) -> None:
        """Do a piece of work, if there is any."""
        now = self._clock.monotonic()
        if now < self._due:
            return
        if self._make_searchable() or self._forget():
            return
        self._due = now + _REST
        if now >= self._sweep_due:
            self._sweep_due = now + _SWEEP
            self._sweep()

    def _make_searchable(self) -> bool:
        return self._store.dead_letters.make_searchable() > 0

    def _forget(self) -> bool:
        wanted = self._settings
        if wanted.keep_for is None and wanted.keep_count is None:
            return False
        gone = self._store.dead_letters.forget(
            older_than=wanted.keep_for, keep=wanted.keep_count, open_too=wanted.delete_open
        )
        if gone:
            log.info("old dead letters deleted", letters=gone)
        return gone > 0

    def _sweep(self) -> None:
        gone = self._store.dead_letters.sweep_payloads()
        if gone:
            log.info("payload files of deleted dead letters removed", files=gone)
