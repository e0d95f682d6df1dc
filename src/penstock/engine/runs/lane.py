"""One lane for runs of workflows: windows as long as there is something to do, in a worker process of its own."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

import structlog

from penstock.engine.lanes.lane import end_process
from penstock.engine.spark.context import Spark, WindowLost
from penstock.pipeline.in_flight_log import writer
from penstock.worker.protocol import RunsRequest, WindowOutcome, WindowRequest

if TYPE_CHECKING:
    from penstock.engine.runs.scheduler import RunScheduler

log = structlog.get_logger("penstock.runs")

WINDOW: Final = 2.0
"""Seconds of a window; how long a stop may have to wait for it."""
_OVERRUN: Final = 30.0
"""Seconds beyond its time after which a window is held by a step that lets no other thread run."""
_STARTING: Final = 180.0
"""The same for the first window of a process, which has to be started: on a busy machine that takes a while."""
_RESTS: Final = (0.0, 0.5, 1.0, 2.0, 4.0)
"""Seconds that a lane rests after windows in which it found nothing: runs may wait for others to end."""
_WOKEN: Final = 0.5
"""Seconds that it rests at most where it is told of new runs."""


class RunLane(threading.Thread):
    """The driver's side. The lock of `Runs` guards everything but `run`."""

    def __init__(self, name: str, runs: RunScheduler, spark: Spark) -> None:
        super().__init__(name=f"lane-{name}", daemon=True)
        self.lane = name
        self.wanted = False
        """There may be runs to claim."""
        self.warm_wanted = False
        """Its process should be there."""
        self.busy_since: float | None = None
        self.used_at = 0.0
        self.rests_until = 0.0
        self.flying = 0
        self.token: str | None = None
        self.tainted = False
        self._fruitless = 0
        self._pid: int | None = None
        self._runs, self._spark = runs, spark

    def run(self) -> None:
        while (request := self._runs.next_window(self)) is not None:
            try:
                outcome = self._spark.run(request)
            except WindowLost as error:
                log.warning("window of runs lost", lane=self.lane, reason=error.message)
                self.end_worker()
                self._runs.lost(self, request)
            else:
                self._runs.took(self, request, outcome)

    def request(self, runs: RunsRequest, seconds: float) -> WindowRequest:
        self.wanted = self.warm_wanted = False
        self.busy_since = time.monotonic()
        local = self._spark.is_local
        return WindowRequest(
            self.lane, seconds, [], detach=local, in_flight_log=self._spark.journal(self.lane), runs=runs
        )

    def took(self, request: WindowRequest, outcome: WindowOutcome) -> str | None:
        """Note how the window went; the token of a process that this one has replaced."""
        now = time.monotonic()
        done = outcome.runs
        assert done is not None  # noqa: S101 - the lane runs no other windows
        former = self.token if self.token not in (None, done.token) else None
        if former is not None and self._pid is not None and self._pid != outcome.pid:
            # Spark took another process for the lane; there must not be two.
            end_process(self._pid)
        self.token, self._pid = done.token, outcome.pid
        self.flying, self.tainted = done.flying, outcome.tainted
        self.busy_since, self.used_at = None, now
        if done.claimed or done.flying:
            self._fruitless = 0
            self.wanted = self.wanted or bool(done.claimed)
        elif request.seconds:
            self._fruitless = min(self._fruitless + 1, len(_RESTS) - 1)
        self.rests_until = now + (1.0 if done.away else _RESTS[self._fruitless])
        return former

    def hear(self) -> None:
        """New runs were made."""
        self.rests_until = min(self.rests_until, self.used_at + (_WOKEN if self._fruitless > 1 else 0.0))

    def forget(self) -> None:
        """Its process is gone."""
        self.token, self._pid = None, None
        self.flying, self.tainted = 0, False
        self.busy_since, self.used_at = None, time.monotonic()

    @property
    def overdue(self) -> bool:
        patience = _STARTING if self._pid is None else _OVERRUN
        return self.busy_since is not None and time.monotonic() > self.busy_since + WINDOW + patience

    def end_worker(self) -> None:
        """End the process, and wait until it is gone: what it held may be run elsewhere."""
        notes = self._spark.journal(self.lane)
        if notes is None:
            self._spark.cancel(self.lane)
            return
        pid = writer(notes) or self._pid
        if pid is not None:
            end_process(pid)
