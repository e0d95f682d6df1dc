"""DataHub's statistics as objects, for code that runs pipelines itself."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

_SHOWN_AS = {"LegacyFilter": "FilterTransformer"}
"""Steps that have another name in DataHub."""


@dataclass
class StepStats:
    """Counts of a filter or transformer."""

    exception_count: int = 0
    filtered_count: int = 0
    processed_count: int = 0

    def as_string(self) -> str:
        return _text(asdict(self))


@dataclass
class ActionStats:
    """Counts of an action."""

    exception_count: int = 0
    success_count: int = 0

    def as_string(self) -> str:
        return _text(asdict(self))


@dataclass
class PipelineStats:
    """Counts of a pipeline; two steps of one class share an entry."""

    started_at: int | None = None
    """Epoch milliseconds."""
    failed_event_count: int = 0
    """Events whose attempts were used up."""
    failed_ack_count: int = 0
    success_count: int = 0
    """Events that were acknowledged: dropped, deferred and failed ones too."""
    filter_stats: dict[str, StepStats] = field(default_factory=dict)
    transformer_stats: dict[str, StepStats] = field(default_factory=dict)
    action_stats: ActionStats = field(default_factory=ActionStats)

    def mark_start(self) -> None:
        self.started_at = int(time.time() * 1000)

    def of_filter(self, step: object) -> StepStats:
        return self.filter_stats.setdefault(_name(step), StepStats())

    def of_transformer(self, step: object) -> StepStats:
        return self.transformer_stats.setdefault(_name(step), StepStats())

    def as_string(self) -> str:
        return _text(asdict(self))

    def pretty_print_summary(self, name: str) -> None:
        """Print what the pipeline of this name did."""
        from penstock.service.statistics import report  # noqa: PLC0415 - the engine is behind it

        print(report(name, asdict(self) | {"started_at": self.started_at or 0}))  # noqa: T201 - it says so

    @classmethod
    def of(cls, stats: Mapping[str, Any]) -> PipelineStats:
        """Those that the engine counted."""
        made = cls(stats["started_at"], stats["failed_event_count"], stats["failed_ack_count"], stats["success_count"])
        made.filter_stats = {name: StepStats(**counts) for name, counts in stats["filter_stats"].items()}
        made.transformer_stats = {name: StepStats(**counts) for name, counts in stats["transformer_stats"].items()}
        made.action_stats = ActionStats(**stats["action_stats"])
        return made


def _name(step: Any) -> str:
    cls = type(getattr(step, "plugin", step)).__name__
    return _SHOWN_AS.get(cls, cls)


def _text(stats: Mapping[str, Any]) -> str:
    return json.dumps(stats, indent=4, sort_keys=True)
