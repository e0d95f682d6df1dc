"""Planning: where a pipeline runs, which of its partitions go into a lane's next window, and within which limits."""

from __future__ import annotations

import pickle
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable

from penstock.config.spec import PipelineSpec
from penstock.core.backoff import Backoff
from penstock.core.dead_letter import Stage
from penstock.engine.desired_state import DesiredState
from penstock.engine.pipelines.activity import Activity, Temperature
from penstock.engine.pipelines.context import EngineContext
from penstock.engine.pipelines.group import GroupMembership
from penstock.engine.pipelines.outcomes import Units
from penstock.engine.pipelines.partitions import PartitionState
from penstock.engine.pipelines.pause_detector import PauseDetector
from penstock.pipeline.in_flight_log import InFlight
from penstock.pipeline.messages import CLOSING, Blueprint, UnitOutcome, UnitRequest

_HOT_LAG = 20_000
"""Records behind at which a pipeline gets lanes of its own from the start."""
_SOON = 0.5
"""Seconds before its retry is due that a partition is planned again: the unit waits for it, the next one might be late.
"""
_LONG = 5.0
"""Seconds of a window that waits for a quiet source; a stop waits for its end."""
_FEW = 2_000
"""Events of one careful unit at most."""


class Planned(ABC):
    """What lanes and the dispatcher ask of a flow; they come from other threads and take its lock."""

    membership: GroupMembership
    units: Units
    wanted: DesiredState
    pulse: PauseDetector

    def __init__(self, spec: PipelineSpec, blueprint: Blueprint, around: EngineContext, *, pinned: bool) -> None:
        self.spec = spec
        self.name = spec.name
        self.around = around
        self.pinned = pinned
        self.parallelism = spec.options.parallelism or 1
        self.alone = spec.source.is_foreign
        """Whether it shares its lane with nobody."""
        self.lock = threading.RLock()
        self.farewells: set[str] = set()
        """Lanes in which the action is to be closed before the group is left."""
        self.warmth = Activity(around.season)
        self._blueprint = pickle.dumps(blueprint, protocol=pickle.HIGHEST_PROTOCOL)
        # Unique over removals and additions: executors keep what they built by name and revision.
        self.revision = time.time_ns()
        self._outage = Backoff()

    @property
    @abstractmethod
    def leaves(self) -> bool:
        """True: finish what is under way and leave the group."""

    @property
    def not_before(self) -> float:
        """Monotonic time before which no unit is planned."""
        return max(self._outage.until, self.units.trouble.until)

    @property
    def temperature(self) -> Temperature:
        return self.warmth.temperature

    @property
    def wake_at(self) -> float | None:
        """Monotonic time, still to come, at which a unit may be planned again; None: nothing waits for a time."""
        now = time.monotonic()
        if self.not_before > now:
            return self.not_before
        with self.lock:
            waits = [own.waits_until - _SOON for own in self.membership.owned.values()]
        return min((at for at in waits if at > now), default=None)

    @property
    def busy(self) -> bool:
        return bool(self.units.under)

    @abstractmethod
    def deliver(self, outcome: UnitOutcome, seconds: float) -> None: ...

    @abstractmethod
    def lose(
        self, units: set[int], suspects: dict[int, list[InFlight]] | None, *, stage: Stage | None, reason: str
    ) -> None: ...

    @property
    def timeout(self) -> float:
        return self.spec.options.timeout

    @property
    def is_dedicated(self) -> bool:
        return self.temperature == "hot"

    @property
    def lanes(self) -> tuple[str, ...]:
        return self.around.dispatcher.lanes_of(self)

    def plan(
        self, lane: str, lanes: tuple[str, ...], new_unit: Callable[[], int], *, seconds: float | None = None
    ) -> UnitRequest | None:
        """A unit for this lane's next window, if any of its partitions are ready."""
        with self.lock:
            if lane in self.farewells and not self.units.held_by(lane):
                return self._plan_last(lane, lanes, new_unit())
            if not self._may_plan() or self.units.held_by(lane):
                # The action object is used by one unit at a time; one may be detached there.
                return None
            now = time.monotonic()
            ready = [own for own in self._mine(lane, lanes) if own.ready(now + _SOON) and not own.careful]
            if not ready:
                return None
            unit = new_unit()
            self.units.open(unit, lane, ready, careful=False)
            return self._request(unit, ready, len(lanes), seconds)

    def _mine(self, lane: str, lanes: tuple[str, ...]) -> list[PartitionState]:
        order = sorted(self.membership.owned)
        return [self.membership.owned[tp] for i, tp in enumerate(order) if lanes[i % len(lanes)] == lane]

    def _plan_last(self, lane: str, lanes: tuple[str, ...], unit: int) -> UnitRequest:
        self.farewells.discard(lane)
        mine = self._mine(lane, lanes)
        self.units.open(unit, lane, mine, careful=False)
        request = self._request(unit, mine, len(lanes))
        request.last = True
        return request

    def plan_isolated(self, lane: str, new_unit: Callable[[], int]) -> UnitRequest | None:
        """A unit with one partition over which a worker died, to run alone."""
        with self.lock:
            now = time.monotonic()
            ready = [own for own in self.membership.owned.values() if own.careful and own.ready(now)]
            if not ready or not self._may_plan() or self.units.held_by(lane):
                return None
            unit = new_unit()
            self.units.open(unit, lane, ready[:1], careful=True)
            request = self._request(unit, ready[:1], 1)
            request.careful = True
            request.max_records = min(request.max_records, ready[0].few or ready[0].doubted or _FEW)
            return request

    def _may_plan(self) -> bool:
        if (self.wanted.trial and self.units.under) or not self.pulse.is_steady:
            return False
        return not (self.leaves or self.warmth.is_cold or self.wanted.paused or time.monotonic() < self.not_before)

    @property
    def has_isolated(self) -> bool:
        with self.lock:
            return any(own.careful for own in self.membership.owned.values())

    def _request(self, unit: int, ready: list[PartitionState], lanes: int, seconds: float | None = None) -> UnitRequest:
        window = self.spec.options.window
        seconds = seconds or window.deadline
        if self.alone and self.warmth.is_idle:
            # Nothing rings for a source of the user's own: it is waited for in few, long windows.
            seconds = max(seconds, _LONG)
        return UnitRequest(
            unit,
            self.name,
            self.revision,
            self._blueprint,
            [own.assignment() for own in ready],
            seconds,
            self.spec.options.breaker.window if self.wanted.trial else window.max_records,
            rate=self._share(len(ready)),
            tap=self.around.taps.wish(self.name, lanes),
        )

    @property
    def rate_limit_per_second(self) -> float | None:
        """Over all instances; what the store says is stronger than the spec."""
        given = self.wanted.rate_limit
        return self.spec.options.rate_limit if given is None else given or None

    def _share(self, partitions: int) -> float | None:
        """The rate limit's share of a unit with so many of the pipeline's partitions."""
        limit = self.rate_limit_per_second
        return limit and limit * partitions / max(self.membership.total, len(self.membership.owned))

    def closing_unit(self, unit: int) -> UnitRequest:
        last, seconds = self.membership.last_positions(), CLOSING if self.alone else 0.0
        return UnitRequest(unit, self.name, self.revision, b"", last, seconds, 0, closing=True)

    # -- temperature -----------------------------------------------------------------------

    def _set_temperature(self, temperature: Temperature) -> None:
        self.warmth.become(temperature)
        self.around.dispatcher.dedicate(self, on=temperature == "hot")

    def _arrived(self) -> None:
        """New partitions have their positions."""
        self.around.metrics.rebalances.labels(self.name, "assigned").inc()
        with self.lock:
            lag = self.membership.lag()
        if lag >= _HOT_LAG and not self.pinned:
            self.warmth.touch()
            self._set_temperature("hot")
        elif lag or not self.membership.has_log:
            self._rung()
        elif self.warmth.is_cold:
            self._watch()
        self.around.dispatcher.ready(self)

    def _cool_down(self) -> None:
        """Nothing for a while and nothing open: sleep until the doorbell rings."""
        if self.warmth.is_cold or self.alone or not self.units.none_open or not self.warmth.is_idle:
            return
        with self.lock:
            owned = self.membership.owned.values()
            if any(not own.at_end or own.pending or own.unit is not None or own.careful for own in owned):
                return
            self.warmth.become("cold")
        self._watch()

    def _watch(self) -> None:
        with self.lock:
            cursors = {own.key: own.next_offset for own in self.membership.owned.values()}
        if cursors:
            self.around.doorbell.watch(self, cursors, self._rung)

    def _rung(self) -> None:
        """Something has arrived; called by the doorbell's thread too."""
        self.around.doorbell.leave(self)
        self.warmth.touch()
        with self.lock:
            asleep = self.warmth.is_cold
            if asleep:
                self.warmth.become("warm")
        if asleep:
            self.around.dispatcher.wake(self)
