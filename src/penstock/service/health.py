"""Whether an instance is ready, and what keeps it from being so."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from penstock.core.status import State, Trouble

Code = Trouble | Literal["starting", "stopping", "pipelines"]

READY_STATES: frozenset[State] = frozenset({"running", "idle", "paused", "stopped"})
"""A paused or stopped pipeline is as a person wants it; the instance is no less ready for it."""


class Observed(Protocol):
    """The part of a pipeline's view that health looks at."""

    @property
    def name(self) -> str: ...
    @property
    def state(self) -> State: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineHealth:
    pipeline: str
    state: State
    ready: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The answer of `/health/ready`: states and codes only, for nobody has to log in to see it. Sentences, which may
    repeat what a target or an event said, are for those who may see the pipeline."""

    ready: bool
    codes: list[Code] = field(default_factory=list)
    """Why the instance is not ready."""
    pipelines: list[PipelineHealth] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        pipelines = [{"pipeline": p.pipeline, "state": p.state, "ready": p.ready} for p in self.pipelines]
        return {"ready": self.ready} | ({"codes": self.codes} if self.codes else {}) | {"pipelines": pipelines}


STARTING = Health(ready=False, codes=["starting"])


class Observable(Protocol):
    """The part of an instance that health looks at."""

    def snapshot(self) -> Sequence[Observed]: ...
    def troubles(self) -> Sequence[Trouble]: ...
    def failed_everywhere(self) -> Collection[str]: ...


def instance_health(instance: Observable, *, stopping: bool = False) -> Health:
    """The health of an instance that runs, or that ends."""
    health = health_of(instance.snapshot(), instance.troubles(), instance.failed_everywhere())
    if not stopping:
        return health
    # Its pipelines are stopped one by one, as if somebody had said so: that makes it no instance to send anybody to.
    return replace(health, ready=False, codes=["stopping", *health.codes])


def health_of(
    views: Iterable[Observed], troubles: Sequence[Trouble] = (), failed_everywhere: Collection[str] = ()
) -> Health:
    """Ready when every pipeline works, waits for events, or rests because a person said so; and when nothing is wrong
    with what all pipelines need.

    A pipeline that has failed on all instances is told of and holds none back: a rollout would wait for a person. One
    that has failed here, or cannot be used, does: the instance that is to go may still run it.
    """
    pipelines = [PipelineHealth(pipeline=v.name, state=v.state, ready=v.state in READY_STATES) for v in views]
    wrong = [p for p in pipelines if not p.ready]
    holding = any(not (p.state == "failed" and p.pipeline in failed_everywhere) for p in wrong)
    codes: list[Code] = list(troubles)
    if holding:
        codes.append("pipelines")
    return Health(ready=not codes, codes=codes, pipelines=pipelines)
