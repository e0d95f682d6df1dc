"""Retries: whether a failed event is tried again, and when."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.config.spec import RetrySpec
from penstock.core.clock import SYSTEM, Clock
from penstock.core.errors import Terminal

Coordinates = tuple[str, int, int]
"""Topic, partition, offset."""
_STEPS = 50
"""A wait that has grown so often is at its cap, unless numbers overflow first."""


@dataclass(slots=True, frozen=True)
class RetryState:
    """What is known of an event that failed and will be tried again."""

    attempts: int
    first_failed_at: int
    """Epoch milliseconds."""
    due: float
    """Monotonic time of the next attempt."""


class RetryPolicy:
    """The policy of one pipeline."""

    def __init__(self, spec: RetrySpec, around: Clock = SYSTEM) -> None:
        self._spec, self._around = spec, around
        self._on = frozenset(spec.on)
        self._never = frozenset(spec.never)

    def after(self, error: BaseException, before: RetryState | None) -> RetryState | None:
        """The next try after this failure; None: it has failed for good."""
        spec, around = self._spec, self._around
        attempts = before.attempts + 1 if before else 1
        if attempts >= spec.attempts or not self._worth_it(error):
            return None
        now = around.now_ms()
        first = before.first_failed_at if before else now
        grown = spec.backoff * spec.factor ** min(attempts - 1, _STEPS)
        wait = around.jittered(min(spec.max_backoff, grown), spec.jitter)
        wait = max(wait, getattr(error, "retry_after", None) or 0.0)
        if spec.max_age is not None and now - first + wait * 1000 > spec.max_age * 1000:
            return None
        return RetryState(attempts, first, around.monotonic() + wait)

    def _worth_it(self, error: BaseException) -> bool:
        names = {name for cls in type(error).__mro__ for name in (cls.__name__, f"{cls.__module__}.{cls.__qualname__}")}
        if names & self._never:
            return False
        if self._on:
            return bool(names & self._on)
        return not isinstance(error, Terminal | SystemExit | KeyboardInterrupt)
