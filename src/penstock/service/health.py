"""Whether an instance is ready, and what keeps it from being so."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
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
    """Why the instance as a whole is not ready, in short."""
    reasons: list[str] = field(default_factory=list)
    """Everything that is wrong, each in a sentence; of an instance that is ready, what no other one could do better."""
    pipelines: list[PipelineHealth] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        pipelines = [
            {"pipeline": p.pipeline, "state": p.state, "ready": p.ready} | ({"reason": p.reason} if p.reason else {})
            for p in self.pipelines
        ]
        why = ({"reason": self.reason} if self.reason else {}) | ({"reasons": self.reasons} if self.reasons else {})
        return {"ready": self.ready} | why | {"pipelines": pipelines}


STARTING = Health(ready=False, reason="starting", reasons=["the instance is starting"])


class Observable(Protocol):
    """The part of an instance that health looks at."""

    def snapshot(self) -> Sequence[Observed]: ...
    def troubles(self) -> Sequence[str]: ...
    def failed_everywhere(self) -> Collection[str]: ...


def instance_health(instance: Observable, *, stopping: bool = False) -> Health:
    """The health of an instance that runs, or that ends."""
    health = health_of(instance.snapshot(), instance.troubles(), instance.failed_everywhere())
    if not stopping:
        return health
    # Its pipelines are stopped one by one, as if somebody had said so: that makes it no instance to send anybody to.
    return replace(health, ready=False, reason="stopping", reasons=["the instance is stopping", *health.reasons])


def health_of(
    views: Iterable[Observed], troubles: Sequence[str] = (), failed_everywhere: Collection[str] = ()
) -> Health:
    """Ready when every pipeline works, waits for events, or rests because a person said so; and when nothing is wrong
    with what all pipelines need.

    A pipeline that has failed on all instances is told of and holds none back: a rollout would wait for a person. One
    that has failed here, or cannot be used, does: the instance that is to go may still run it.
    """
    pipelines = [
        PipelineHealth(pipeline=v.name, state=v.state, reason=v.reason, ready=v.state in READY_STATES) for v in views
    ]
    wrong = [p for p in pipelines if not p.ready]
    holding = [p.pipeline for p in wrong if not (p.state == "failed" and p.pipeline in failed_everywhere)]
    short = [*troubles, *([f"not ready: {', '.join(holding)}"] if holding else [])]
    reasons = [*troubles, *(f"{p.pipeline} is {p.state}{f': {p.reason}' if p.reason else ''}" for p in wrong)]
    return Health(ready=not short, reason="; ".join(short) or None, reasons=reasons, pipelines=pipelines)
