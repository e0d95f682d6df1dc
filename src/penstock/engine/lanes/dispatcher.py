"""The dispatcher: decides which pipeline's units go into which lane's next window, and passes their outcomes on."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial

import structlog

from penstock.core.clock import SYSTEM, Clock
from penstock.core.metrics import Metrics
from penstock.core.periodic import Periodic
from penstock.core.threads import THREADS, Threads
from penstock.engine.lanes.assignment import LaneAssignment, is_reserved
from penstock.engine.lanes.lane import Lane, LaneSizes, Role
from penstock.engine.lanes.lane_worker import KEEP_WARM, LaneWorker, LostUnits, WindowBackend, WindowResult
from penstock.engine.lanes.planned import PlannedPipeline
from penstock.pipeline.messages import UnitOutcome, UnitRequest
from penstock.worker.protocol import RESTING_AT_MOST, WindowOutcome, WindowRequest

log = structlog.get_logger("penstock.dispatcher")

_WATCH_EVERY = 1.0
_TIDY_UP = 8.0
"""Seconds without a window after which a process gets an empty one in which it closes what it need not hold."""
_STRAGGLERS = 0.15
"""Seconds that a window waits for pipelines of the last one that are still committing: longer than a commit, shorter
than is noticed."""
_STRAGGLERS_MOST = 1.0
"""The same as long as most of them are: one that is left behind waits for a whole further window."""
_CROWD = 10
"""Units from which on a shared window takes two seconds: the gap between windows grows with the number of commits."""
_CROWD_SECONDS = 2.0
_FRESH = 40
"""Pipelines that a lane's process builds in one window at most: each has a consumer with some threads and connections,
and hundreds at once hold each other up."""
_SETTLING = 10.0
"""Seconds that a process which is to be replaced waits for the failures of an external source's events to be settled:
those that it cannot acknowledge come again, and fail again."""
_COLLECT = 1.0
"""Seconds of a window that only collects detached units."""
_ISOLATED = 5.0
"""Seconds of a window in the isolation lane at most; it ends when it has read what is there."""
_UNBLAMED = 30.0
"""Seconds that a window may be late which carries no pipeline: there is no action to blame."""
_WARM_UPS = 40
"""Empty windows in the express lane: the JVM compiles the way of a job after some fifty of them."""
_WARM_WITHIN = 60.0
_FAULT_PAUSE = 1.0
"""Seconds that a lane's loop rests after an error in it."""


class Dispatcher:
    """One per instance. Each lane has a thread that asks for its next window, runs it and passes the outcomes on;
    runners call from their own threads.

    Locks: the dispatcher's is taken before a runner's, never the other way round. Neither is held while a window runs,
    a process is killed, or an outcome is delivered.
    """

    def __init__(
        self,
        backend: WindowBackend,
        metrics: Metrics,
        session_timeout: float,
        *,
        clock: Clock = SYSTEM,
        threads: Threads = THREADS,
    ) -> None:
        self._backend, self._metrics, self._session_timeout = backend, metrics, session_timeout
        self._clock, self._threads = clock, threads
        self._lock = threads.condition()
        self._assignment = LaneAssignment(self._open_lane, clock=clock)
        self._units = itertools.count(1)
        self._started = self._stopping = False
        self._not_started: list[Lane] = []
        """Dedicated lanes, as long as no pipeline has wanted one."""
        self._watch = Periodic("lane-watch", self._end_overdue, every=_WATCH_EVERY, owner="Dispatcher", threads=threads)

    @property
    def lanes(self) -> dict[str, Lane]:
        return self._assignment.lanes

    # -- start and stop --------------------------------------------------------------------

    def start(self, sizes: LaneSizes) -> None:
        """Make every lane and wait for the shared ones. The express lane warms up behind them; dedicated lanes are
        started when they are wanted: each has a process or two of 50 MB."""
        self._assignment.pinned_at_most = sizes.pinned
        roles: list[tuple[Role, int]] = [
            ("shared", sizes.shared),
            ("express", sizes.express),
            ("dedicated", sizes.dedicated),
        ]
        for role, size in roles:
            for _ in range(size):
                self._open_lane(role)
        for lane in self._assignment.of_role("express"):
            lane.warm_ups = _WARM_UPS if self._backend.is_local else 0
        first = [lane for lane in self.lanes.values() if lane.role in ("shared", "pinned")]
        for lane in first:
            self._start_lane(lane)
        for lane in first:
            lane.worker.warm.wait(_WARM_WITHIN)
        with self._lock:
            self._started = True
            self._not_started = self._assignment.of_role("dedicated")
        self._watch.start()
        self._start_behind(self._assignment.of_role("express"))

    def _open_lane(self, role: Role) -> Lane:
        name = f"{role}-{len(self._assignment.of_role(role))}"
        worker = LaneWorker(name, self._backend, clock=self._clock, threads=self._threads)
        lane = self.lanes[name] = Lane(name, role, worker)
        if self._started:
            self._start_lane(lane)
        return lane

    def _start_lane(self, lane: Lane) -> None:
        lane.thread = self._threads.start(
            f"lane-{lane.name}", lambda: self._run_lane(lane), owner="Dispatcher", ends="at `stop`, when its units have"
        )

    def _start_behind(self, lanes: list[Lane]) -> None:
        if lanes:
            self._threads.start(
                "lane-start", lambda: self._start_slowly(lanes), owner="Dispatcher", ends="when its lanes are warm"
            )

    def _start_slowly(self, lanes: list[Lane]) -> None:
        """One after the other: a lane costs a core for a second or two, and pipelines are at work already."""
        for lane in lanes:
            self._start_lane(lane)
            lane.worker.warm.wait(_WARM_WITHIN)
            with self._lock:
                for runner in self._assignment.runners:
                    if runner.is_dedicated:
                        self._assignment.dedicate(runner)
                self._lock.notify_all()

    def stop(self, timeout: float) -> None:
        """End every lane once its closing units have run."""
        with self._lock:
            self._stopping = True
            self._lock.notify_all()
        self._watch.stop()
        until = self._clock.monotonic() + timeout
        for lane in list(self.lanes.values()):
            if lane.thread is not None:
                lane.thread.join(max(0.0, until - self._clock.monotonic()))

    # -- runners ---------------------------------------------------------------------------

    def new_unit(self) -> int:
        return next(self._units)

    def add(self, runner: PlannedPipeline) -> None:
        """Carry a runner's units from now on, in its home lanes."""
        with self._lock:
            self._assignment.add(runner)
            self._lock.notify_all()

    def remove(self, runner: PlannedPipeline) -> None:
        """Forget a runner; every lane closes what it holds of it. No effect for one that was not added, even if another
        of its name was."""
        with self._lock:
            for lane in self._assignment.remove(runner):
                lane.closings.append(runner.closing_unit(self.new_unit()))
            self._lock.notify_all()

    def renew(self, runner: PlannedPipeline) -> None:
        """Close what lanes hold of a runner, before it is built anew there."""
        with self._lock:
            for lane in self._assignment.holding(runner):
                lane.closings.append(runner.closing_unit(self.new_unit()))
            self._lock.notify_all()

    def lanes_of(self, runner: PlannedPipeline) -> tuple[str, ...]:
        """The lanes that carry a runner's units now; empty: it was not added."""
        with self._lock:
            placement = self._assignment.placement(runner)
            return () if placement is None else placement.lanes

    def ready(self, runner: PlannedPipeline) -> None:
        """A runner's outcomes are settled and committed: its partitions may be planned again."""
        with self._lock:
            placement = self._assignment.placement(runner)
            if placement is not None and placement.express_seconds is not None and not runner.busy:
                self._assignment.go_home(runner)
            for lane in self.lanes.values():
                lane.returning.discard(runner)
            self._lock.notify_all()

    def wake(self, runner: PlannedPipeline) -> None:
        """An idle pipeline has something to do."""
        with self._lock:
            self._assignment.wake(runner)
            self._lock.notify_all()

    def dedicate(self, runner: PlannedPipeline, *, on: bool) -> None:
        """Move a pipeline to the dedicated lanes, or home. The first one starts these lanes, and stays at home until
        one of them is warm."""
        with self._lock:
            not_started: list[Lane] = []
            if on:
                not_started, self._not_started = self._not_started, []
                self._assignment.dedicate(runner)
            else:
                self._assignment.go_home(runner)
            self._lock.notify_all()
        self._start_behind(not_started)

    def isolate(self, runner: PlannedPipeline) -> None:
        """A pipeline has suspects: they run alone."""
        with self._lock:
            self._assignment.isolate(runner)
            self._lock.notify_all()

    def cancel(self, units: set[int]) -> None:
        """End the workers that hold these units and wait until they are gone; no event is to blame. Every unit that
        they held is lost, those of other pipelines too. Blocks for seconds."""
        for lane, _ in self._holding(units):
            lane.worker.end("cancelled")

    def stop_units(self, units: set[int]) -> None:
        """Ask these units to begin no further act, without waiting; their outcomes come as usual."""
        for lane, mine in self._holding(units):
            lane.worker.stop_units(mine)

    def _holding(self, units: set[int]) -> list[tuple[Lane, set[int]]]:
        """The lanes that hold any of these units, with those that each holds."""
        with self._lock:
            held = [(lane, units & set(lane.owners)) for lane in self.lanes.values()]
        return [(lane, mine) for lane, mine in held if mine]

    # -- a lane's thread -------------------------------------------------------------------

    def _run_lane(self, lane: Lane) -> None:
        while self.run_window(lane):
            pass

    def run_window(self, lane: Lane) -> bool:
        """Wait for the lane's next window, run it and pass its outcomes on; False: the lane is to end."""
        try:
            request = self._next_window(lane)
            if request is None:
                return False
            result = lane.worker.run(request)
            if request.retiring:
                lane.worker.recycle()
            self._end_window(lane, request, result)
        except Exception:
            # F29: without its thread every pipeline of the lane would stand still.
            log.exception("a lane failed; it goes on", lane=lane.name)
            self._lose_orphans(lane)
            self._clock.sleep(_FAULT_PAUSE)
        return True

    def _lose_orphans(self, lane: Lane) -> None:
        """Units that were planned and not sent, or came back and were not delivered, are planned again."""
        with self._lock:
            orphans = frozenset(lane.owners) - set(lane.worker.units)
            lost = LostUnits(orphans, {}, None, "the lane failed")
            losses = self._losses(lane, lost)
            lane.returning = set()
        for runner, units in losses.items():
            self._lose(runner, units, lost)

    def _next_window(self, lane: Lane) -> WindowRequest | None:
        """Block until the lane has something to run; None when it is to end."""
        with self._lock:
            returned = self._clock.monotonic()
            while not (self._stopping and not lane.closings and not lane.detached):
                step = self._step(lane, returned, self._clock.monotonic())
                if isinstance(step, WindowRequest):
                    return step
                self._lock.wait(max(0.001, step))
            return None

    def _step(self, lane: Lane, returned: float, now: float) -> WindowRequest | float:
        """The lane's next window, or the seconds after which to look again."""
        worker = lane.worker
        if worker.tainted and not worker.detached and not self._stopping:
            waits = self._settles(lane) and now < returned + _SETTLING
            return returned + _SETTLING - now if waits else self._retiring_window(lane)
        patience = _STRAGGLERS if lane.mostly_back else _STRAGGLERS_MOST
        if lane.returning and now < returned + patience:
            return min(returned + patience - now, self._soonest(lane, now))
        if worker.outage.waiting and not self._stopping:
            return worker.outage.until - now
        units = list(self._plan(lane))
        if units or lane.closings or worker.detached:
            return self._window(lane, units, now)
        rests_until = worker.used_at + (_TIDY_UP if lane.held > RESTING_AT_MOST else KEEP_WARM)
        if now >= rests_until or not worker.warm.is_set() or lane.warm_ups:
            return self._empty_window(lane)
        return min(rests_until - now, self._soonest(lane, now))

    def _settles(self, lane: Lane) -> bool:
        """Whether the lane belongs to a pipeline whose worker has yet to hear that the last failures are settled."""
        return is_reserved(lane) and any(runner.busy for runner in lane.pipelines)

    def _soonest(self, lane: Lane, now: float) -> float:
        """Seconds until a pipeline of the lane that waits for a time may be planned again."""
        times = [at - now for runner in lane.pipelines if (at := runner.wake_at) is not None]
        return max(0.01, min(times, default=KEEP_WARM))

    def _empty_window(self, lane: Lane) -> WindowRequest:
        lane.warm_ups = max(0, lane.warm_ups - 1)
        self._observe(lambda: self._metrics.spark_jobs.labels("keep-warm").inc())
        request = lane.worker.request(0.0, [])
        lane.worker.begin(request, None)
        return request

    def _retiring_window(self, lane: Lane) -> WindowRequest:
        """Closes what the process holds, before it is replaced; external sources hear what is settled."""
        closings, lane.closings = lane.closings, []
        closings += [runner.closing_unit(self.new_unit()) for runner in lane.pipelines if runner.alone]
        request = lane.worker.request(0.0, closings, retiring=True)
        lane.worker.begin(request, _UNBLAMED + max((unit.seconds for unit in closings), default=0.0))
        return request

    def _plan(self, lane: Lane) -> Iterator[UnitRequest]:
        if lane.role == "isolation":
            yield from self._plan_isolated(lane)
            return
        fresh = 0
        for runner in sorted(lane.pipelines, key=lambda runner: runner.name):
            placement = self._assignment.placement(runner)
            if placement is None or lane.name not in placement.lanes or self._stopping:
                continue
            is_fresh = self._backend.is_local and (runner.name, runner.revision) not in lane.worker.known
            if is_fresh and fresh >= _FRESH:
                continue
            plan = partial(runner.plan, seconds=placement.express_seconds)
            unit = self._planned(lane, runner, partial(plan, lane.name, placement.lanes, self.new_unit))
            if unit is not None:
                fresh += is_fresh
                yield unit

    def _plan_isolated(self, lane: Lane) -> Iterator[UnitRequest]:
        """One unit and no other, of the pipeline that has waited longest."""
        if lane.detached or self._stopping:
            # One that hangs must not die with another.
            return
        for runner in sorted(lane.pipelines, key=lambda runner: lane.turns.get(runner, 0.0)):
            if not runner.has_isolated:
                lane.forget(runner)
                lane.closings.append(runner.closing_unit(self.new_unit()))
                continue
            unit = self._planned(lane, runner, partial(runner.plan_isolated, lane.name, self.new_unit))
            if unit is not None:
                lane.turns[runner] = self._clock.monotonic()
                unit.seconds = min(unit.seconds, _ISOLATED)
                yield unit
                return

    def _planned(
        self, lane: Lane, runner: PlannedPipeline, plan: Callable[[], UnitRequest | None]
    ) -> UnitRequest | None:
        try:
            unit = plan()
        except Exception:
            # I7: the others of the lane go on.
            log.exception("a pipeline cannot be planned", pipeline=runner.name, lane=lane.name)
            return None
        if unit is None:
            return None
        lane.owners[unit.unit] = runner
        return lane.worker.without_known_blueprint(unit)

    def _window(self, lane: Lane, units: list[UnitRequest], now: float) -> WindowRequest:
        if lane.role == "shared" and len(units) >= _CROWD:
            for unit in units:
                unit.seconds = max(_CROWD_SECONDS, unit.seconds)
        closings, lane.closings = lane.closings, []
        lengths = [unit.seconds for unit in (*units, *closings)]
        if not units and lane.detached:
            lengths.append(_COLLECT)
        lane.returning = {lane.owners[unit.unit] for unit in units}
        lane.carried = len(lane.returning)
        self._observe(lambda: self._metrics.spark_jobs.labels("window").inc())
        # A runner plans only with a sign of life from its group that is less than a third of the session old.
        not_after = now + self._session_timeout * 2 / 3 if self._backend.is_local else None
        request = lane.worker.request(max(lengths, default=0.0), closings + units, not_after=not_after)
        # Units that are still being built or acting have their time, too, though the window does not carry them: on a
        # busy machine Spark may take longer to begin a job than a window lasts.
        lane.worker.begin(request, max((runner.timeout for runner in lane.owners.values()), default=_UNBLAMED))
        return request

    # -- outcomes --------------------------------------------------------------------------

    def _end_window(self, lane: Lane, request: WindowRequest, result: WindowResult) -> None:
        outcome, lost = result.outcome, result.lost
        done: list[tuple[PlannedPipeline, UnitOutcome]] = []
        with self._lock:
            if outcome is not None:
                lane.held = outcome.held
                for unit in outcome.units:
                    owner = (
                        lane.owners.get(unit.unit) if unit.status == "detached" else lane.owners.pop(unit.unit, None)
                    )
                    if owner is not None:
                        done.append((owner, unit))
                        if unit.status == "detached":
                            # It comes back with a later window, for which no other one waits.
                            lane.returning.discard(owner)
            else:
                lane.returning = set()
            lane.returning = {runner for runner in lane.returning if self._assignment.knows(runner)}
            losses = self._losses(lane, lost)
        for runner, unit in done:
            self._deliver(runner, unit, request.seconds)
        if lost is not None:
            for runner, units in losses.items():
                self._lose(runner, units, lost)
        if outcome is not None:
            self._observe(lambda: self._measure(request, outcome))

    def _losses(self, lane: Lane, lost: LostUnits | None) -> dict[PlannedPipeline, set[int]]:
        found: dict[PlannedPipeline, set[int]] = defaultdict(set)
        for unit in lost.units if lost is not None else ():
            if (owner := lane.owners.pop(unit, None)) is not None:
                found[owner].add(unit)
        return found

    def _deliver(self, runner: PlannedPipeline, unit: UnitOutcome, seconds: float) -> None:
        try:
            runner.deliver(unit, seconds)
        except Exception:
            log.exception("an outcome cannot be delivered", pipeline=runner.name, unit=unit.unit)

    def _lose(self, runner: PlannedPipeline, units: set[int], lost: LostUnits) -> None:
        try:
            runner.lose(units, lost.suspects, stage=lost.stage, reason=lost.reason)
        except Exception:
            log.exception("a loss cannot be delivered", pipeline=runner.name, units=sorted(units))

    def _measure(self, request: WindowRequest, outcome: WindowOutcome) -> None:
        if request.units:
            self._metrics.window_seconds.observe(outcome.seconds)
        self._metrics.add_registry_calls(outcome.registry_calls)

    def _observe(self, measure: Callable[[], None]) -> None:
        """L3: a metric that raises changes nothing."""
        try:
            measure()
        except Exception:
            log.exception("a metric cannot be counted")

    # -- overdue windows -------------------------------------------------------------------

    def _end_overdue(self) -> None:
        """A window always ends. One that does not has an action that holds its process: the process is killed, and the
        in-flight log names the event."""
        with self._lock:
            overdue = [lane for lane in self.lanes.values() if lane.worker.overdue]
        for lane in overdue:
            log.warning("a window does not end; its process is killed", lane=lane.name)
            lane.worker.end("overdue")
