"""What a unit has done so far: counts, failures, and why it must end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from penstock.core.dead_letter import Stage
from penstock.core.errors import PenstockError, Terminal, Transient, Unavailable
from penstock.core.event import Event
from penstock.core.latency import Latencies
from penstock.pipeline.breaker import Breaker
from penstock.pipeline.chain import Item
from penstock.pipeline.failures import failed_event
from penstock.pipeline.messages import FailedEvent, Halt, Partition
from penstock.pipeline.retry import RetryState

_FAILURES_AT_MOST = 1_000
_FAILURE_BYTES_AT_MOST = 8 << 20
"""A unit ends early at these limits, so that a topic full of poison cannot flood the driver."""


class ActResult(PenstockError, Terminal):
    """An action returned something that says neither done nor deferred."""

    code = "act-result"


class TimedOut(PenstockError, Transient):
    """An event was worked on for longer than `options.timeout`, or not acknowledged within `deferral_timeout`."""

    code = "timeout"


class UnitResult:
    """Strands share it."""

    def __init__(
        self,
        scrub: Callable[[str], str],
        *,
        throw: bool,
        breaker: Breaker | None = None,
        again_below: Mapping[Partition, int] | None = None,
    ) -> None:
        """Failures of events below `again_below` are not news: they are tried again because a worker died."""
        self.acted = 0
        self.retried = 0
        self.act_errors = 0
        self.failures: list[FailedEvent] = []
        self.latencies = Latencies()
        self._sampled = 0
        """Events that the latencies stand for."""
        self._last_ms: float | None = None
        self.halt: Halt | None = None
        self.lock = threading.Lock()
        self._scrub = scrub
        self._throw = throw
        self._breaker = breaker
        self._again_below = again_below or {}
        self._bytes = 0
        if breaker:
            breaker.begin()

    def fail(self, item: Item, stage: Stage, error: BaseException, tries: RetryState | None = None) -> bool:
        """Record a failure; True when the event counts as finished, False when the pipeline stops at it (THROW)."""
        return self.take(self.made(item, stage, error, tries))

    def made(self, item: Item, stage: Stage, error: BaseException, tries: RetryState | None = None) -> FailedEvent:
        """A failure that is not recorded yet."""
        return failed_event(item, stage, error, self._scrub, tries)

    def take(self, failed: FailedEvent) -> bool:
        """Record it."""
        with self.lock:
            self.failures.append(failed)
            self._bytes += len(failed.record.value() or b"")
            if self._throw and self.halt is None:
                self.halt = Halt("throw", failed.failure.error_code, failed.failure.error)
            record = failed.record
            is_news = record.offset() >= self._again_below.get((record.topic(), record.partition()), 0)
            reason = self._breaker.failed(self.acted + len(self.failures)) if self._breaker and is_news else None
            if reason and self.halt is None:
                text = f"{reason}; the last one: {failed.failure.error}"
                self.halt = Halt("breaker", failed.failure.error_code, text)
        return not self._throw

    def outage(self, error: Unavailable) -> None:
        with self.lock:
            wait = getattr(error, "retry_after", None)
            self.halt = self.halt or Halt("outage", error.code, self._scrub(str(error)), wait)

    def end(self) -> None:
        if self._last_ms is not None:
            self.latencies.put(self._last_ms, self.acted - self._sampled)
        if self._breaker:
            self._breaker.end(self.acted + len(self.failures))

    @property
    def full(self) -> bool:
        """True: take no more events in this unit."""
        return self.halt is not None or len(self.failures) >= _FAILURES_AT_MOST or self._bytes >= _FAILURE_BYTES_AT_MOST

    def sample(self, *items: Item) -> None:
        """Note the times from these records' timestamps to now. They stand for all that was acted on since the last
        sample, so that the figures count every event although few clocks are read."""
        now = time.time() * 1000
        with self.lock:
            stamps = [stamp for item in items if type(item) is Event and (stamp := item.record.timestamp()[1]) > 0]
            for left, stamp in zip(range(len(stamps), 0, -1), stamps, strict=True):
                count = (self.acted - self._sampled) // left
                self._last_ms = max(0.0, now - stamp)
                self.latencies.put(self._last_ms, count)
                self._sampled += count
