"""What a replay's lanes work on, and where their outcomes go: the part that letters and ranges do differently."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from penstock.core.dead_letter import Stage
from penstock.core.errors import ConfigError, PenstockError, Terminal
from penstock.engine.replay.segment import ReplaySegment
from penstock.pipeline.messages import FailedEvent


class ReplayHalted(PenstockError, Terminal):
    """A replay ended before its end, by itself; what it had done counts."""

    code = "replay-halted"


class PipelineUnusable(ConfigError):
    """Executors cannot build the pipeline."""

    code = "replay-pipeline"


class Work(ABC):
    """Lanes share it."""

    @abstractmethod
    def take(self) -> list[ReplaySegment] | None:
        """Stretches for a lane that is free, one per partition; empty: none at the moment; None: there will be none."""

    @abstractmethod
    def settle(
        self, done: list[tuple[ReplaySegment, set[int]]], failures: list[tuple[ReplaySegment, FailedEvent]]
    ) -> None:
        """Make durable which given records are finished, and what failed; may raise `Unavailable`."""

    @abstractmethod
    def give_back(self, stretches: Iterable[ReplaySegment]) -> None:
        """These are finished, or will not be."""

    @abstractmethod
    def failure_of(self, stretch: ReplaySegment, offset: int, stage: Stage, reason: str) -> FailedEvent | None:
        """The failure of the first event from this offset on, which nobody else can tell of any more; None: the
        stretch has none there."""
