"""States and figures of pipelines, in the shapes that `--json` and the API promise (DESIGN.md section 8)."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Trouble = Literal["store", "spark"]
"""What all pipelines of an instance need, and is away."""
State = Literal["starting", "running", "idle", "waiting", "paused", "failed", "stopping", "stopped", "invalid"]


@dataclass(slots=True, kw_only=True)
class PartitionStatus:
    topic: str
    partition: int
    committed: int | None = None
    end: int | None = None
    lag: int | None = None
    owner: str | None = None
    """Id of the instance that owns the partition."""


@dataclass(slots=True, kw_only=True)
class PipelineStatus:
    pipeline: str
    state: State
    reason: str | None = None
    partitions: list[PartitionStatus] = field(default_factory=list)
    events: int = 0
    failures: int = 0
    dead_letters: int = 0

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(slots=True, kw_only=True)
class PipelineSummary:
    """What a pipeline did in this process, for `run --until-caught-up --json` and `demo --json`."""

    events: int = 0
    acted: int = 0
    filtered: int = 0
    failed: int = 0
    p50_ms: float | None = None
    p99_ms: float | None = None

    def as_dict(self) -> dict[str, Any]:
        counts = {"events": self.events, "acted": self.acted, "filtered": self.filtered, "failed": self.failed}
        return counts | {"latency_ms": {"p50": self.p50_ms, "p99": self.p99_ms}}
