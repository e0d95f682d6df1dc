"""A lane's process that executes runs: one thread claims, watches and writes, others execute; windows come and go."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from typing import Final

from penstock.core.deadline import Deadline
from penstock.core.errors import PenstockError, Unavailable
from penstock.core.failpoints import reach
from penstock.store.database import Database
from penstock.store.errors import StoreError
from penstock.store.work.claims import PER_WORKFLOW, Claims
from penstock.store.work.results import Report, Results, RunEnd
from penstock.worker.protocol import RunsOutcome, RunsRequest
from penstock.worker.run_threads import ActiveRun, ReportBuffer, RunThreadPool
from penstock.worker.step_actions import make_action
from penstock.workflows.definitions import Definitions
from penstock.workflows.states import derived

_THREADS: Final = 32
"""Runs side by side in one process."""
_AT_ONCE: Final = 200
"""Runs in one claim at most."""
_WRITE_EVERY: Final = 0.025
"""Seconds between two writes: what ends in between is written together."""
_CLAIM_EVERY: Final = 0.05
_CLAIM_SLOWLY: Final = 0.5
"""Seconds between two claims that find nothing, at last."""
_BEAT_EVERY: Final = 2.0
_LINGER: Final = 0.25
"""Seconds without anything to do after which a window returns before its time."""
_GRACE: Final = 1.0
"""Seconds that a step has to end by itself when its time is over: commands and requests do."""
_RECENT: Final = 0.25
_AGAIN: Final = 0.5
"""Seconds to wait where the store is away."""
_ISOLATED: Final = "penstock.worker.isolated"


class RunExecutor:
    """The one object of its kind in a process."""

    def __init__(self, request: RunsRequest) -> None:
        self.token = request.token
        database = Database.connect(request.url, create=False)
        self._claims, self._results = Claims(database, derived), Results(database, derived)
        self._definitions = Definitions(database, make_action, _ISOLATED)
        self._notes = ReportBuffer()
        self._crew = RunThreadPool(_THREADS, self._definitions.execution, self._notes, self._landed)
        self._flights: dict[str, ActiveRun] = {}
        self._threads_of: set[ActiveRun] = set()
        """Flights that have a thread, or wait for one."""
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._turned = threading.Condition()
        self._claims_until = 0.0
        self._next_claim = self._next_write = self._next_beat = 0.0
        self._pause = _CLAIM_EVERY
        self._recent: deque[tuple[float, int]] = deque()
        self._busy_at = time.monotonic()
        self._away: str | None = None
        self._more = False
        self._looked = False
        """It has asked for runs since the window began."""
        self._claimed = 0
        self._ended: Counter[str] = Counter()
        threading.Thread(target=self._control, name="runs", daemon=True).start()

    # -- windows ---------------------------------------------------------------------------

    def window(self, request: RunsRequest, deadline: Deadline, *, detach: bool) -> RunsOutcome:
        """Claim runs until the deadline; back earlier where there are none. Runs go on between windows if they may."""
        claimed = self._claimed
        self._definitions.key = request.key
        self._busy_at = time.monotonic()
        self._pause, self._next_claim = _CLAIM_EVERY, 0.0
        self._looked = False
        self._claims_until = deadline.at if request.claims else 0.0
        self._wake.set()
        with self._turned:
            while not self._may_return(deadline, detach=detach, claims=request.claims, before=claimed):
                self._turned.wait(0.05)
        self._claims_until = 0.0
        ended, self._ended = self._ended, Counter()
        return RunsOutcome(
            self.token,
            self._claimed - claimed,
            dict(ended),
            len(self._flights),
            self._more,
            self._away,
        )

    @property
    def tainted(self) -> bool:
        """Whether threads hang that nobody waits for."""
        with self._lock:
            return any(flight.given_up for flight in self._threads_of)

    def _may_return(self, deadline: Deadline, *, detach: bool, claims: bool, before: int) -> bool:
        if not self._flights:
            if deadline.expired or not claims or self.tainted or self._away is not None:
                return True
            fruitless = self._looked and self._claimed == before
            return fruitless or time.monotonic() > self._busy_at + _LINGER
        return detach and deadline.expired

    # -- the loop --------------------------------------------------------------------------

    def _control(self) -> None:
        while True:
            if self._wake.wait(self._until_next()) and not self._notes.is_empty:
                # What ends together is written together.
                time.sleep(max(0.0, self._next_write - time.monotonic()))
            self._wake.clear()
            try:
                self._write()
                self._watch()
                self._beat()
                self._claim()
                self._away = None
            except Unavailable as error:
                self._away = error.message
                self._next_write = self._next_claim = self._next_beat = time.monotonic() + _AGAIN
            except PenstockError as error:
                # Refused: nothing that waiting would help, and nothing to end for.
                self._away = error.message
                self._next_claim = self._next_beat = time.monotonic() + _AGAIN
            with self._turned:
                self._turned.notify_all()

    def _until_next(self) -> float:
        now = time.monotonic()
        times = [now + _CLAIM_SLOWLY]
        if not self._notes.is_empty:
            times.append(self._next_write)
        if self._flights:
            times.append(self._next_beat)
        if now < self._claims_until:
            times.append(self._next_claim)
        return max(0.001, min(times) - now)

    def _write(self) -> None:
        now = time.monotonic()
        if self._notes.is_empty or now < self._next_write:
            return
        report = self._notes.take()
        reach("before-report")
        try:
            refused = self._written(report)
        except BaseException:
            # To write the same again is safe.
            self._notes.put_back(report)
            raise
        reach("after-report")
        self._next_write = time.monotonic() + _WRITE_EVERY
        for end in report.ends:
            self._flights.pop(end.id, None)
        for run in refused:
            self._let_go(run)
        self._ended.update(end.state for end in report.ends if end.id not in refused)
        if report.ends:
            self._recent.append((time.monotonic(), len(report.ends)))
            self._busy_at = time.monotonic()

    def _written(self, report: Report) -> set[str]:
        """Write a report; the runs in it that are not ours any more."""
        try:
            return self._results.write(self.token, report)
        except StoreError:
            return self._write_apart(report)

    def _write_apart(self, report: Report) -> set[str]:
        """The store refuses something in it: the others are written, and the run that it belongs to ends of it."""
        refused: set[str] = set()
        for run in report.runs:
            part = report.only({run})
            try:
                refused |= self._results.write(self.token, part)
            except StoreError as error:
                at = time.time_ns() // 1_000
                flight = self._flights.get(run)
                if flight is not None:
                    flight.ended = True
                    if flight.execution is not None:
                        flight.execution.cancel()
                end = RunEnd(
                    id=run,
                    state="exception",
                    error_type=type(error).__name__,
                    final_dataclip_id=None,
                    started_at=part.starts.get(run, at),
                    finished_at=at,
                )
                refused |= self._results.write(self.token, Report(ends=[end]))
                self._flights.pop(run, None)
        return refused

    def _watch(self) -> None:
        """Runs whose time is over end, whatever their thread is doing."""
        now = time.monotonic()
        for flight in list(self._flights.values()):
            execution = flight.execution
            if execution is None or now < execution.deadline.at + _GRACE:
                continue
            end = execution.give_up("kill", "TimeoutError", "the run took longer than it may, and was killed")
            if end is not None and not flight.ended:
                flight.ended = True
                self._notes.end(end)
            flight.given_up = True
        with self._lock:
            for flight in self._threads_of:
                # Those that someone else has ended are no flights any more; their threads have the same time.
                if flight.ended and flight.execution is not None and now > flight.execution.deadline.at + _GRACE:
                    flight.given_up = True

    def _beat(self) -> None:
        now = time.monotonic()
        if not self._flights or now < self._next_beat:
            return
        self._next_beat = now + _BEAT_EVERY
        held = self._results.beat(self.token)
        for run in [run for run, flight in self._flights.items() if run not in held and not flight.ended]:
            self._let_go(run)

    def _let_go(self, run: str) -> None:
        """Someone else has ended it: cancelled, or taken for lost."""
        flight = self._flights.pop(run, None)
        if flight is not None:
            flight.ended = True
            if flight.execution is not None:
                flight.execution.cancel()

    def _claim(self) -> None:
        now = time.monotonic()
        wanted = self._room(now)
        if now >= self._claims_until or now < self._next_claim or wanted < 1 or self.tainted:
            return
        claimed = self._claims.claim(self.token, wanted)
        reach("after-claim")
        self._looked = True
        for claim in claimed:
            flight = self._flights[claim.id] = ActiveRun(claim)
            with self._lock:
                self._threads_of.add(flight)
            self._crew.begin(flight)
        self._claimed += len(claimed)
        self._more = len(claimed) >= min(wanted, PER_WORKFLOW)
        if claimed:
            self._busy_at, self._pause = time.monotonic(), _CLAIM_EVERY
            self._next_claim = self._busy_at + (0.0 if self._more else _CLAIM_EVERY)
        else:
            self._next_claim = time.monotonic() + self._pause
            self._pause = min(_CLAIM_SLOWLY, self._pause * 1.5)

    def _room(self, now: float) -> int:
        """How many more runs this process can begin soon: as many as it has threads, and as it ended a moment ago."""
        while self._recent and self._recent[0][0] < now - _RECENT:
            self._recent.popleft()
        quick = min(_AT_ONCE, sum(count for _, count in self._recent))
        room = min(_AT_ONCE, _THREADS + quick - len(self._flights))
        # A few at a time cost as much as many.
        return room if room >= _THREADS // 2 or now >= self._next_claim + _CLAIM_EVERY else 0

    def _landed(self, flight: ActiveRun) -> None:
        with self._lock:
            self._threads_of.discard(flight)
        self._wake.set()
