"""Runs of workflows on this instance: lanes that execute them, woken when there are runs, and what becomes of runs
whose worker is gone. An instance without work costs one query every half second."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Collection, Iterable
from typing import Final, Protocol

import structlog

from penstock.config.secret_values import known_cipher
from penstock.config.settings import Settings
from penstock.core.clock import SYSTEM, Clock
from penstock.core.errors import PenstockError, Unavailable
from penstock.core.ids import new_id
from penstock.core.interval import IntervalGate
from penstock.core.metrics import Metrics
from penstock.core.threads import THREADS, Thread, Threads
from penstock.engine.lanes.lane_worker import KEEP_WARM, LaneWorker, WindowBackend
from penstock.store import Store
from penstock.store.work.claims import Claims
from penstock.store.work.losing import Losses, Lost
from penstock.worker.protocol import RunsOutcome, RunsRequest, WindowOutcome, WindowRequest
from penstock.workflows.bell import Bell
from penstock.workflows.states import derived

log = structlog.get_logger("penstock.runs")

_WINDOW: Final = 2.0
"""Seconds of a window; how long a stop may have to wait for it."""
_LATE: Final = 25.0
"""Seconds that a window may be late on a local master, where it leaves its runs behind: after that a step holds it that
lets no other thread run."""
_STARTING: Final = 175.0
"""The same for the first window of a process, which has to be started: on a busy machine that takes a while."""
_RESTS: Final = (0.0, 0.5, 1.0, 2.0, 4.0)
"""Seconds that a lane rests after windows in which it found nothing: runs may wait for others to end."""
_WOKEN: Final = 0.5
"""Seconds that it rests at most when it hears of new runs."""
_LOOK_EVERY: Final = 0.5
"""Seconds between two queries for runs that other instances or people make."""
_SWEEP_EVERY: Final = 5.0
_SILENT: Final = 30.0
"""Seconds without a heartbeat after which a run's worker counts as gone; they come every two."""
_ASK_AGAIN: Final = 1.0
_FAULT_PAUSE: Final = 1.0


class RunStore(Protocol):
    """What the scheduler asks the store; raises `Unavailable` while that does not answer."""

    def waiting(self) -> bool:
        """Whether there are runs to claim."""
        ...

    def any_workflow(self) -> bool: ...

    def lose(self, tokens: Collection[str]) -> Iterable[Lost]:
        """Mark the runs that these processes held as lost."""
        ...

    def lose_silent(self, seconds: float) -> Iterable[Lost]:
        """Mark the runs without a heartbeat for so long as lost; silence counts only while the store is reached."""
        ...

    def note_outage(self) -> None:
        """The store did not answer."""
        ...


class StoredRuns:
    """`RunStore` on the store's tables."""

    def __init__(self, store: Store) -> None:
        claims, losses = Claims(store.database, derived), Losses(store.database, derived)
        self.waiting, self.any_workflow = claims.waiting, claims.any_workflow
        self.lose, self.lose_silent = losses.lose, losses.lose_silent
        self.note_outage = losses.note_outage


class RunBackend(WindowBackend, Protocol):
    """Spark, as far as runs need it."""

    @property
    def cores(self) -> int: ...

    @property
    def bell(self) -> str | None:
        """Socket at which workers announce new runs; None on clusters, from where it cannot be reached."""
        ...


class RunLane:
    """A lane that executes runs. The scheduler's lock guards everything here; `worker` says for itself."""

    def __init__(self, worker: LaneWorker, *, detach: bool, clock: Clock) -> None:
        self.worker = worker
        self.thread: Thread | None = None
        self.wanted = False
        """There may be runs to claim."""
        self.warm_wanted = False
        """Its process should be there."""
        self.in_window = False
        self.rests_until = 0.0
        self.active = 0
        """Runs that its process is executing."""
        self.token: str | None = None
        """By which its process claims."""
        self._fruitless = 0
        self._detach, self._clock = detach, clock

    @property
    def claims(self) -> bool:
        """Whether its process may begin runs: one with a hung thread is replaced when its runs have ended."""
        return not self.worker.tainted

    def begin(self, runs: RunsRequest, seconds: float) -> WindowRequest:
        self.wanted = self.warm_wanted = False
        self.in_window = True
        request = self.worker.request(seconds, [], runs=runs)
        # F8: where runs cannot be left behind, a window lasts as long as its longest run; each run has a time-out.
        patience = None if not self._detach else _STARTING if self.worker.is_new else _LATE
        self.worker.begin(request, patience)
        return request

    def accept(self, request: WindowRequest, done: RunsOutcome) -> str | None:
        """Note how the window went; the token of the process that this one has replaced."""
        former = self.token if self.token not in (None, done.token) else None
        self.token, self.active, self.in_window = done.token, done.flying, False
        if done.claimed or done.flying:
            self._fruitless = 0
            self.wanted = self.wanted or bool(done.claimed)
        elif request.seconds:
            self._fruitless = min(self._fruitless + 1, len(_RESTS) - 1)
        self.rests_until = self._clock.monotonic() + (1.0 if done.away else _RESTS[self._fruitless])
        return former

    def hear(self) -> None:
        """New runs were made."""
        self.rests_until = min(self.rests_until, self.worker.used_at + (_WOKEN if self._fruitless > 1 else 0.0))

    def forget(self) -> None:
        """Its process is gone."""
        self.token, self.active, self.in_window = None, 0, False


class RunScheduler:
    """One per instance. A thread looks for runs; each lane has a thread from its first window on."""

    def __init__(
        self,
        instance: str,
        settings: Settings,
        store: RunStore,
        backend: RunBackend,
        metrics: Metrics,
        *,
        clock: Clock = SYSTEM,
        threads: Threads = THREADS,
    ) -> None:
        self._instance, self._settings, self._backend, self._metrics = instance, settings, backend, metrics
        self._store, self._clock, self._threads = store, clock, threads
        self._lock = threads.condition()
        self._numbers = itertools.count(1)
        self.lanes: list[RunLane] = []
        self._gone: set[str] = set()
        """Tokens of processes that are gone, whose runs are not marked yet."""
        self._stopping = False
        self._bell: Bell | None = None
        self._gate = IntervalGate(clock)
        self._kept_waiting = 0
        """Looks in a row at which runs waited while the first lane was in a window."""
        self._looking: Thread | None = None

    def start(self) -> None:
        """Spark has started: begin to look for runs."""
        cores, local = self._backend.cores, self._backend.is_local
        for number in range(cores if local else max(1, cores // 4)):
            worker = LaneWorker(f"runs-{number}", self._backend, clock=self._clock, threads=self._threads)
            self.lanes.append(RunLane(worker, detach=local, clock=self._clock))
        if self._backend.bell is not None:
            # Without it runs begin half a second later.
            with contextlib.suppress(OSError):
                self._bell = Bell(self._backend.bell)
        self._looking = self._threads.start("runs", self._look, owner="RunScheduler", ends="at `stop`")

    def stop(self, timeout: float) -> bool:
        """Begin no more runs and let those in flight end; those left after `timeout` are ended and marked as lost.
        True: none was left."""
        until = self._clock.monotonic() + timeout
        with self._lock:
            self._stopping = True
            self._lock.notify_all()
        for lane in self.lanes:
            if lane.thread is not None:
                lane.thread.join(max(0.1, until - self._clock.monotonic()))
        left = [lane for lane in self.lanes if lane.active or (lane.thread is not None and lane.thread.is_alive())]
        for lane in left:
            lane.worker.end("cancelled")
            with self._lock:
                self._gone |= {lane.token} if lane.token else set()
        if self._looking is not None:
            self._looking.join(2 * _LOOK_EVERY + 1.0)
        self._mark_lost()
        if self._bell is not None:
            self._bell.close()
        return not left

    # -- a lane's thread -------------------------------------------------------------------

    def _run_lane(self, lane: RunLane) -> None:
        while self.run_window(lane):
            pass

    def run_window(self, lane: RunLane) -> bool:
        """Wait for the lane's next window and run it; False: the lane is to end."""
        try:
            request = self._next_window(lane)
            if request is None:
                return False
            result = lane.worker.run(request)
            if result.outcome is not None:
                self._accept(lane, request, result.outcome)
            else:
                self._lose(lane, request)
            if lane.worker.tainted and not lane.active:
                # A thread hangs in the process, and its other runs have ended.
                lane.worker.recycle()
                with self._lock:
                    self._forget(lane)
        except Exception:
            # F29: without its thread no run of the lane would ever end.
            log.exception("a lane of runs failed; it goes on", lane=lane.worker.name)
            with self._lock:
                lane.in_window = False
            self._clock.sleep(_FAULT_PAUSE)
        return True

    def _next_window(self, lane: RunLane) -> WindowRequest | None:
        """Block until the lane has something to do; None when it is to end."""
        with self._lock:
            while not (self._stopping and not lane.active):
                now = self._clock.monotonic()
                if lane.active or (lane.wanted and now >= lane.rests_until):
                    self._observe("runs")
                    claims = not self._stopping and lane.claims
                    return lane.begin(self._request(claims=claims), _WINDOW)
                if lane.warm_wanted:
                    self._observe("keep-warm")
                    return lane.begin(self._request(claims=False), 0.0)
                self._lock.wait(max(0.01, lane.rests_until - now) if lane.wanted else None)
            return None

    def _request(self, *, claims: bool) -> RunsRequest:
        token = f"{self._instance}/{next(self._numbers)}-{new_id()}"
        api = self._settings.api
        return RunsRequest(self._settings.store_url, self._key(), token, claims, tuple(api.allow), tuple(api.networks))

    def _key(self) -> str | None:
        try:
            cipher = known_cipher(self._settings.home.expanduser(), self._clock.environ)
        except PenstockError as error:
            # Runs that need a secret say so; the others need not wait.
            log.error("the key of the secrets cannot be used", reason=str(error))
            return None
        return None if cipher is None else cipher.text

    def _observe(self, kind: str) -> None:
        with contextlib.suppress(Exception):
            # L3: a metric that raises changes nothing.
            self._metrics.spark_jobs.labels(kind).inc()

    def _accept(self, lane: RunLane, request: WindowRequest, outcome: WindowOutcome) -> None:
        done = outcome.runs
        if done is None:
            # `LaneWorker` refuses such an outcome.
            raise AssertionError("a window of runs without its outcome")
        with self._lock:
            former = lane.accept(request, done)
            if former is not None:
                self._gone.add(former)
            if done.more:
                self._wake_another()
        if done.away:
            log.warning("runs wait", lane=lane.worker.name, reason=done.away)
        with contextlib.suppress(Exception):
            for state, count in done.ended.items():
                self._metrics.runs.labels(state).inc(count)

    def _lose(self, lane: RunLane, request: WindowRequest) -> None:
        """The worker is gone: the runs that it held are lost at once."""
        with self._lock:
            if request.runs is not None:
                # It may have been a new process, which had no other token yet.
                self._gone.add(request.runs.token)
            self._forget(lane)
            lane.wanted = True
            again = max(_ASK_AGAIN, lane.worker.outage.until - self._clock.monotonic())
            lane.rests_until = self._clock.monotonic() + again
        self._mark_lost()

    def _forget(self, lane: RunLane) -> None:
        self._gone |= {lane.token} if lane.token else set()
        lane.forget()

    # -- looking for runs ------------------------------------------------------------------

    def _look(self) -> None:
        while not self._stopping:
            try:
                self.look(rung=self._heard())
            except Unavailable as error:
                # L6: while the store does not answer no heartbeat can be written (F7).
                self._store.note_outage()
                log.debug("the store does not answer", reason=error.message)
            except Exception as error:
                # F29: without this thread no run would ever begin again.
                log.exception("runs cannot be looked for", reason=str(error))
                self._clock.sleep(_LOOK_EVERY)
            self._end_overdue()

    def _heard(self) -> bool:
        if self._bell is None:
            self._clock.sleep(_LOOK_EVERY)
            return False
        return self._bell.wait(_LOOK_EVERY)

    def look(self, *, rung: bool) -> None:
        """Look for runs to begin and for lost ones. `rung`: new runs were announced."""
        # Where the bell rings all the time, too, runs that are kept waiting are noticed (F30).
        waiting = self._store.waiting() if self._gate.is_due("waiting", _LOOK_EVERY) or not rung else None
        if waiting is False:
            self._kept_waiting = 0
        if rung or waiting:
            self._wake(rung=rung, waiting=bool(waiting))
        if self._gate.is_due("sweep", _SWEEP_EVERY):
            self._report(self._store.lose_silent(_SILENT))
            self._keep_warm()
        self._mark_lost()

    def _end_overdue(self) -> None:
        for lane in self.lanes:
            if lane.worker.overdue:
                log.warning("a step holds its process, which is ended", lane=lane.worker.name)
                lane.worker.end("overdue")

    def _wake(self, *, rung: bool, waiting: bool) -> None:
        """The first lane that may begin runs gets them; another one helps where runs are kept waiting."""
        with self._lock:
            first = next((lane for lane in self.lanes if lane.claims), self.lanes[0])
            first.wanted = True
            if rung:
                first.hear()
            if waiting and first.in_window:
                self._kept_waiting += 1
                if self._kept_waiting > 1:
                    self._wake_another()
            self._begin(first)

    def _wake_another(self) -> None:
        now = self._clock.monotonic()
        idle = [lane for lane in self.lanes if not lane.in_window and not lane.wanted and now >= lane.rests_until]
        if idle and not self._stopping:
            idle[0].wanted = True
            self._begin(idle[0])

    def _keep_warm(self) -> None:
        """Where there are workflows the first lane is ready for their runs."""
        with self._lock:
            first = self.lanes[0]
            used_at = first.worker.used_at
            due = not first.in_window and (not used_at or self._clock.monotonic() > used_at + KEEP_WARM)
        if due and self._store.any_workflow():
            with self._lock:
                first.warm_wanted = True
                self._begin(first)

    def _begin(self, lane: RunLane) -> None:
        if lane.thread is None:
            lane.thread = self._threads.start(
                f"lane-{lane.worker.name}",
                lambda: self._run_lane(lane),
                owner="RunScheduler",
                ends="at `stop`, when its runs have",
            )
        self._lock.notify_all()

    # -- lost runs -------------------------------------------------------------------------

    def _mark_lost(self) -> None:
        """Mark the runs of processes that are gone; those that cannot be marked now are marked later."""
        with self._lock:
            tokens, self._gone = self._gone, set()
        if not tokens:
            return
        try:
            self._report(self._store.lose(tokens))
        except Exception as error:  # noqa: BLE001 - whatever it is, the tokens must not be forgotten
            log.warning("lost runs are not marked yet", reason=str(error))
            with self._lock:
                self._gone |= tokens

    def _report(self, lost: Iterable[Lost]) -> None:
        for each in lost:
            with contextlib.suppress(Exception):
                self._metrics.runs.labels("lost").inc()
            log.warning("run lost", run=each.run, error_type=each.error_type, rerun=each.rerun)
