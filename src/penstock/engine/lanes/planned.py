"""What the dispatcher needs of a pipeline's runner: the seam between lanes and pipelines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from penstock.core.dead_letter import Stage
from penstock.pipeline.in_flight_log import InFlight
from penstock.pipeline.messages import UnitOutcome, UnitRequest


class PlannedPipeline(Protocol):
    """A pipeline that lanes carry. The dispatcher calls everything here but `deliver` and `lose` while it holds its own
    lock: the methods may take the runner's lock, must not block, and must not call the dispatcher.

    The dispatcher tells runners apart by identity, never by name: a reloaded pipeline has two runners for a while.
    """

    @property
    def name(self) -> str: ...

    @property
    def revision(self) -> int: ...

    @property
    def pinned(self) -> bool:
        """Its action objects stay in lanes of their own."""
        ...

    @property
    def alone(self) -> bool:
        """It has an external source and shares its lane with no other pipeline."""
        ...

    @property
    def parallelism(self) -> int:
        """Number of action objects of a pinned pipeline."""
        ...

    @property
    def timeout(self) -> float:
        """Seconds that its action may spend on one event."""
        ...

    @property
    def is_dedicated(self) -> bool:
        """It wants dedicated lanes: it has a backlog, or needs much of a core."""
        ...

    @property
    def has_isolated(self) -> bool:
        """Some partition has suspects that are to be run alone."""
        ...

    @property
    def busy(self) -> bool:
        """Units are in flight."""
        ...

    @property
    def wake_at(self) -> float | None:
        """Monotonic time, in the future, at which a unit may be planned again; None: it waits for no time."""
        ...

    def plan(
        self, lane: str, lanes: tuple[str, ...], new_unit: Callable[[], int], *, seconds: float | None = None
    ) -> UnitRequest | None:
        """A unit for the next window of `lane`; `lanes` are all lanes that carry the pipeline now, among which it
        divides its partitions. `seconds` is the length of an express window."""
        ...

    def plan_isolated(self, lane: str, new_unit: Callable[[], int]) -> UnitRequest | None:
        """A unit with one partition that has suspects, to run alone."""
        ...

    def closing_unit(self, unit: int) -> UnitRequest:
        """Closes what a lane's process holds of the pipeline."""
        ...

    def deliver(self, outcome: UnitOutcome, seconds: float) -> None:
        """Accept an outcome, `detached` ones included; called from any thread and returns at once."""
        ...

    def lose(
        self, units: set[int], suspects: dict[int, list[InFlight]] | None, *, stage: Stage | None, reason: str
    ) -> None:
        """These units of the pipeline end without an outcome; called from any thread and returns at once.

        `suspects` is the in-flight log of *all* units that were lost with the worker, those of other pipelines
        included: a neighbour may explain the death. None: there is no log (clusters). `stage` is what an event fails
        with that is found to be the cause; None: no event is to blame.
        """
        ...
