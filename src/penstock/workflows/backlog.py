"""The backlog of a trigger: how many of its runs may be unfinished before it waits."""

from __future__ import annotations

import time
from typing import Final

import sqlalchemy as sa

from penstock.core.errors import Unavailable
from penstock.workflows.intake import unfinished
from penstock.workflows.limits import WITHOUT_END

_COUNT_EVERY: Final = 10.0
"""Seconds: others take in for the trigger too, and runs end; in between, what was made here is added."""


class BacklogFull(Unavailable):
    """Runs are made faster than they are finished; intake waits for them."""

    code = "backlog"


class Backlog:
    """As one lane sees it: side by side they may go beyond it by what each of them writes between two counts."""

    def __init__(self, trigger: str | None, limit: int | None) -> None:
        self._trigger, self._limit = trigger, limit
        self._known = 0
        self._counted_at = float("-inf")

    def room(self, connection: sa.Connection) -> int:
        """Runs that may be made now."""
        if self._trigger is None or self._limit is None:
            return WITHOUT_END
        now = time.monotonic()
        if self._known >= self._limit or now - self._counted_at > _COUNT_EVERY:
            self._known, self._counted_at = unfinished(connection, self._trigger, self._limit), now
        return max(0, self._limit - self._known)

    def add(self, made: int) -> None:
        self._known += made

    def full(self) -> BacklogFull:
        return BacklogFull(
            f"{self._limit:,} runs of the trigger are unfinished; it goes on when some have ended",
            allowed=self._limit,
        )
