"""Retries: whether a failed event is tried again, when, and which events wait behind it."""

from __future__ import annotations

import bisect
import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass

from penstock.config.spec import RetrySpec
from penstock.core.clock import SYSTEM, Clock
from penstock.core.errors import Terminal
from penstock.pipeline.items import Item
from penstock.pipeline.messages import Partition, Retry

Coordinates = tuple[str, int, int]
"""Topic, partition, offset."""
_STEPS = 50
"""A wait that has grown so often is at its cap, unless numbers overflow first."""


@dataclass(slots=True, frozen=True)
class RetryState:
    """What is known of an event that failed and will be tried again."""

    attempts: int
    first_failed_at: int
    """Epoch milliseconds, for display."""
    due: float
    """Monotonic time of the next attempt."""
    since: float
    """Monotonic time of the first failure, by which the age is measured: the wall clock may jump."""


class RetryPolicy:
    """The policy of one pipeline."""

    def __init__(self, spec: RetrySpec, clock: Clock = SYSTEM, *, timeout: float = 0.0) -> None:
        """`timeout`: seconds that one attempt may take."""
        self._spec, self._clock, self._timeout = spec, clock, timeout
        self._on = frozenset(spec.on)
        self._never = frozenset(spec.never)

    def after(self, error: BaseException, before: RetryState | None) -> RetryState | None:
        """The next try after this failure; None: it has failed for good."""
        spec, clock = self._spec, self._clock
        attempts = before.attempts + 1 if before else 1
        if attempts >= spec.attempts or not self._worth_it(error):
            return None
        now = clock.monotonic()
        since = before.since if before else now
        wait = max(clock.jittered(self._backoff(attempts), spec.jitter), asked_wait(error) or 0.0)
        if spec.max_age is not None and now - since + wait > spec.max_age:
            return None
        return RetryState(attempts, before.first_failed_at if before else clock.now_ms(), now + wait, since)

    def resume(self, retry: Retry) -> RetryState:
        """The state of a retry that another process began.

        Its age is by the wall clock, which may have jumped (F22), so it counts as no more than its attempts take by
        the policy: a wrong clock never makes a dead letter.
        """
        clock, spec = self._clock, self._spec
        now = clock.monotonic()
        scheduled = sum(self._backoff(n) * (1 + spec.jitter) + self._timeout for n in range(1, retry.attempts + 1))
        age = max(0.0, min((clock.now_ms() - retry.first_failed_at) / 1000, scheduled))
        wait = max(0.0, min(retry.wait, max(spec.max_backoff, 3600.0)))
        return RetryState(retry.attempts, retry.first_failed_at, now + wait, now - age)

    def _backoff(self, attempts: int) -> float:
        return min(self._spec.max_backoff, self._spec.backoff * self._spec.factor ** min(attempts - 1, _STEPS))

    def _worth_it(self, error: BaseException) -> bool:
        names = {name for cls in type(error).__mro__ for name in (cls.__name__, f"{cls.__module__}.{cls.__qualname__}")}
        if names & self._never:
            return False
        if self._on:
            return bool(names & self._on)
        return not isinstance(error, Terminal | SystemExit | KeyboardInterrupt)


def asked_wait(error: BaseException) -> float | None:
    """Seconds that an error's `retry_after` asks to wait; None where it says nothing usable."""
    try:
        asked = float(getattr(error, "retry_after", None) or 0.0)
    except Exception:  # noqa: BLE001 - an attribute of the user's own: it may be anything, and raise
        return None
    return asked if asked > 0 and math.isfinite(asked) else None


class RetryQueue:
    """Events that wait for a retry, and later ones of the same ordering key that must not overtake them.

    One line per ordering key, by offset; a line waits until its first event is due. Not thread-safe.
    """

    def __init__(self, ordering_key: Callable[[Item], Hashable]) -> None:
        self._ordering_key = ordering_key
        self._lines: dict[Hashable, list[Item]] = {}
        self._due: dict[Hashable, float] = {}

    def __bool__(self) -> bool:
        return bool(self._lines)

    def add(self, item: Item, due: float) -> None:
        """The item has failed: its line waits until then, or longer where an event before it does."""
        key = self._ordering_key(item)
        line = self._lines.setdefault(key, [])
        at = bisect.bisect(line, item.record.offset(), key=_offset)
        line.insert(at, item)
        if at == 0:
            self._due[key] = due

    def add_behind(self, item: Item) -> bool:
        """Put the item in line if its ordering key waits."""
        line = self._lines.get(self._ordering_key(item)) if self._lines else None
        if line is None:
            return False
        bisect.insort(line, item, key=_offset)
        return True

    @property
    def next_due(self) -> float | None:
        return min(self._due.values(), default=None)

    def pop_due(self, now: float) -> list[Item]:
        """A line whose first event is due; empty when there is none."""
        for key, due in self._due.items():
            if due <= now:
                del self._due[key]
                return self._lines.pop(key)
        return []

    @property
    def offsets(self) -> dict[Partition, list[int]]:
        return offsets_of(item for line in self._lines.values() for item in line)

    def items(self) -> list[Item]:
        return [item for line in self._lines.values() for item in line]

    def clear(self) -> None:
        self._lines.clear()
        self._due.clear()


def _offset(item: Item) -> int:
    return item.record.offset()


def offsets_of(items: Iterable[Item]) -> dict[Partition, list[int]]:
    """By partition, in no order."""
    found: dict[Partition, list[int]] = defaultdict(list)
    for item in items:
        record = item.record
        found[record.topic(), record.partition()].append(record.offset())
    return found
