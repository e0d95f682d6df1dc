"""Lanes of events: which pipelines each one carries, and how many lanes an instance has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

from penstock.config.settings import EngineSettings, carpool_lanes
from penstock.core.threads import Thread
from penstock.engine.lanes.lane_worker import LaneWorker
from penstock.engine.lanes.planned import PlannedPipeline
from penstock.pipeline.messages import UnitRequest

Role = Literal["shared", "dedicated", "express", "pinned", "isolation"]
"""Shared lanes carry many pipelines, dedicated ones those with a backlog; the express lane carries pipelines that have
just been woken until their shared lane's next window; pinned lanes hold the action objects of class plug-ins; the
isolation lane runs suspects alone."""

_PINNED_AT_MOST = 8
"""Pinned lanes; each is a process of some 80 MB. Further action objects share them."""


@dataclass(slots=True, frozen=True, kw_only=True)
class LaneSizes:
    """How many lanes of each role an instance has; `pinned` ones are made as they are needed, up to this number."""

    shared: int
    dedicated: int
    pinned: int
    express: int = 1

    @classmethod
    def local(cls, wanted: EngineSettings, cores: int) -> Self:
        """Lanes are processes beside each other, which the system shares the cores out to."""
        return cls(
            shared=carpool_lanes(wanted),
            dedicated=cores if wanted.hot_lanes is None else wanted.hot_lanes,
            pinned=_PINNED_AT_MOST if wanted.pinned_lanes is None else wanted.pinned_lanes,
        )

    @classmethod
    def cluster(cls, wanted: EngineSettings, cores: int) -> Self:
        """A window holds a core of the cluster while it runs, so lanes beyond the cores would wait for each other."""
        share = max(1, cores // 4)
        shared = wanted.carpool_lanes or min(share, 4)
        pinned = min(share, _PINNED_AT_MOST) if wanted.pinned_lanes is None else wanted.pinned_lanes
        rest = max(1, cores - shared - pinned - 1)
        return cls(shared=shared, dedicated=rest if wanted.hot_lanes is None else wanted.hot_lanes, pinned=pinned)


class Lane:
    """The driver's side of a lane. The dispatcher's lock guards everything here; `worker` says for itself."""

    def __init__(self, name: str, role: Role, worker: LaneWorker) -> None:
        self.name = name
        self.role = role
        self.worker = worker
        self.thread: Thread | None = None
        """Runs the lane's windows, from its start to the dispatcher's stop."""
        self.pipelines: set[PlannedPipeline] = set()
        """Runners that have or had units here: the lane's process may hold something of them."""
        self.owners: dict[int, PlannedPipeline] = {}
        """Units in flight here, detached ones included, with their runner. By identity: an outcome must not reach the
        successor of a runner that was reloaded."""
        self.turns: dict[PlannedPipeline, float] = {}
        """When each was carried last, where one has to wait for another."""
        self.returning: set[PlannedPipeline] = set()
        """Those of the last window that have not committed yet; the next window waits for them a little."""
        self.closings: list[UnitRequest] = []
        """Units that close what the process holds of removed pipelines."""
        self.held = 0
        """Pipelines that the lane's process holds, as far as known."""
        self.warm_ups = 0
        """Empty windows that are still to be run before the JVM is quick."""
        self.carried = 0
        """Pipelines in the last window."""

    @property
    def busy_until(self) -> float | None:
        return self.worker.busy_until

    @property
    def detached(self) -> set[int]:
        return self.worker.detached

    @property
    def mostly_back(self) -> bool:
        return len(self.returning) * 4 <= self.carried

    def forget(self, runner: PlannedPipeline) -> None:
        """The runner gets no more units here; units in flight still belong to it."""
        self.pipelines.discard(runner)
        self.returning.discard(runner)
        self.turns.pop(runner, None)
