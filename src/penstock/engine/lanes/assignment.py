"""Where pipelines live: the lanes of an instance, and which of them each flow is at home in, or away to, now."""

from __future__ import annotations

import itertools
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING

from penstock.core.metrics import Metrics
from penstock.engine.lanes.lane import Lane, Role
from penstock.engine.spark.context import Spark, WindowLost
from penstock.worker.protocol import WindowOutcome, WindowRequest

if TYPE_CHECKING:
    from penstock.engine.pipelines.planner import Planned
    from penstock.engine.pipelines.runner import PipelineRunner

_EXPRESS_LEAST = 1.05
"""A cold member may sit in a blocking poll of one second: its commit must not be wanted before that."""


class Placement(ABC):
    """Gives flows their lanes; one lock guards flows and lanes alike."""

    def __init__(self, spark: Spark, metrics: Metrics, session_timeout: float) -> None:
        self._spark = spark
        self._metrics = metrics
        self._session_timeout = session_timeout
        self._lock = threading.Condition()
        self._flows: dict[str, PipelineRunner] = {}
        self._units = itertools.count(1)
        self._stopping = False
        self._started = False
        self._pinned_at_most = 1
        self._resting: list[Lane] = []
        """Lanes for heavy work, as long as there was none."""
        self.lanes: dict[str, Lane] = {}

    @abstractmethod
    def next_window(self, lane: Lane) -> WindowRequest | None:
        """Block until the lane has something to run; None when it shall end."""

    @abstractmethod
    def window_done(self, lane: Lane, request: WindowRequest, outcome: WindowOutcome) -> None:
        """A lane's window has ended well."""

    @abstractmethod
    def window_lost(self, lane: Lane, request: WindowRequest, error: WindowLost) -> None:
        """A lane's worker has died."""

    def _new_lane(self, role: Role) -> Lane:
        name = f"{role}-{sum(lane.role == role for lane in self.lanes.values())}"
        lane = self.lanes[name] = Lane(name, role, self, self._spark)
        return lane

    def _hot_lanes(self, flow: Planned) -> list[Lane]:
        """Those that are warm already; the flow stays at home as long as there is none."""
        warm = [lane for lane in self.lanes.values() if lane.role == "hot" and lane.warm.is_set()]
        return warm or [self.lanes[name] for name in flow.home]

    def new_unit(self) -> int:
        return next(self._units)

    def add(self, flow: PipelineRunner) -> None:
        """Give a flow its home."""
        with self._lock:
            self._flows[flow.name] = flow
            homes = []
            for lane in self._homes(flow):
                lane.flows.add(flow.name)
                homes.append(lane.lane)
            flow.home = flow.lanes = tuple(dict.fromkeys(homes))

    def _homes(self, flow: PipelineRunner) -> list[Lane]:
        if not flow.pinned:
            return [
                min((lane for lane in self.lanes.values() if lane.role == "carpool"), key=lambda lane: len(lane.flows))
            ]
        homes: list[Lane] = []
        while len(homes) < flow.parallelism:
            homes.append(self._pinned_home(flow))
            homes[-1].flows.add(flow.name)
        return homes

    def _pinned_home(self, flow: PipelineRunner) -> Lane:
        """A lane of its own for an action object as long as there may be more lanes, then the one with the fewest."""
        lanes = [lane for lane in self.lanes.values() if lane.role == "pinned" and not self._is_taken(lane)]
        free = [lane for lane in lanes if not lane.flows]
        if not free and (flow.alone or len(lanes) < max(1, self._pinned_at_most)):
            lane = self._new_lane("pinned")
            if self._started:
                lane.start()
            return lane
        return min(free or lanes, key=lambda lane: len(lane.flows))

    def _is_taken(self, lane: Lane) -> bool:
        """Whether it belongs to a flow that shares with nobody."""
        return any((flow := self._flows.get(name)) is not None and flow.alone for name in lane.flows)

    def remove(self, flow: PipelineRunner) -> None:
        """Forget a flow; every lane that holds something of it lets go."""
        with self._lock:
            self._flows.pop(flow.name, None)
            for lane in self.lanes.values():
                if flow.name in lane.flows:
                    lane.flows.discard(flow.name)
                    lane.returning.discard(flow.name)
                    lane.closings.append(flow.closing_unit(self.new_unit()))
            self._lock.notify_all()

    def renew(self, flow: Planned) -> None:
        """Let go of what lanes hold of a flow, before it is made anew there."""
        with self._lock:
            for lane in self.lanes.values():
                if flow.name in lane.flows:
                    lane.closings.append(flow.closing_unit(self.new_unit()))
            self._lock.notify_all()

    def wake(self, flow: Planned) -> None:
        """A cold flow has something to do: at home if the lane is free, else by an express window until the home
        lane's next one."""
        with self._lock:
            home = self.lanes[flow.home[0]]
            if not flow.pinned and home.busy_until is not None:
                now = time.monotonic()
                end = home.busy_until
                flow.express_seconds = (
                    end - now if end - now >= _EXPRESS_LEAST else max(_EXPRESS_LEAST, end - now + 1.0)
                )
                self._move(flow, [self._quietest("express")])
            else:
                self._move(flow, [self.lanes[name] for name in flow.home])
            self._lock.notify_all()

    def heat(self, flow: Planned, *, hot: bool) -> None:
        """Move a flow to the lanes for heavy work, or home again."""
        with self._lock:
            self._move(flow, self._hot_lanes(flow) if hot else [self.lanes[name] for name in flow.home])
            self._lock.notify_all()

    def quarantine(self, flow: Planned) -> None:
        """A worker died over this flow: part of it runs alone for a while."""
        with self._lock:
            lane = next((lane for lane in self.lanes.values() if lane.role == "quarantine"), None)
            if lane is None:
                lane = self._new_lane("quarantine")
                lane.start()
            lane.flows.add(flow.name)
            self._lock.notify_all()

    def _quietest(self, role: Role) -> Lane:
        return min(
            (lane for lane in self.lanes.values() if lane.role == role),
            key=lambda lane: (lane.busy_until is not None, len(lane.flows)),
        )

    def _move(self, flow: Planned, lanes: Iterable[Lane]) -> None:
        chosen = list(lanes)
        for lane in chosen:
            lane.flows.add(flow.name)
        for lane in self.lanes.values():
            # A lane of its own keeps what it holds of the flow until it is evicted there: the way back is short.
            if lane not in chosen and lane.lane not in flow.home and lane.role != "quarantine":
                lane.flows.discard(flow.name)
        flow.lanes = tuple(lane.lane for lane in chosen)

    def ready(self, flow: Planned) -> None:
        """The flow has settled and committed; its partitions may be planned again."""
        with self._lock:
            if flow.express_seconds is not None and not flow.busy:
                flow.express_seconds = None
                self._move(flow, [self.lanes[name] for name in flow.home])
            for lane in self.lanes.values():
                lane.returning.discard(flow.name)
            self._lock.notify_all()
