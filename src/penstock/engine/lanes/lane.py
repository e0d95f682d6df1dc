"""Lanes: each runs windows one after the other, in a worker process of its own on local masters."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Self

import structlog

from penstock.config.settings import EngineSettings, carpool_lanes
from penstock.engine.spark.context import Spark, WindowLost
from penstock.pipeline.in_flight_log import writer
from penstock.pipeline.messages import UnitRequest
from penstock.worker.protocol import WindowOutcome

if TYPE_CHECKING:
    from penstock.engine.lanes.assignment import Placement
    from penstock.engine.pipelines.planner import Planned

log = structlog.get_logger("penstock.lane")

Role = Literal["carpool", "hot", "express", "pinned", "quarantine"]

_PINNED_AT_MOST = 8
"""Lanes of their own for class plug-ins; each is a process of some 80 MB. Further ones share."""


@dataclass(slots=True, frozen=True, kw_only=True)
class LaneSizes:
    """How many lanes of each role an instance has; `pinned` ones are made as they are needed, up to this number."""

    carpool: int
    hot: int
    pinned: int
    express: int = 1

    @classmethod
    def local(cls, wanted: EngineSettings, cores: int) -> Self:
        """Lanes are processes beside each other, which the system shares the cores out to."""
        return cls(
            carpool=carpool_lanes(wanted),
            hot=cores if wanted.hot_lanes is None else wanted.hot_lanes,
            pinned=_PINNED_AT_MOST if wanted.pinned_lanes is None else wanted.pinned_lanes,
        )

    @classmethod
    def cluster(cls, wanted: EngineSettings, cores: int) -> Self:
        """A window holds a core of the cluster while it runs, so lanes beyond the cores would wait for each other."""
        share = max(1, cores // 4)
        carpool = wanted.carpool_lanes or min(share, 4)
        pinned = min(share, _PINNED_AT_MOST) if wanted.pinned_lanes is None else wanted.pinned_lanes
        rest = max(1, cores - carpool - pinned - 1)
        return cls(carpool=carpool, hot=rest if wanted.hot_lanes is None else wanted.hot_lanes, pinned=pinned)


class Lane(threading.Thread):
    """The driver's side of a lane. The dispatcher's lock guards everything but `run`."""

    def __init__(self, name: str, role: Role, dispatcher: Placement, spark: Spark) -> None:
        super().__init__(name=f"lane-{name}", daemon=True)
        self.lane = name
        self.role = role
        self.flows: set[str] = set()
        self.turns: dict[str, float] = {}
        """When each flow was carried last, where one has to wait for another."""
        self.returning: set[str] = set()
        """Flows of the last window that have not committed yet; the next window waits for them a little."""
        self.known: set[tuple[str, int]] = set()
        """Pipelines and revisions whose blueprint the lane's process has."""
        self.held = 0
        """Pipelines that the lane's process holds, as far as known."""
        self.exercises = 0
        """Empty windows to run for practice."""
        self.carried = 0
        """Flows in the last window."""
        self.detached: set[int] = set()
        self.closings: list[UnitRequest] = []
        self.busy_until: float | None = None
        """When the window that runs now will end."""
        self.patience = 0.0
        """Seconds beyond that in which the actions of its units may still be at one event."""
        self.overran = False
        """The worker was killed because its window did not end."""
        self.cancelled = False
        """The worker was killed because its partitions were wanted elsewhere; no event is to blame."""
        self.tainted = False
        """A thread of the worker hangs: the process is replaced once nothing of it is wanted."""
        self.used_at = 0.0
        self.pid: int | None = None
        self.warm = threading.Event()
        self._dispatcher = dispatcher
        self._spark = spark

    def run(self) -> None:
        while (request := self._dispatcher.next_window(self)) is not None:
            began = time.monotonic()
            try:
                outcome = self._spark.run(request)
            except WindowLost as error:
                log.warning("window lost", lane=self.lane, reason=error.message)
                self._dispatcher.window_lost(self, request, error)
            else:
                self.warm.set()
                log.debug(
                    "window",
                    lane=self.lane,
                    units=len(request.units),
                    detached=len(outcome.running),
                    seconds=round(outcome.seconds, 3),
                    job_seconds=round(time.monotonic() - began, 3),
                )
                self._dispatcher.window_done(self, request, outcome)

    def knows(self, flow: Planned) -> bool:
        """Whether the lane's process has made this pipeline."""
        return (flow.name, flow.revision) in self.known

    def slimmed(self, unit: UnitRequest) -> UnitRequest:
        """The unit without its blueprint where the lane's process has it already."""
        key = (unit.pipeline, unit.revision)
        if key in self.known:
            unit.blueprint = b""
        self.known.add(key)
        return unit

    @property
    def mostly_back(self) -> bool:
        return len(self.returning) * 4 <= self.carried

    def took(self, outcome: WindowOutcome) -> None:
        self.tainted = outcome.tainted
        self.held = outcome.held
        if outcome.pid != self.pid:
            # Spark replaced an idle process; what it knew is gone.
            self.known.clear()
        for unit in outcome.units:
            if unit.halt is not None and unit.halt.kind == "unknown":
                self.known.discard((unit.pipeline, unit.revision))
        self.pid = outcome.pid
        self.detached = set(outcome.running)
        self.busy_until = None
        self.used_at = time.monotonic()

    def kill_worker(self) -> None:
        """End the lane's process and wait until it is gone: another one will repeat what it was doing."""
        notes = self._spark.journal(self.lane)
        if notes is None:
            self._spark.cancel(self.lane)
            return
        pid = writer(notes) or self.pid
        if pid is not None:
            self.known.clear()
            end_process(pid)


def end_process(pid: int, timeout: float = 5.0) -> None:
    """Kill a worker and wait until it is gone."""
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
