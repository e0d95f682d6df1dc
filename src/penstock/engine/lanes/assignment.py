"""Which lanes carry which pipeline: its home, and the dedicated or express lanes that it has moved to."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from penstock.core.clock import SYSTEM, Clock
from penstock.engine.lanes.lane import Lane, Role
from penstock.engine.lanes.planned import PlannedPipeline

_EXPRESS_LEAST = 1.05
"""Seconds of an express window at least: an idle runner may sit in a blocking poll of one second, and its commit must
not be wanted before that."""


@dataclass(slots=True)
class Placement:
    """Where one runner is carried."""

    home: tuple[str, ...]
    lanes: tuple[str, ...]
    """Where its units go now."""
    express_seconds: float | None = None
    """Length of its express window; None: it is in no express lane."""


class LaneAssignment:
    """Used under the dispatcher's lock. Everything is kept per runner object: a runner that ends late must not take the
    lanes of its successor away (F10)."""

    def __init__(self, open_lane: Callable[[Role], Lane], *, clock: Clock = SYSTEM) -> None:
        """`open_lane` makes a lane and, once the dispatcher has started, starts it."""
        self.lanes: dict[str, Lane] = {}
        self.pinned_at_most = 1
        self._open, self._clock = open_lane, clock
        self._placements: dict[PlannedPipeline, Placement] = {}

    @property
    def runners(self) -> list[PlannedPipeline]:
        return list(self._placements)

    def knows(self, runner: PlannedPipeline) -> bool:
        return runner in self._placements

    def placement(self, runner: PlannedPipeline) -> Placement | None:
        return self._placements.get(runner)

    def of_role(self, role: Role) -> list[Lane]:
        return [lane for lane in self.lanes.values() if lane.role == role]

    # -- coming and going ------------------------------------------------------------------

    def add(self, runner: PlannedPipeline) -> None:
        """Give a runner its home."""
        if runner in self._placements:
            return
        home = tuple(dict.fromkeys(lane.name for lane in self._homes(runner)))
        for name in home:
            self.lanes[name].pipelines.add(runner)
        self._placements[runner] = Placement(home, home)

    def _homes(self, runner: PlannedPipeline) -> list[Lane]:
        if not runner.pinned:
            return [min(self.of_role("shared"), key=lambda lane: len(lane.pipelines))]
        homes: list[Lane] = []
        while len(homes) < runner.parallelism:
            homes.append(self._pinned_home(runner))
            homes[-1].pipelines.add(runner)
        return homes

    def _pinned_home(self, runner: PlannedPipeline) -> Lane:
        """A lane of its own for an action object as long as there may be more lanes, then the one with the fewest."""
        lanes = [lane for lane in self.of_role("pinned") if not is_reserved(lane)]
        free = [lane for lane in lanes if not lane.pipelines]
        if not free and (runner.alone or len(lanes) < max(1, self.pinned_at_most)):
            return self._open("pinned")
        return min(free or lanes, key=lambda lane: len(lane.pipelines))

    def remove(self, runner: PlannedPipeline) -> list[Lane]:
        """Forget a runner; the lanes whose process may hold something of it. Empty for one that was not added."""
        if self._placements.pop(runner, None) is None:
            return []
        held = self.holding(runner)
        for lane in held:
            lane.forget(runner)
        return held

    def holding(self, runner: PlannedPipeline) -> list[Lane]:
        return [lane for lane in self.lanes.values() if runner in lane.pipelines]

    # -- moving ----------------------------------------------------------------------------

    def go_home(self, runner: PlannedPipeline) -> None:
        if (placement := self._placements.get(runner)) is not None:
            placement.express_seconds = None
            self._move(runner, placement, [self.lanes[name] for name in placement.home])

    def wake(self, runner: PlannedPipeline) -> None:
        """An idle pipeline has something to do: at home if that lane is free, else by an express window that ends with
        the home lane's."""
        placement = self._placements.get(runner)
        if placement is None:
            return
        end = self.lanes[placement.home[0]].busy_until
        if runner.pinned or end is None or not (express := self.of_role("express")):
            self.go_home(runner)
            return
        left = end - self._clock.monotonic()
        placement.express_seconds = left if left >= _EXPRESS_LEAST else max(_EXPRESS_LEAST, left + 1.0)
        quietest = min(express, key=lambda lane: (lane.busy_until is not None, len(lane.pipelines)))
        self._move(runner, placement, [quietest])

    def dedicate(self, runner: PlannedPipeline) -> None:
        """Move to the dedicated lanes that are warm; stay at home as long as there is none."""
        placement = self._placements.get(runner)
        warm = [lane for lane in self.of_role("dedicated") if lane.worker.warm.is_set()]
        if placement is not None and warm:
            placement.express_seconds = None
            self._move(runner, placement, warm)
        else:
            self.go_home(runner)

    def isolate(self, runner: PlannedPipeline) -> None:
        """Part of the pipeline runs alone for a while, besides what runs elsewhere."""
        if runner in self._placements:
            lanes = self.of_role("isolation") or [self._open("isolation")]
            lanes[0].pipelines.add(runner)

    def _move(self, runner: PlannedPipeline, placement: Placement, lanes: Iterable[Lane]) -> None:
        chosen = list(lanes)
        for lane in chosen:
            lane.pipelines.add(runner)
        for lane in self.lanes.values():
            # The home keeps what it holds of the pipeline until it is evicted there: the way back is short.
            if lane not in chosen and lane.name not in placement.home and lane.role != "isolation":
                lane.forget(runner)
        placement.lanes = tuple(lane.name for lane in chosen)


def is_reserved(lane: Lane) -> bool:
    """Whether the lane belongs to a pipeline that shares its lane with no other."""
    return any(runner.alone for runner in lane.pipelines)
