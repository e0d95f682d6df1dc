"""Lanes: each runs windows one after the other, in a worker process of its own on local masters."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Literal

import structlog

from penstock.engine.spark import Spark, WindowLost
from penstock.worker.protocol import UnitRequest, WindowOutcome, WindowRequest

if TYPE_CHECKING:
    from penstock.engine.dispatcher import Dispatcher

log = structlog.get_logger("penstock.lane")

Role = Literal["carpool", "hot", "express", "pinned"]


class Lane(threading.Thread):
    """The driver's side of a lane. The dispatcher's lock guards everything but `run`."""

    def __init__(self, name: str, role: Role, dispatcher: Dispatcher, spark: Spark) -> None:
        super().__init__(name=f"lane-{name}", daemon=True)
        self.lane = name
        self.role = role
        self.flows: set[str] = set()
        self.returning: set[str] = set()
        """Flows of the last window that have not committed yet; the next window waits for them a little."""
        self.detached: set[int] = set()
        self.closings: list[UnitRequest] = []
        self.busy_until: float | None = None
        """When the window that runs now will end."""
        self.used_at = 0.0
        self.pid: int | None = None
        self.warm = threading.Event()
        self._dispatcher = dispatcher
        self._spark = spark

    def run(self) -> None:
        while (request := self._dispatcher.next_window(self)) is not None:
            try:
                outcome = self._spark.run(request)
            except WindowLost as error:
                log.warning("window lost", lane=self.lane, reason=error.message)
                self._dispatcher.window_lost(self, request, error)
            else:
                self.warm.set()
                self._dispatcher.window_done(self, request, outcome)

    def took(self, outcome: WindowOutcome) -> None:
        self.pid = outcome.pid
        self.detached = set(outcome.running)
        self.busy_until = None
        self.used_at = time.monotonic()

    def kill_worker(self, timeout: float = 5.0) -> None:
        """End the lane's process and wait until it is gone: what it was doing must not go on while another instance repeats it."""
        pid = self.pid
        if pid is None or not self._spark.is_local:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
            end = time.monotonic() + timeout
            while time.monotonic() < end and _alive(pid):
                time.sleep(0.01)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
