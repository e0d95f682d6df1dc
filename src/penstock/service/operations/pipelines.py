"""Pipelines: what they do, and what they should do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from penstock.core.clock import format_time
from penstock.core.durations import parse_rate
from penstock.core.errors import ConfigError, Unavailable
from penstock.core.status import PipelineStatus
from penstock.service import pipelines as commands
from penstock.service.access import Actor, allows, require_somewhere
from penstock.service.audit import audited
from penstock.service.offsets import cluster_of
from penstock.service.operations.desk import Desk, Snapshot
from penstock.service.operations.models import HistoryEntry, PartitionView, PipelineDetail, PipelineItem
from penstock.service.operations.paging import Page, checked_limit, cursor, place_of
from penstock.service.operations.scoping import instance_name
from penstock.service.operations.versions import known_spec
from penstock.service.skipping import skip_failed
from penstock.service.status import with_lag

_Change = Callable[..., dict[str, int]]


def list_pipelines(
    desk: Desk,
    actor: Actor,
    *,
    state: str | None = None,
    text: str | None = None,
    project: str | None = None,
    limit: int = 100,
    after: str | None = None,
) -> Page[PipelineItem]:
    """By name; those that the actor may see, in one state or with a text in their name."""
    require_somewhere(actor, "pipelines.view")
    checked_limit(limit)
    place = place_of(after, str)
    found = [
        item
        for item in _items(desk, actor)
        if (state is None or item.state == state)
        and (text is None or text.lower() in item.name.lower())
        and (project is None or item.project == project)
        and (place is None or item.name > place[0])
    ]
    more = len(found) > limit
    return Page(items=found[:limit], next=cursor(found[limit - 1].name) if more else None)


def get_pipeline(desk: Desk, actor: Actor, name: str) -> PipelineDetail:
    """One with its spec and partitions."""
    desk.pipeline(actor, "pipelines.view", name)
    now = desk.snapshot()
    kept = now.managed.get(name)
    spec, version, file = known_spec(desk, name)
    return PipelineDetail(
        **_item(actor, now, name).model_dump(),
        spec=spec,
        version=version,
        file=file,
        text=kept.text if kept else None,
        revision=kept.revision if kept else None,
        places=_places(actor, now.status(name)),
    )


def partitions(desk: Desk, actor: Actor, name: str, *, ask: bool = False) -> list[PartitionView]:
    """As the instances last said, or (`ask`) as the cluster says now."""
    desk.pipeline(actor, "pipelines.view", name)
    status = desk.snapshot().status(name)
    if ask:
        status = PipelineStatus(pipeline=name, state=status.state, partitions=list(status.partitions))
        complaints = with_lag([status], [desk.spec(name)])
        if complaints:
            raise Unavailable(complaints[0])
    return _places(actor, status)


def history(desk: Desk, actor: Actor, name: str, *, limit: int = 100) -> list[HistoryEntry]:
    """What happened to it, newest first."""
    desk.pipeline(actor, "pipelines.view", name)
    rows = desk.store.pipelines.history(name, checked_limit(limit))
    return [
        HistoryEntry(
            id=row.id,
            at=format_time(row.at),
            kind=row.kind,
            text=row.text,
            instance=instance_name(actor, row.instance) if row.instance else None,
            data=row.data,
        )
        for row in rows
    ]


def pause(desk: Desk, actor: Actor, name: str, reason: str | None = None, wait: float = 0.0) -> PipelineItem:
    """Keep the partitions and run nothing. `wait` seconds for running instances to obey."""
    return _command(desk, actor, name, "pause", commands.pause, reason=reason, wait=wait)


def stop(desk: Desk, actor: Actor, name: str, reason: str | None = None, wait: float = 0.0) -> PipelineItem:
    """Leave the group, until somebody resumes."""
    return _command(desk, actor, name, "stop", commands.stop, reason=reason, wait=wait)


def restart(desk: Desk, actor: Actor, name: str, reason: str | None = None, wait: float = 0.0) -> PipelineItem:
    """Leave the group, let go of everything, and begin anew."""
    return _command(desk, actor, name, "restart", commands.restart, reason=reason, wait=wait)


def resume(
    desk: Desk, actor: Actor, name: str, reason: str | None = None, wait: float = 0.0, *, skip: bool = False
) -> PipelineItem:
    """Run again; `skip` steps over the event at which THROW stopped."""
    if skip:
        project = desk.pipeline(actor, "pipelines.operate", name)
        spec = desk.spec(name)
        with audited(desk.store, actor, "pipelines.skip", f"pipeline/{name}", project=project) as change:
            change.data["skipped"] = skip_failed(desk.store, cluster_of(spec), spec, by=actor.name)
    return _command(desk, actor, name, "resume", commands.resume, reason=reason, wait=wait)


def limit_rate(desk: Desk, actor: Actor, name: str, rate: str, wait: float = 0.0) -> PipelineItem:
    """Events per second over all instances, as `100/s`; `none`; or `default`: as the spec says."""
    try:
        wanted = {"none": 0.0, "default": None}[rate] if rate in ("none", "default") else parse_rate(rate)
    except ValueError as error:
        raise ConfigError(str(error), received=rate, allowed="100/s, 6000/m, none, default") from None

    def change(store: Any, names: list[str], *, by: str, reason: str | None) -> dict[str, int]:  # noqa: ARG001 - as the other commands
        return commands.limit_rate(store, names[0], wanted, by=by)

    return _command(desk, actor, name, "rate-limit", change, wait=wait, rate=rate)


def _command(
    desk: Desk,
    actor: Actor,
    name: str,
    word: str,
    change: _Change,
    *,
    reason: str | None = None,
    wait: float = 0.0,
    **data: Any,
) -> PipelineItem:
    project = desk.pipeline(actor, "pipelines.operate", name)
    row = desk.store.desired.get(name)
    before = row.state if row else "running"
    if reason is not None:
        data["reason"] = reason
    subject = f"pipeline/{name}"
    with audited(desk.store, actor, f"pipelines.{word}", subject, project=project, before=before, data=data) as done:
        revisions = change(desk.store, [name], by=actor.name, reason=reason)
        row = desk.store.desired.get(name)
        done.after = row.state if row else "running"
    desk.forget()
    if wait:
        commands.wait_obeyed(desk.store, revisions, wait)
    return _item(actor, desk.snapshot(), name)


def _items(desk: Desk, actor: Actor) -> Iterator[PipelineItem]:
    now = desk.snapshot()
    for name in now.names:
        if allows(actor, "pipelines.view", now.projects.get(name)):
            yield _item(actor, now, name)


def _item(actor: Actor, now: Snapshot, name: str) -> PipelineItem:
    status, wanted, view = now.status(name), now.wanted.get(name), now.views.get(name)
    lags = [place.lag for place in status.partitions]
    return PipelineItem(
        name=name,
        state=status.state,
        reason=status.reason,
        desired=wanted.desired if wanted else "running",
        set_by=wanted.set_by if wanted else None,
        set_at=wanted.set_at if wanted else None,
        resume_at=wanted.resume_at if wanted else None,
        rate_limit=wanted.rate_limit if wanted else None,
        events=status.events,
        failures=status.failures,
        dead_letters=status.dead_letters,
        lag=sum(lag or 0 for lag in lags) if any(lag is not None for lag in lags) else None,
        partitions=len(lags),
        rate=view.rate if view else None,
        p50_ms=view.p50_ms if view else None,
        p99_ms=view.p99_ms if view else None,
        instances=[instance_name(actor, each) for each in wanted.instances] if wanted else [],
        managed=name in now.managed,
        project=now.projects.get(name),
    )


def _places(actor: Actor, status: PipelineStatus) -> list[PartitionView]:
    return [
        PartitionView(
            topic=place.topic,
            partition=place.partition,
            committed=place.committed,
            end=place.end,
            lag=place.lag,
            owner=instance_name(actor, place.owner) if place.owner else None,
        )
        for place in status.partitions
    ]
