"""Runs of workflows on this instance: lanes that execute them, woken when there is something to do, and what becomes of
runs whose worker is gone. An instance without work costs one look at the store every half second."""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import time
from collections.abc import Iterable
from typing import Final

import structlog

from penstock.config.secret_values import known_cipher
from penstock.config.settings import Settings
from penstock.core.errors import PenstockError, Unavailable
from penstock.core.ids import new_id
from penstock.core.metrics import Metrics
from penstock.engine.runs.lane import WINDOW, RunLane
from penstock.engine.spark.context import Spark
from penstock.store import Store
from penstock.store.work.claims import Claims
from penstock.store.work.losing import Losses, Lost
from penstock.worker.protocol import RunsRequest, WindowOutcome, WindowRequest
from penstock.workflows.bell import Bell
from penstock.workflows.states import derived

log = structlog.get_logger("penstock.runs")

_LOOK_EVERY: Final = 0.5
"""Seconds between two looks at the store, where nobody rings: for runs that other instances or people make."""
_SWEEP_EVERY: Final = 5.0
_SILENT: Final = 30.0
"""Seconds without a heartbeat after which a run's worker counts as gone; they come every two."""
_KEEP_WARM: Final = 45.0
"""Spark drops a worker that was idle for a minute; the first run would wait a second for another."""
_ASK_AGAIN: Final = 1.0


class RunScheduler:
    """One per instance."""

    def __init__(self, instance: str, settings: Settings, store: Store, spark: Spark, metrics: Metrics) -> None:
        self._instance, self._settings, self._spark, self._metrics = instance, settings, spark, metrics
        self._claims = Claims(store.database, derived)
        self._losses = Losses(store.database, derived)
        self._lock = threading.Condition()
        self._numbers = itertools.count(1)
        self._lanes: list[RunLane] = []
        self._gone: set[str] = set()
        """Tokens of processes that are gone, whose runs are not marked yet."""
        self._stopping = False
        self._bell: Bell | None = None
        self._kept_waiting = 0
        self._looking = threading.Thread(target=self._look, name="runs", daemon=True)

    def start(self) -> None:
        """Spark has started: begin to look for runs."""
        cores = self._spark.cores
        count = cores if self._spark.is_local else max(1, cores // 4)
        self._lanes = [RunLane(f"runs-{number}", self, self._spark) for number in range(count)]
        if self._spark.bell is not None:
            # Without it runs begin half a second later.
            with contextlib.suppress(OSError):
                self._bell = Bell(self._spark.bell)
        self._looking.start()

    def stop(self, timeout: float) -> bool:
        """Begin no more runs and let those under way end. What is left then is lost, by our own hand; True: nothing."""
        end = time.monotonic() + timeout
        with self._lock:
            self._stopping = True
            self._lock.notify_all()
        for lane in self._lanes:
            if lane.is_alive():
                lane.join(max(0.1, end - time.monotonic()))
        left = [lane for lane in self._lanes if lane.is_alive() or lane.flying]
        for lane in left:
            lane.end_worker()
            self._gone |= {lane.token} if lane.token else set()
        if self._looking.is_alive():
            self._looking.join(2 * _LOOK_EVERY + 1.0)
        self._settle()
        if self._bell is not None:
            self._bell.close()
        return not left

    # -- lanes -----------------------------------------------------------------------------

    def next_window(self, lane: RunLane) -> WindowRequest | None:
        """Block until the lane has something to do; None when it shall end."""
        with self._lock:
            while True:
                now = time.monotonic()
                if lane.tainted and not lane.flying:
                    # A thread hangs in it, and its neighbours have ended.
                    lane.end_worker()
                    self._mark_gone(lane)
                if self._stopping and not lane.flying:
                    return None
                if lane.flying or (lane.wanted and now >= lane.rests_until):
                    claims = not self._stopping and not lane.tainted
                    self._metrics.spark_jobs.labels("runs").inc()
                    return lane.request(self._request(claims=claims), WINDOW)
                if lane.warm_wanted:
                    self._metrics.spark_jobs.labels("keep-warm").inc()
                    return lane.request(self._request(claims=False), 0.0)
                self._lock.wait(max(0.01, lane.rests_until - now) if lane.wanted else None)

    def _request(self, *, claims: bool) -> RunsRequest:
        token = f"{self._instance}/{next(self._numbers)}-{new_id()}"
        return RunsRequest(self._settings.store_url, self._key(), token, claims)

    def _key(self) -> str | None:
        try:
            cipher = known_cipher(self._settings.home.expanduser(), os.environ)
        except PenstockError as error:
            # RunScheduler that need a secret say so; the others need not wait.
            log.error("the key of the secrets cannot be used", reason=str(error))
            return None
        return None if cipher is None else cipher.text

    def took(self, lane: RunLane, request: WindowRequest, outcome: WindowOutcome) -> None:
        with self._lock:
            former = lane.took(request, outcome)
            if former is not None:
                self._gone.add(former)
            done = outcome.runs
            if done is None:
                return
            for state, count in done.ended.items():
                self._metrics.runs.labels(state).inc(count)
            if done.away:
                log.warning("runs wait for the store", lane=lane.lane, reason=done.away)
            if done.more:
                self._wake_another()

    def lost(self, lane: RunLane, request: WindowRequest) -> None:
        """The worker died: what it held is lost at once."""
        with self._lock:
            if request.runs is not None:
                # It may have been a new process, which had no other token yet.
                self._gone.add(request.runs.token)
            self._mark_gone(lane)
            lane.wanted = True
            lane.rests_until = time.monotonic() + _ASK_AGAIN
        self._settle()

    def _mark_gone(self, lane: RunLane) -> None:
        self._gone |= {lane.token} if lane.token else set()
        lane.forget()

    # -- looking for work ------------------------------------------------------------------

    def _look(self) -> None:
        sweep_at = warm_at = 0.0
        while not self._stopping:
            rung = self._heard()
            try:
                if rung or self._claims.waiting():
                    self._wake(rung=rung)
                else:
                    self._kept_waiting = 0
                now = time.monotonic()
                if now >= sweep_at:
                    sweep_at = now + _SWEEP_EVERY
                    self._tell(self._losses.lose_silent(_SILENT))
                if now >= warm_at:
                    warm_at = now + _SWEEP_EVERY
                    self._keep_warm()
                self._settle()
            except Unavailable as error:
                self._losses.note_outage()
                log.debug("the store does not answer", reason=error.message)
            except PenstockError as error:
                log.error("runs cannot be looked for", reason=str(error))
            for lane in self._lanes:
                if lane.overdue:
                    log.warning("a step holds its process, which is ended", lane=lane.lane)
                    lane.busy_since = time.monotonic()
                    lane.end_worker()

    def _heard(self) -> bool:
        if self._bell is None:
            time.sleep(_LOOK_EVERY)
            return False
        return self._bell.wait(_LOOK_EVERY)

    def _wake(self, *, rung: bool) -> None:
        """The first lane takes what comes; another one helps where runs are kept waiting."""
        with self._lock:
            first = self._lanes[0]
            first.wanted = True
            if rung:
                first.hear()
            if first.busy_since is not None and not rung:
                self._kept_waiting += 1
                if self._kept_waiting > 1:
                    self._wake_another()
            self._begun(first)

    def _wake_another(self) -> None:
        now = time.monotonic()
        idle = [lane for lane in self._lanes if lane.busy_since is None and not lane.wanted and now >= lane.rests_until]
        if idle and not self._stopping:
            idle[0].wanted = True
            self._begun(idle[0])

    def _keep_warm(self) -> None:
        """Where there are workflows the first lane is ready for their runs."""
        with self._lock:
            first = self._lanes[0]
            due = first.busy_since is None and (not first.used_at or time.monotonic() > first.used_at + _KEEP_WARM)
        if due and self._claims.any_workflow():
            with self._lock:
                first.warm_wanted = True
                self._begun(first)

    def _begun(self, lane: RunLane) -> None:
        if not lane.ident:
            lane.start()
        self._lock.notify_all()

    # -- lost runs -------------------------------------------------------------------------

    def _settle(self) -> None:
        """Mark the runs of processes that are gone; those that cannot be marked now are marked later."""
        with self._lock:
            tokens, self._gone = self._gone, set()
        if not tokens:
            return
        try:
            self._tell(self._losses.lose(tokens))
        except PenstockError as error:
            log.warning("lost runs are not marked yet", reason=str(error))
            with self._lock:
                self._gone |= tokens

    def _tell(self, lost: Iterable[Lost]) -> None:
        for each in lost:
            self._metrics.runs.labels("lost").inc()
            log.warning("run lost", run=each.run, error_type=each.error_type, rerun=each.rerun)
