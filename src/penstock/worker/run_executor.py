"""Executes runs of workflows in a lane's process: one thread claims runs, watches them and writes reports, others
execute them; windows of the lane come and go meanwhile."""

from __future__ import annotations

import logging
import threading
from collections import Counter, deque
from dataclasses import dataclass
from typing import Final

from penstock.core.backoff import Backoff
from penstock.core.clock import SYSTEM, Clock
from penstock.core.deadline import Deadline
from penstock.core.errors import PenstockError, Unavailable
from penstock.core.failpoints import reach
from penstock.core.threads import THREADS, Threads
from penstock.store.database import Database
from penstock.store.errors import StoreUnavailable
from penstock.store.work.claims import PER_WORKFLOW, Claims
from penstock.store.work.results import Report, Results, RunEnd
from penstock.worker.protocol import RunsOutcome, RunsRequest
from penstock.worker.run_threads import ActiveRun, ReportBuffer, RunThreadPool
from penstock.worker.step_actions import make_action
from penstock.worker.step_policy import StepPolicy
from penstock.workflows.definitions import Definitions
from penstock.workflows.states import derived

log = logging.getLogger("penstock.runs")

_THREADS: Final = 32
"""Runs side by side in one process."""
_AT_ONCE: Final = 200
"""Runs in one claim at most."""
_WRITE_EVERY: Final = 0.025
"""Seconds between two writes: what ends in between is written together."""
_CLAIM_EVERY: Final = 0.05
_CLAIM_SLOWLY: Final = 0.5
"""Seconds between two claims that find nothing, at last."""
_HEARTBEAT_EVERY: Final = 2.0
_LINGER: Final = 0.25
"""Seconds without anything to do after which a window returns before its time."""
_GRACE: Final = 1.0
"""Seconds that a step has to end by itself when its time is over: commands and requests do."""
_RECENT: Final = 0.25
_AGAIN: Final = 0.5
"""Seconds until the next attempt after the store has failed."""
_PAUSE_AT_MOST: Final = 30.0
"""Seconds for which claims pause at most after runs that could not be prepared."""
_ISOLATED: Final = "penstock.worker.isolated"


@dataclass(slots=True)
class _Pause:
    """Claims that wait because runs could not be prepared."""

    backoff: Backoff
    reason: str


class RunExecutor:
    """One per process. `window` is called by the lane's thread; everything else happens in the control thread."""

    def __init__(self, request: RunsRequest, *, clock: Clock = SYSTEM, threads: Threads = THREADS) -> None:
        self.token = request.token
        database = Database.connect(request.url, create=False)
        self._clock, self._monotonic = clock, clock.monotonic
        self._claims, self._results = Claims(database, derived), Results(database, derived)
        prepare = StepPolicy(request.allowed, request.networks).prepared
        self._definitions = Definitions(database, make_action, _ISOLATED, clock, prepare)
        self._reports = ReportBuffer(clock)
        self._pool = RunThreadPool(
            _THREADS, self._definitions.execution, self._reports, self._thread_finished, clock=clock, threads=threads
        )
        self._active: dict[str, ActiveRun] = {}
        self._with_thread: set[ActiveRun] = set()
        """Runs that have a thread, or wait for one."""
        self._unprepared: list[ActiveRun] = []
        """Runs to be given back."""
        self._pauses: dict[str | None, _Pause] = {}
        """By workflow whose runs could not be prepared, None: all. It is claimed from again when its time has come."""
        self._lock = threading.Lock()
        """Guards the three above."""
        self._wake = threading.Event()
        self._progress = threading.Condition()
        self._claims_until = 0.0
        self._next_claim = self._next_write = self._next_heartbeat = 0.0
        self._claim_interval = _CLAIM_EVERY
        self._recent: deque[tuple[float, int]] = deque()
        self._busy_at = self._monotonic()
        self._away: str | None = None
        """Why the last pass of the control loop failed."""
        self._given_back: str | None = None
        """Why runs were given back in this window."""
        self._more = False
        self._looked = False
        """It has asked for runs since the window began."""
        self._claimed = 0
        self._ended: Counter[str] = Counter()
        threads.start("runs", self._control, owner="RunExecutor", ends="with the lane's process")

    # -- windows ---------------------------------------------------------------------------

    def window(self, request: RunsRequest, deadline: Deadline, *, detach: bool) -> RunsOutcome:
        """Claim and execute runs until the deadline, or until there are none; blocks.

        With `detach` runs in flight go on after it has returned; else it waits for them."""
        claimed = self._claimed
        if self._definitions.key != request.key:
            with self._lock:
                self._pauses.clear()  # what could not be decrypted may be readable now
        self._definitions.key = request.key
        self._busy_at = self._monotonic()
        self._claim_interval, self._next_claim = _CLAIM_EVERY, 0.0
        self._looked, self._given_back = False, None
        self._claims_until = deadline.at if request.claims else 0.0
        self._wake.set()
        with self._progress:
            while not self._may_return(deadline, detach=detach, claims=request.claims, before=claimed):
                self._progress.wait(0.05)
        self._claims_until = 0.0
        ended, self._ended = self._ended, Counter()
        return RunsOutcome(
            self.token,
            self._claimed - claimed,
            dict(ended),
            len(self._active),
            self._more,
            self._away or self._given_back,
        )

    @property
    def tainted(self) -> bool:
        """Whether a thread hangs in a run that has ended."""
        with self._lock:
            return any(run.given_up for run in self._with_thread)

    def _may_return(self, deadline: Deadline, *, detach: bool, claims: bool, before: int) -> bool:
        if self._active:
            return detach and deadline.expired
        if deadline.expired or not claims or self.tainted or self._away is not None or self._given_back is not None:
            return True
        found_nothing = self._looked and self._claimed == before
        return found_nothing or self._monotonic() > self._busy_at + _LINGER

    # -- the control loop ------------------------------------------------------------------

    def _control(self) -> None:
        while True:
            if self._wake.wait(self._until_next()) and not self._reports.is_empty:
                # What ends together is written together.
                self._clock.sleep(max(0.0, self._next_write - self._monotonic()))
            self._wake.clear()
            self.step()

    def step(self) -> None:
        """One pass of the control loop: write reports, end runs whose time is over, give back, heartbeat, claim."""
        try:
            self._write()
            self._end_overdue()
            self._give_back()
            self._heartbeat()
            self._claim()
            self._away = None
        except Unavailable as error:
            self._wait_a_moment(error.message)
        except PenstockError as error:
            log.error("runs: the store refused a statement: %s", error)
            self._wait_a_moment(error.message)
        except Exception as error:
            # L3: an error of one pass must not end the loop, and with it every run of the process.
            log.exception("runs: the control loop failed; it goes on")
            self._wait_a_moment(f"{type(error).__name__}: {error}")
        with self._progress:
            self._progress.notify_all()

    def _wait_a_moment(self, reason: str) -> None:
        self._away = reason
        self._next_write = self._next_claim = self._next_heartbeat = self._monotonic() + _AGAIN

    def _until_next(self) -> float:
        now = self._monotonic()
        times = [now + _CLAIM_SLOWLY]
        if not self._reports.is_empty:
            times.append(self._next_write)
        if self._active:
            times.append(self._next_heartbeat)
        if now < self._claims_until:
            times.append(self._next_claim)
        return max(0.001, min(times) - now)

    def _write(self) -> None:
        if self._reports.is_empty or self._monotonic() < self._next_write:
            return
        report = self._reports.take()
        reach("before-report")
        try:
            refused = self._written(report)
        except BaseException:
            # To write the same again is safe.
            self._reports.put_back(report)
            raise
        reach("after-report")
        now = self._monotonic()
        self._next_write = now + _WRITE_EVERY
        for end in report.ends:
            self._active.pop(end.id, None)
        for run in refused:
            self._abandon(run)
        self._ended.update(end.state for end in report.ends if end.id not in refused)
        if report.ends:
            self._recent.append((now, len(report.ends)))
            self._busy_at = now

    def _written(self, report: Report) -> set[str]:
        """Write a report; the runs in it that this process does not hold any more."""
        try:
            return self._results.write(self.token, report)
        except Unavailable:
            raise
        except Exception:  # noqa: BLE001 - whatever it is, it belongs to one of the runs
            return self._write_each(report)

    def _write_each(self, report: Report) -> set[str]:
        """Write the report run by run: something in it is refused, and ends the run that it belongs to."""
        refused: set[str] = set()
        for run in report.runs:
            part = report.only({run})
            try:
                refused |= self._results.write(self.token, part)
            except Unavailable:
                raise
            except Exception as error:
                log.exception("run %s: its report is refused, and it ends", run)
                at = self._clock.now_us()
                end = RunEnd(
                    id=run,
                    state="exception",
                    error_type=type(error).__name__,
                    final_dataclip_id=None,
                    started_at=part.starts.get(run, at),
                    finished_at=at,
                )
                refused |= self._results.write(self.token, Report(ends=[end]))
                self._abandon(run)
        return refused

    def _end_overdue(self) -> None:
        """End runs whose time is over, whatever their threads are doing."""
        now = self._monotonic()
        for run in list(self._active.values()):
            execution = run.execution
            if execution is None or now < execution.deadline.at + _GRACE:
                continue
            end = execution.give_up("kill", "TimeoutError", "the run took longer than it may, and was killed")
            if end is not None and not run.ended:
                run.ended = True
                self._reports.end(end)
            run.given_up = True
        with self._lock:
            for run in self._with_thread:
                # Runs that were ended by another process are not active any more; their threads have the same time.
                if run.ended and run.execution is not None and now > run.execution.deadline.at + _GRACE:
                    run.given_up = True

    def _give_back(self) -> None:
        """Make runs available again that could not be prepared, and pause the claims that would bring them back."""
        with self._lock:
            unprepared, self._unprepared = self._unprepared, []
        if not unprepared:
            return
        try:
            self._results.give_back(self.token, [run.claim.id for run in unprepared])
        except BaseException:
            with self._lock:
                self._unprepared += unprepared
            raise
        reasons: dict[str | None, str] = {}
        for run in unprepared:
            run.ended = True
            self._active.pop(run.claim.id, None)
            everything = isinstance(run.unprepared, StoreUnavailable)
            reasons[None if everything else run.claim.workflow_id] = str(run.unprepared)
        for workflow, reason in reasons.items():
            self._pause(workflow, reason)

    def _pause(self, workflow: str | None, reason: str) -> None:
        """Claim no runs of a workflow, None: of any, for a while that grows with each failure."""
        with self._lock:
            backoff = Backoff(_AGAIN, _PAUSE_AT_MOST, clock=self._clock)
            pause = self._pauses.setdefault(workflow, _Pause(backoff, reason))
        pause.reason = self._given_back = reason
        seconds = pause.backoff.fail()
        log.warning("runs of workflow %s cannot be begun and wait for %.1f s: %s", workflow or "*", seconds, reason)

    def _heartbeat(self) -> None:
        now = self._monotonic()
        if not self._active or now < self._next_heartbeat:
            return
        self._next_heartbeat = now + _HEARTBEAT_EVERY
        held = self._results.heartbeat(self.token)
        for run in [run for run, each in self._active.items() if run not in held and not each.ended]:
            self._abandon(run)

    def _abandon(self, run: str) -> None:
        """Stop working on a run that has ended by other hands: cancelled, lost, or with a report that is refused."""
        active = self._active.pop(run, None)
        if active is not None:
            active.ended = True
            if active.execution is not None:
                active.execution.cancel()

    def _claim(self) -> None:
        now = self._monotonic()
        wanted = self._room(now)
        if now >= self._claims_until or now < self._next_claim or wanted < 1 or self.tainted:
            return
        with self._lock:
            paused = {workflow: pause for workflow, pause in self._pauses.items() if pause.backoff.waiting}
        if None in paused:
            self._given_back = paused[None].reason
            self._next_claim = now + _CLAIM_SLOWLY
            return
        claimed = self._claims.claim(self.token, wanted, without={workflow for workflow in paused if workflow})
        reach("after-claim")
        self._looked = True
        for claim in claimed:
            run = self._active[claim.id] = ActiveRun(claim)
            with self._lock:
                self._with_thread.add(run)
            self._pool.begin(run)
        self._claimed += len(claimed)
        self._more = len(claimed) >= min(wanted, PER_WORKFLOW)
        now = self._monotonic()
        if claimed:
            self._busy_at, self._claim_interval = now, _CLAIM_EVERY
            self._next_claim = now + (0.0 if self._more else _CLAIM_EVERY)
        else:
            self._next_claim = now + self._claim_interval
            self._claim_interval = min(_CLAIM_SLOWLY, self._claim_interval * 1.5)

    def _room(self, now: float) -> int:
        """How many more runs this process can begin soon: as many as it has threads, and as it ended a moment ago."""
        while self._recent and self._recent[0][0] < now - _RECENT:
            self._recent.popleft()
        quick = min(_AT_ONCE, sum(count for _, count in self._recent))
        room = min(_AT_ONCE, _THREADS + quick - len(self._active))
        # A few at a time cost as much as many.
        return room if room >= _THREADS // 2 or now >= self._next_claim + _CLAIM_EVERY else 0

    def _thread_finished(self, run: ActiveRun) -> None:
        """Called by the run's thread."""
        with self._lock:
            self._with_thread.discard(run)
            if run.unprepared is not None and not run.ended:
                self._unprepared.append(run)
            elif run.execution is not None and self._pauses:
                self._pauses.pop(run.claim.workflow_id, None)
                self._pauses.pop(None, None)
        self._wake.set()
