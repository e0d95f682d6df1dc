"""Whether an instance is ready, and which pipeline keeps it from being so."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from penstock.core.status import State

READY_STATES: frozenset[State] = frozenset({"running", "idle", "paused", "stopped"})
"""A paused or stopped pipeline is as a person wants it; the instance is no less ready for it."""


class Observed(Protocol):
    """The part of a pipeline's view that health looks at."""

    @property
    def name(self) -> str: ...
    @property
    def state(self) -> State: ...
    @property
    def reason(self) -> str | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineHealth:
    pipeline: str
    state: State
    reason: str | None
    ready: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The answer of `/health/ready`."""

    ready: bool
    reason: str | None = None
    """Why the instance as a whole is not ready."""
    pipelines: list[PipelineHealth] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        pipelines = [
            {"pipeline": p.pipeline, "state": p.state, "ready": p.ready} | ({"reason": p.reason} if p.reason else {})
            for p in self.pipelines
        ]
        return {"ready": self.ready} | ({"reason": self.reason} if self.reason else {}) | {"pipelines": pipelines}


STARTING = Health(ready=False, reason="starting")


def health_of(views: Iterable[Observed]) -> Health:
    """Ready when every pipeline works, waits for events, or rests because a person said so."""
    pipelines = [
        PipelineHealth(pipeline=v.name, state=v.state, reason=v.reason, ready=v.state in READY_STATES) for v in views
    ]
    unready = [p.pipeline for p in pipelines if not p.ready]
    reason = f"not ready: {', '.join(unready)}" if unready else None
    return Health(ready=not unready, reason=reason, pipelines=pipelines)
