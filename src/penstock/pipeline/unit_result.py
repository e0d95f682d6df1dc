"""What a unit has done so far: counts per partition, failures, and why it must end."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from penstock.core.clock import SYSTEM, Clock
from penstock.core.dead_letter import Stage
from penstock.core.errors import PenstockError, Terminal, Transient, Unavailable
from penstock.core.event import Event
from penstock.core.latency import Latencies
from penstock.pipeline.breaker import Breaker
from penstock.pipeline.failures import error_text, failed_event
from penstock.pipeline.items import Item
from penstock.pipeline.messages import FailedEvent, Halt, Partition
from penstock.pipeline.retry import RetryState, asked_wait


@dataclass(frozen=True, slots=True)
class FailureLimits:
    """L7: a unit ends early at these limits, so that a topic full of poison cannot flood the driver."""

    count: int = 1_000
    size: int = 8 << 20
    """Bytes of the records."""

    def share(self, units: int) -> FailureLimits:
        """F31: the limits of each of a window's units, of which all failures travel together."""
        return FailureLimits(
            max(50, min(self.count, 4_000 // units)), max(256 << 10, min(self.size, (16 << 20) // units))
        )


class ActResult(PenstockError, Terminal):
    """An action returned something that says neither done nor deferred."""

    code = "act-result"


class TimedOut(PenstockError, Transient):
    """An event was worked on for longer than `options.timeout`, or not acknowledged within `deferral_timeout`."""

    code = "timeout"


class UnitResult:
    """Filled by the executor; the threads of a keyed executor share it.

    L2: events that end are counted here, per partition, at the moment they end.
    """

    def __init__(
        self,
        scrub: Callable[[str], str],
        *,
        throw: bool,
        breaker: Breaker | None = None,
        again_below: Mapping[Partition, int] | None = None,
        limits: FailureLimits = FailureLimits(),  # noqa: B008 - immutable
        clock: Clock = SYSTEM,
    ) -> None:
        """Failures of events below `again_below` do not count for the breaker: they are tried again because a worker
        died."""
        self.acted = 0
        """Events that the action has finished, of all partitions."""
        self.acted_by: dict[Partition, int] = {}
        self.failed_by: dict[Partition, int] = {}
        self.filtered_by: dict[Partition, int] = {}
        """Dropped by a step that was repeated for a retry."""
        self.retried = 0
        self.act_errors = 0
        self.failures: list[FailedEvent] = []
        self.deferred = 0
        """Events whose acknowledgement was deferred: the breaker counts them as seen, whenever it comes."""
        self.latencies = Latencies()
        self.halt: Halt | None = None
        self.lock = threading.Lock()
        self._sampled = 0
        """Events that the latencies stand for."""
        self._last_ms: float | None = None
        self._scrub = scrub
        self._throw = throw
        self._breaker = breaker
        self._again_below = again_below or {}
        self._limits, self._clock = limits, clock
        self._bytes = 0
        if breaker:
            breaker.begin()

    # -- events that end -------------------------------------------------------------------

    def add_acted(self, partition: Partition, count: int = 1) -> None:
        if count:
            with self.lock:
                self.acted += count
                self.acted_by[partition] = self.acted_by.get(partition, 0) + count

    def add_deferred(self) -> None:
        with self.lock:
            self.deferred += 1

    def add_filtered(self, partition: Partition) -> None:
        with self.lock:
            self.filtered_by[partition] = self.filtered_by.get(partition, 0) + 1

    def fail(self, item: Item, stage: Stage, error: BaseException, state: RetryState | None = None) -> bool:
        """Record a failure; True when the event counts as finished, False when the pipeline stops at it (THROW)."""
        return self.add_failure(self.build_failure(item, stage, error, state))

    def build_failure(
        self, item: Item, stage: Stage, error: BaseException, state: RetryState | None = None
    ) -> FailedEvent:
        """A failure that is not recorded yet."""
        return failed_event(item, stage, error, self._scrub, state, clock=self._clock)

    def add_failure(self, failed: FailedEvent) -> bool:
        """Record it; True when its event counts as finished, False when the pipeline stops at it (THROW)."""
        record = failed.record
        partition = (record.topic(), record.partition())
        with self.lock:
            self.failures.append(failed)
            self._bytes += len(record.value() or b"")
            if self._throw:
                if self.halt is None or self.halt.kind == "outage":
                    # An outage passes by itself; an event at which the pipeline stops does not.
                    self.halt = Halt("throw", failed.failure.error_code, failed.failure.error)
            else:
                self.failed_by[partition] = self.failed_by.get(partition, 0) + 1
            counts = self._breaker is not None and record.offset() >= self._again_below.get(partition, 0)
            seen = self.acted + self.deferred + len(self.failures)
            reason = self._breaker.failed(seen) if self._breaker and counts else None
            if reason and self.halt is None:
                text = f"{reason}; the last one: {failed.failure.error}"
                self.halt = Halt("breaker", failed.failure.error_code, text)
        return not self._throw

    # -- the unit's end --------------------------------------------------------------------

    def outage(self, error: Unavailable) -> None:
        """The action's target does not answer: the unit ends, no event is to blame."""
        with self.lock:
            text = error_text(error, self._scrub)
            self.halt = self.halt or Halt("outage", str(error.code), text, asked_wait(error))

    @property
    def full(self) -> bool:
        """True: begin no more events in this unit."""
        return self.halt is not None or len(self.failures) >= self._limits.count or self._bytes >= self._limits.size

    def end(self) -> None:
        if self._last_ms is not None:
            self.latencies.put(self._last_ms, max(0, self.acted - self._sampled))
        if self._breaker:
            self._breaker.end(self.acted + len(self.failures))

    def sample(self, *items: Item) -> None:
        """Note the times from these records' timestamps to now. Each counts for all that was acted on since the last
        sample, so that the figures count every event although few clocks are read."""
        now = self._clock.time() * 1000
        # L3: a record of the user's own making may raise here, and a figure less is all that it costs.
        with contextlib.suppress(Exception), self.lock:
            stamps = [stamp for item in items if type(item) is Event and (stamp := item.record.timestamp()[1]) > 0]
            for left, stamp in zip(range(len(stamps), 0, -1), stamps, strict=True):
                count = (self.acted - self._sampled) // left
                self._last_ms = max(0.0, now - stamp)
                self.latencies.put(self._last_ms, count)
                self._sampled += count
