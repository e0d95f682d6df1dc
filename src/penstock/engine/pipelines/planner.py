"""Planning: which of a pipeline's partitions go into a lane's next window, and within which limits."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from penstock.config.spec import PipelineSpec
from penstock.core.backoff import Backoff
from penstock.core.clock import SYSTEM, Clock
from penstock.engine.desired_state import DesiredState
from penstock.engine.pipelines.activity import Activity
from penstock.engine.pipelines.group import PauseDetector
from penstock.engine.pipelines.partitions import PartitionState, PartitionTable
from penstock.engine.taps import Taps
from penstock.pipeline.messages import Assignment, Blueprint, Partition, UnitRequest

_SOON = 0.5
"""Seconds before its retry is due that a partition is planned again: the unit waits for it, the next one might be late.
"""
_LONG = 5.0
"""Seconds of a window that waits for a quiet external source; a stop waits for its end."""
_revisions = itertools.count(1)


def new_revision() -> int:
    """L4: tells what a lane's process has built of a pipeline from what it built before a reload or a restart."""
    return next(_revisions)


@dataclass(slots=True)
class InFlightUnit:
    """A unit that a lane has taken and whose outcome is not accepted yet."""

    unit: int
    lane: str
    revision: int
    assignments: dict[Partition, Assignment]
    isolated: bool = False
    order: tuple[Partition, ...] = ()
    """Partitions by their index in the request, by which the in-flight log names them."""


class UnitTable:
    """Units in flight. Lane threads add to it under the partition table's lock, which guards it."""

    def __init__(self, partitions: PartitionTable) -> None:
        self._partitions = partitions
        self._units: dict[int, InFlightUnit] = {}

    def __bool__(self) -> bool:
        return bool(self._units)

    def __contains__(self, unit: int) -> bool:
        return unit in self._units

    def open(
        self, unit: int, lane: str, revision: int, states: Iterable[PartitionState], *, isolated: bool = False
    ) -> list[Assignment]:
        """Mark the partitions as taken; the lock is held."""
        taken = list(states)
        for state in taken:
            state.unit = unit
        assignments = [state.assignment() for state in taken]
        by_key = {each.key: each for each in assignments}
        self._units[unit] = InFlightUnit(unit, lane, revision, by_key, isolated, tuple(by_key))
        return assignments

    def get(self, unit: int) -> InFlightUnit | None:
        return self._units.get(unit)

    def close(self, unit: int) -> InFlightUnit | None:
        """The unit has ended, or counts no longer: its partitions are free."""
        with self._partitions.lock:
            closed = self._units.pop(unit, None)
            if closed is not None:
                for state in self._partitions:
                    if state.unit == unit:
                        state.unit = None
            return closed

    def ids(self) -> set[int]:
        return set(self._units)

    def held_by(self, lane: str) -> bool:
        return any(each.lane == lane for each in list(self._units.values()))

    def on(self, partitions: Iterable[Partition]) -> set[int]:
        """Units that work on these partitions."""
        with self._partitions.lock:
            states = [state for tp in partitions if (state := self._partitions.get(tp)) is not None]
            return {state.unit for state in states if state.unit is not None and state.unit in self._units}


class UnitPlanner:
    """Makes the units of one pipeline. Lane threads call it; it decides from the partition table under its lock."""

    def __init__(
        self,
        spec: PipelineSpec,
        blueprint: Blueprint,
        partitions: PartitionTable,
        units: UnitTable,
        *,
        activity: Activity,
        pauses: PauseDetector,
        outages: Iterable[Backoff],
        taps: Taps,
        alone: bool,
        clock: Clock = SYSTEM,
    ) -> None:
        """`outages`: no unit is planned while one of them waits."""
        self.spec = spec
        self.revision = new_revision()
        self.desired = DesiredState()
        self.leaving = False
        """True: the runner finishes what is in flight; nothing new is planned."""
        self.closing_lanes: set[str] = set()
        """Lanes in which the action is to be closed before the group is left."""
        self._partitions, self._units = partitions, units
        self._activity, self._pauses, self._outages, self._taps = activity, pauses, list(outages), taps
        self._alone, self._clock = alone, clock
        self._blueprint = pickle.dumps(blueprint, protocol=pickle.HIGHEST_PROTOCOL)

    def plan(
        self, lane: str, lanes: tuple[str, ...], new_unit: Callable[[], int], *, seconds: float | None
    ) -> UnitRequest | None:
        """A unit for this lane's next window, if any of its partitions are ready. `seconds`: of an express window."""
        with self._partitions.lock:
            if self._units.held_by(lane):
                # The action object is used by one unit at a time; one may be detached there.
                return None
            if lane in self.closing_lanes:
                return self._plan_close(lane, lanes, new_unit())
            free = [s for s in self._of_lane(lane, lanes) if s.unit is None and not s.is_dirty]
            if collecting := [s for s in free if s.collects]:
                return self._plan_collect(lane, lanes, new_unit(), collecting)
            if not self._may_plan():
                return None
            now = self._clock.monotonic()
            ready = [s for s in self._of_lane(lane, lanes) if s.is_ready(now + _SOON) and s.isolation is None]
            if not ready:
                return None
            return self._request(new_unit(), lane, ready, lanes=len(lanes), seconds=seconds)

    def plan_isolated(self, lane: str, new_unit: Callable[[], int]) -> UnitRequest | None:
        """A unit with one partition over which a worker died, to run alone."""
        with self._partitions.lock:
            now = self._clock.monotonic()
            ready = [s for s in self._partitions if s.isolation is not None and s.is_ready(now)]
            if not ready or not self._may_plan() or self._units.held_by(lane):
                return None
            request = self._request(new_unit(), lane, ready[:1], lanes=1, isolated=True)
            request.careful = True
            size, request.stop_at = ready[0].isolated_limits()
            request.max_records = min(request.max_records, size)
            return request

    def _of_lane(self, lane: str, lanes: tuple[str, ...]) -> list[PartitionState]:
        """Partitions are dealt out over the pipeline's lanes by their order."""
        keys = self._partitions.owned()
        mine = [tp for index, tp in enumerate(keys) if lanes[index % len(lanes)] == lane]
        return [state for tp in mine if (state := self._partitions.get(tp)) is not None]

    def _plan_close(self, lane: str, lanes: tuple[str, ...], unit: int) -> UnitRequest:
        self.closing_lanes.discard(lane)
        free = [state for state in self._of_lane(lane, lanes) if state.unit is None]
        request = self._request(unit, lane, free, lanes=len(lanes))
        request.last = True
        return request

    def _plan_collect(
        self, lane: str, lanes: tuple[str, ...], unit: int, collecting: list[PartitionState]
    ) -> UnitRequest:
        left = min(state.collect_until for state in collecting) - self._clock.monotonic()
        request = self._request(unit, lane, collecting, lanes=len(lanes))
        request.collect, request.seconds = True, min(request.seconds, max(0.0, left))
        return request

    def _may_plan(self) -> bool:
        if (self.desired.trial and self._units) or not self._pauses.is_steady:
            return False
        if any(outage.waiting for outage in self._outages):
            return False
        return not (self.leaving or self._activity.is_idle or self.desired.paused)

    def _request(
        self,
        unit: int,
        lane: str,
        ready: list[PartitionState],
        *,
        lanes: int,
        seconds: float | None = None,
        isolated: bool = False,
    ) -> UnitRequest:
        window = self.spec.options.window
        length = seconds or window.deadline
        if self._alone and self._activity.is_quiet:
            # No watcher wakes an external source: it is waited for in few, long windows.
            length = max(length, _LONG)
        return UnitRequest(
            unit,
            self.spec.name,
            self.revision,
            self._blueprint,
            self._units.open(unit, lane, self.revision, ready, isolated=isolated),
            length,
            self.spec.options.breaker.window if self.desired.trial else window.max_records,
            rate=self._rate_share(len(ready)),
            tap=self._taps.wish(self.spec.name, lanes),
        )

    @property
    def rate_limit_per_second(self) -> float | None:
        """Over all instances; the desired state in the store overrides the spec."""
        given = self.desired.rate_limit
        return self.spec.options.rate_limit if given is None else given or None

    def _rate_share(self, partitions: int) -> float | None:
        """The rate limit's share of a unit with this many of the pipeline's partitions."""
        limit = self.rate_limit_per_second
        return limit and limit * partitions / max(1, self._partitions.total, len(self._partitions))

    @property
    def wake_at(self) -> float | None:
        """Monotonic time, in the future, at which a unit may be planned again; None: nothing waits for a time."""
        now = self._clock.monotonic()
        until = max((outage.until for outage in self._outages), default=0.0)
        if until > now:
            return until
        with self._partitions.lock:
            waits = [state.waits_until - _SOON for state in self._partitions]
        return min((at for at in waits if at > now), default=None)

    @property
    def has_isolated(self) -> bool:
        with self._partitions.lock:
            return any(state.isolation is not None for state in self._partitions)
