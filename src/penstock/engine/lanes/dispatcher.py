"""The dispatcher: decides which pipeline's units go into which lane's next window, fairly, from what was measured."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from penstock.core.dead_letter import Stage
from penstock.engine.lanes.assignment import Placement
from penstock.engine.lanes.lane import Lane, LaneSizes, Role, end_process
from penstock.engine.spark.context import WindowLost, WindowRepeated
from penstock.pipeline import in_flight_log
from penstock.pipeline.in_flight_log import InFlight
from penstock.pipeline.messages import UnitRequest
from penstock.worker.protocol import RESTING_AT_MOST, WindowOutcome, WindowRequest

if TYPE_CHECKING:
    from penstock.engine.pipelines.planner import Planned

_WATCH_EVERY = 1.0
_KEEP_WARM = 45.0
"""Spark drops a worker that was idle for a minute; it costs half a second to get back."""
_TIDY_UP = 8.0
"""The same where the worker holds so many pipelines that it should let some go."""
_STRAGGLERS = 0.15
"""How long a window waits for flows of the last one that are still committing: longer than a commit, shorter than
anyone minds."""
_STRAGGLERS_MOST = 1.0
"""The same as long as most of them are: one that is left behind waits for a whole further window."""
_CROWD = 10
"""From so many units on a carpool window takes two seconds: the gap between windows grows with the number of commits.
"""
_FRESH = 40
"""Pipelines that a lane's process makes in one window at most: each has a consumer with some threads and connections,
and hundreds at once hold each other up."""
_SETTLING = 10.0
"""How long a process that shall end waits for the failures of a foreign source's events to be settled: those that it
cannot acknowledge come again, and fail again."""
_COLLECT = 1.0
_CAREFUL = 5.0
"""Seconds of a careful window at most; it ends when it has read what is there."""
_OVERRUN = 5.0
"""Seconds beyond what a window and its actions may take, after which the worker is held for good and is killed."""
_NOBODYS = 30.0
"""Seconds that a window may be late which concerns no pipeline: there is no action to blame."""
_EXERCISES = 40
"""Empty windows in the lane that has the least to do: the JVM compiles the way of a job after some fifty of them."""


class Dispatcher(Placement):
    """One per instance. Lanes ask it for windows; flows tell it when they are ready."""

    def start(self, sizes: LaneSizes) -> None:
        """Make every lane; the carpool is ready first, the express lane warms up behind it, those for heavy work are
        started when there is some: each has a process or two of 50 MB."""
        self._pinned_at_most = sizes.pinned
        roles: list[tuple[Role, int]] = [("carpool", sizes.carpool), ("express", sizes.express), ("hot", sizes.hot)]
        for role, size in roles:
            for _ in range(size):
                self._new_lane(role)
        for lane in self.lanes.values():
            lane.exercises = _EXERCISES if lane.role == "express" and self._spark.is_local else 0
        lanes = list(self.lanes.values())
        first = [lane for lane in lanes if lane.role in ("carpool", "pinned")]
        for lane in first:
            lane.start()
        for lane in first:
            lane.warm.wait(60)
        self._started = True
        threading.Thread(target=self._watch, name="lane-watch", daemon=True).start()
        self._resting = [lane for lane in lanes if lane.role == "hot"]
        self._start_aside([lane for lane in lanes if lane not in first and lane not in self._resting])

    def heat(self, flow: Planned, *, hot: bool) -> None:
        """As of `Placement`; the first heavy work wakes its lanes, and stays at home until one of them is warm."""
        if hot:
            with self._lock:
                asleep, self._resting = self._resting, []
            self._start_aside(asleep)
        super().heat(flow, hot=hot)

    def _start_aside(self, lanes: list[Lane]) -> None:
        if lanes:
            threading.Thread(target=self._start_rest, args=(lanes,), name="lanes", daemon=True).start()

    def _start_rest(self, lanes: list[Lane]) -> None:
        """One after the other: a lane costs a core for a second or two, and pipelines are at work already."""
        for lane in lanes:
            lane.start()
            lane.warm.wait(60)
            with self._lock:
                for flow in self._flows.values():
                    if flow.temperature == "hot":
                        self._move(flow, self._hot_lanes(flow))
                self._lock.notify_all()

    def _watch(self) -> None:
        """A window always ends. One that does not has an action that holds its process: it is killed, and the log
        says over which event."""
        while not self._stopping:
            time.sleep(_WATCH_EVERY)
            now = time.monotonic()
            with self._lock:
                stuck = [
                    lane
                    for lane in self.lanes.values()
                    if lane.busy_until is not None and now > lane.busy_until + lane.patience + _OVERRUN
                ]
            for lane in stuck:
                lane.overran = True
                lane.kill_worker()

    def next_window(self, lane: Lane) -> WindowRequest | None:
        """Block until the lane has something to run; None when it shall end."""
        with self._lock:
            returned = time.monotonic()
            while True:
                now = time.monotonic()
                if self._stopping and not lane.closings and not lane.detached:
                    return None
                patience = _STRAGGLERS if lane.mostly_back else _STRAGGLERS_MOST
                waiting = bool(lane.returning) and now < returned + patience
                if lane.tainted and not lane.detached and not self._stopping:
                    patience = _SETTLING
                    waiting = self._settles(lane) and now < returned + patience
                    if not waiting:
                        units = self._let_go(lane)
                        return WindowRequest(lane.lane, 0.0, units, detach=self._spark.is_local, retiring=True)
                if not waiting:
                    units = list(self._plan(lane))
                    if units or lane.closings or lane.detached:
                        return self._window(lane, units, now)
                    if now >= lane.used_at + _may_rest(lane) or not lane.warm.is_set() or lane.exercises:
                        lane.exercises = max(0, lane.exercises - 1)
                        self._metrics.spark_jobs.labels("keep-warm").inc()
                        return WindowRequest(lane.lane, 0.0, [], detach=self._spark.is_local)
                timeout = returned + patience - now if waiting else lane.used_at + _may_rest(lane) - now
                self._lock.wait(min(max(timeout, 0.001), self._soonest(lane, now)))

    def _settles(self, lane: Lane) -> bool:
        """Whether the lane belongs to a flow whose worker has yet to be told that the last failures are settled."""
        return self._is_taken(lane) and any((f := self._flows.get(name)) is not None and f.busy for name in lane.flows)

    def _let_go(self, lane: Lane) -> list[UnitRequest]:
        """What a process that ends must be told of pipelines that acknowledge by themselves."""
        flows = [flow for name in lane.flows if (flow := self._flows.get(name)) is not None and flow.alone]
        closings, lane.closings = lane.closings, []
        return closings + [flow.closing_unit(self.new_unit()) for flow in flows]

    def _soonest(self, lane: Lane, now: float) -> float:
        """Seconds until a flow of the lane that waits for an outage to pass may be tried again."""
        times = [at - now for name in lane.flows if (f := self._flows.get(name)) and (at := f.wake_at) is not None]
        return max(0.01, min(times, default=_KEEP_WARM))

    def _plan(self, lane: Lane) -> Iterator[UnitRequest]:
        if lane.role == "quarantine":
            yield from self._plan_alone(lane)
            return
        fresh = 0
        for name in sorted(lane.flows):
            flow = self._flows.get(name)
            if flow is not None and lane.lane in flow.lanes and not self._stopping:
                is_fresh = self._spark.is_local and not lane.knows(flow)
                if is_fresh and fresh >= _FRESH:
                    continue
                unit = flow.plan(lane.lane, self.new_unit)
                if unit is not None:
                    fresh += is_fresh
                    yield lane.slimmed(unit) if self._spark.is_local else unit

    def _plan_alone(self, lane: Lane) -> Iterator[UnitRequest]:
        """One unit and no other, of the flow that has waited longest."""
        if lane.detached:
            # One that hangs must not die with another.
            return
        for name in sorted(lane.flows, key=lambda name: lane.turns.get(name, 0.0)):
            flow = self._flows.get(name)
            if flow is None or not flow.is_careful:
                lane.flows.discard(name)
                if flow is not None:
                    lane.closings.append(flow.closing_unit(self.new_unit()))
                continue
            unit = flow.plan_carefully(lane.lane, self.new_unit)
            if unit is not None:
                lane.turns[name] = time.monotonic()
                unit.seconds = min(unit.seconds, _CAREFUL)
                yield lane.slimmed(unit) if self._spark.is_local else unit
                return

    def _window(self, lane: Lane, units: list[UnitRequest], now: float) -> WindowRequest:
        if units:
            seconds = max(unit.seconds for unit in units)
            if lane.role == "carpool" and len(units) >= _CROWD:
                seconds = max(2.0, seconds)
                for unit in units:
                    unit.seconds = seconds
        else:
            seconds = _COLLECT if lane.detached else 0.0
        closings, lane.closings = lane.closings, []
        seconds = max(seconds, *(unit.seconds for unit in closings), 0.0)
        lane.busy_until = now + seconds
        lane.patience = self._patience(lane, {unit.pipeline for unit in units})
        lane.returning = {unit.pipeline for unit in units}
        lane.carried = len(lane.returning)
        self._metrics.spark_jobs.labels("window").inc()
        notes = self._spark.journal(lane.lane)
        local = self._spark.is_local
        # A flow plans only with a sign of life from its group that is less than a third of the session old.
        not_after = now + self._session_timeout * 2 / 3 if local else None
        return WindowRequest(
            lane.lane, seconds, closings + units, detach=local, in_flight_log=notes, not_after=not_after
        )

    def _patience(self, lane: Lane, carried: set[str]) -> float:
        """Units that are still being made or acting in the lane have their time, too, though its window carries none:
        on a busy machine Spark may take longer to begin a job than a window lasts."""
        concerned = [
            flow for name, flow in self._flows.items() if name in carried or flow.holds(lane.detached, lane.lane)
        ]
        return max((flow.spec.options.timeout for flow in concerned), default=_NOBODYS)

    def window_done(self, lane: Lane, request: WindowRequest, outcome: WindowOutcome) -> None:
        with self._lock:
            gone = lane.detached - set(outcome.running) - {unit.unit for unit in outcome.units}
            former = lane.pid if lane.pid != outcome.pid and self._spark.is_local else None
            lane.took(outcome)
            if request.retiring:
                lane.kill_worker()
                lane.tainted = False
            if request.units:
                self._metrics.window_seconds.observe(outcome.seconds)
            self._metrics.add_registry_calls(outcome.registry_calls)
            flows = [(self._flows.get(unit.pipeline), unit) for unit in outcome.units if unit.status != "closed"]
            # A detached unit comes back with a later window; nobody waits for it.
            lane.returning -= {unit.pipeline for _, unit in flows if unit.status == "detached"}
            lane.returning &= set(self._flows)
        for flow, unit in flows:
            if flow is not None:
                flow.deliver(unit, request.seconds)
        if former is not None:
            self._succeed(former, gone)

    def _succeed(self, former: int, gone: set[int]) -> None:
        """Spark took another process for the lane: because the one before died while it was idle, or because it was a
        moment late. There must not be two; what it had left behind is lost, and nobody is to blame."""
        end_process(former)
        if gone:
            self._lose(gone, {}, None, "another process took its place")

    def window_lost(self, lane: Lane, request: WindowRequest, error: WindowLost) -> None:
        """The worker died: everything it had not returned is planned again; its in-flight log names the suspects."""
        suspects = in_flight_log.read(request.in_flight_log) if request.in_flight_log else None
        with self._lock:
            lane.busy_until = None
            lane.used_at = time.monotonic()
            lane.warm.set()
            lane.known.clear()
            lane.tainted = False
            blameless = lane.cancelled or isinstance(error, WindowRepeated)
            stage: Stage | None = None if blameless else "timeout" if lane.overran else "crash"
            lane.overran = lane.cancelled = False
            lost = {unit.unit for unit in request.units} | lane.detached
            lane.detached = set()
            lane.returning = set()
        if suspects is not None:
            # Units of windows that ended well may have slots of their own still; they are of no concern.
            suspects = {unit: found for unit, found in suspects.items() if unit in lost}
        self._lose(lost, suspects, stage, error.message)

    def _lose(
        self, units: set[int], suspects: dict[int, list[InFlight]] | None, stage: Stage | None, reason: str
    ) -> None:
        """`stage` is what an event that it died over would fail with; None: no event is to blame."""
        if stage is None:
            suspects = {} if suspects is not None else None
        with self._lock:
            flows = list(self._flows.values())
        for flow in flows:
            flow.lose(units, suspects, stage=stage, reason=reason)

    def cancel(self, units: set[int]) -> None:
        """Kill the workers that hold these units; their lanes start anew."""
        with self._lock:
            lanes = [
                lane for lane in self.lanes.values() if any(f.holds(units, lane.lane) for f in self._flows.values())
            ]
        for lane in lanes:
            lane.cancelled = True
            lane.kill_worker()

    def stop(self, timeout: float) -> None:
        """End every lane once its closing units have run."""
        with self._lock:
            self._stopping = True
            self._lock.notify_all()
        end = time.monotonic() + timeout
        for lane in self.lanes.values():
            if lane.is_alive():
                lane.join(max(0.0, end - time.monotonic()))


def _may_rest(lane: Lane) -> float:
    """How long the lane may be without a window."""
    return _TIDY_UP if lane.held > RESTING_AT_MOST else _KEEP_WARM
