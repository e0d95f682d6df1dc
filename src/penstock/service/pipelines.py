"""Pausing, resuming, stopping and restarting pipelines: said in the store, obeyed by every instance."""

from __future__ import annotations

import getpass
import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from penstock.config.problems import did_you_mean
from penstock.core.clock import format_time
from penstock.core.deadline import Deadline
from penstock.core.errors import ConfigError, Unavailable
from penstock.core.status import PipelineStatus, State
from penstock.service.status import pipeline_statuses
from penstock.store import Desired, DesiredRow, StateRow, Store

OBEY_SECONDS: Final = 20.0
"""How long commands wait for instances: they look every half second, but may have work to finish first."""
_SILENCE: Final = 12.0
"""An instance not heard of for so long is not waited for: six heartbeats were missed."""
_LOOK_EVERY: Final = 0.2


class NotObeyed(Unavailable):
    """An instance did not do in time what is wanted; it is kept, and obeyed later."""

    code = "not_obeyed"


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineView:
    """What a pipeline does and what it should do, in the shape that `penstock pipelines list --json` promises."""

    pipeline: str
    state: State
    reason: str | None
    desired: Desired
    set_by: str | None = None
    set_at: str | None = None
    resume_at: str | None = None
    rate_limit: float | str | None = None
    """Events per second said by command, `none` for no limit; None: as the spec says."""
    instances: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def person() -> str:
    """Who gives a command."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


def list_pipelines(
    store: Store, names: Iterable[str] | None = None, *, known: Mapping[str, PipelineStatus] | None = None
) -> list[PipelineView]:
    """All pipelines the store knows, or these; `known` statuses need not be asked for."""
    desired, states = store.desired.all(), store.pipelines.states()
    running = _live(store, states)
    statuses = {status.pipeline: status for status in pipeline_statuses(store)} if known is None else known
    chosen = _known(store, states, desired) if names is None else list(names)
    return [_view(name, statuses.get(name), desired.get(name), running.get(name, [])) for name in chosen]


def _view(
    name: str, status: PipelineStatus | None, row: DesiredRow | None, running: Sequence[StateRow]
) -> PipelineView:
    state: State = status.state if status else "stopped"
    reason = status.reason if status else "no instance runs it"
    instances = [each.instance for each in running]
    if row is None:
        return PipelineView(pipeline=name, state=state, reason=reason, desired="running", instances=instances)
    return PipelineView(
        pipeline=name,
        state=state,
        reason=reason,
        desired=row.state,
        set_by=row.set_by,
        set_at=format_time(row.set_at),
        resume_at=None if row.resume_at is None else format_time(row.resume_at),
        rate_limit="none" if row.rate_limit == 0 else row.rate_limit,
        instances=instances,
    )


def chosen_pipelines(store: Store, names: Sequence[str], *, everything: bool) -> list[str]:
    """The pipelines a command is about; an error names the one that does not exist."""
    known = _known(store, store.pipelines.states(), store.desired.all())
    if everything == bool(names):
        raise ConfigError("name pipelines, or say --all", received=list(names), allowed=known)
    for name in names:
        if name not in known:
            raise ConfigError(
                f"pipeline {name!r} does not exist: no instance has run it",
                received=name,
                allowed=known,
                hint=did_you_mean(name, known),
            )
    return known if everything else list(dict.fromkeys(names))


def _known(store: Store, states: Iterable[StateRow], desired: Iterable[str]) -> list[str]:
    said = {row.pipeline for row in states if row.state != "invalid"}
    return sorted(said.union(desired, store.pipelines.with_specs()))


def pause(store: Store, names: Sequence[str], *, by: str, reason: str | None = None) -> dict[str, int]:
    """Keep the partitions and run nothing. The revision to wait for, by pipeline, as of the other commands."""
    return {name: store.desired.set(name, "paused", by=by, reason=reason).revision for name in names}


def stop(store: Store, names: Sequence[str], *, by: str, reason: str | None = None) -> dict[str, int]:
    """Leave the group, until somebody resumes."""
    return {name: store.desired.set(name, "stopped", by=by, reason=reason).revision for name in names}


def restart(store: Store, names: Sequence[str], *, by: str, reason: str | None = None) -> dict[str, int]:
    """Leave the group, let go of everything, and begin anew."""
    return {name: store.desired.set(name, "running", by=by, reason=reason, restart=True).revision for name in names}


def resume(store: Store, names: Sequence[str], *, by: str, reason: str | None = None) -> dict[str, int]:
    """Run again, whatever it was that stopped it."""
    running = _live(store, store.pipelines.states())
    done = {}
    for name in names:
        row = store.desired.get(name)
        # What an instance could not run for a reason of its own it tries again only when it begins anew.
        broken = any(each.state == "failed" for each in running.get(name, [])) and (
            row is None or row.state != "failed"
        )
        done[name] = store.desired.set(name, "running", by=by, reason=reason, restart=broken).revision
    return done


def limit_rate(store: Store, name: str, rate: float | None, *, by: str) -> dict[str, int]:
    """Events per second over all instances; 0: no limit; None: as the spec says."""
    return {name: store.desired.limit(name, rate, by=by).revision}


def wait_obeyed(store: Store, revisions: Mapping[str, int], timeout: float = OBEY_SECONDS) -> None:
    """Return when every running instance has done it; `NotObeyed` names those that have not."""
    deadline = Deadline.after(timeout)
    while late := disobedient(store, revisions):
        if deadline.expired:
            said = [f"{row.pipeline} on {row.instance} ({row.state}{_why(row)})" for row in late]
            raise NotObeyed(
                f"not done within {timeout:g} s: {', '.join(said)}",
                received=[row.instance for row in late],
                hint="it is kept in the store, and done as soon as they can",
            )
        time.sleep(_LOOK_EVERY)


def disobedient(store: Store, revisions: Mapping[str, int]) -> list[StateRow]:
    """What the instances say that run one of these pipelines and have not carried out its revision."""
    running = _live(store, store.pipelines.states())
    return [
        row for name, revision in revisions.items() for row in running.get(name, []) if (row.revision or 0) < revision
    ]


def _live(store: Store, states: Iterable[StateRow]) -> dict[str, list[StateRow]]:
    """What instances that live say, by pipeline."""
    alive = {instance.id for instance in store.instances.alive(_SILENCE)}
    rows: dict[str, list[StateRow]] = {}
    for row in states:
        if row.instance in alive and row.state != "invalid":
            rows.setdefault(row.pipeline, []).append(row)
    return rows


def _why(row: StateRow) -> str:
    return f": {row.reason}" if row.reason else ""
