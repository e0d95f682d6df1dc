"""What a face may ask about triggers: which there are, how they do, whether their cluster can be reached."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from penstock.config.problems import did_you_mean
from penstock.config.secret_values import shown
from penstock.config.settings import Settings
from penstock.config.spec import PipelineSpec
from penstock.config.trigger import hosts_text, topics_text
from penstock.config.trigger_environment import TriggerDefaults
from penstock.core.clock import format_time
from penstock.core.errors import ConfigError
from penstock.core.status import PipelineStatus
from penstock.kafka.probe import Finding, probe
from penstock.service.secrets import SecretBox
from penstock.service.status import pipeline_statuses
from penstock.service.trigger_specs import PREFIX, compile_trigger, pipeline_name
from penstock.service.workflows import full_names
from penstock.store import Store
from penstock.store.work.model import NotThere, TriggerRow


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerView:
    """A trigger and how it does, in the shape that `penstock triggers list --json` promises."""

    id: str
    name: str
    workflow: str
    """`project/name`."""
    enabled: bool
    state: str
    """Of its pipeline; `disabled` where it should not run."""
    reason: str | None
    hosts: str
    topics: str
    group_id: str
    lag: int | None
    """Messages to be read, as far as instances know."""
    messages: int
    dead_letters: int

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def list_triggers(store: Store, project: str | None = None) -> list[TriggerView]:
    """All triggers, or those of a project, by workflow and name."""
    names, statuses = full_names(store), {status.pipeline: status for status in pipeline_statuses(store)}
    views = [view_of(row, names, statuses) for row in store.triggers.list(project_id=_project(store, project))]
    return sorted(views, key=lambda view: (view.workflow, view.name))


def _project(store: Store, name: str | None) -> str | None:
    if name is None:
        return None
    found = store.projects.get(name)
    if found is None:
        known = [row.name for row in store.projects.list()]
        raise NotThere(f"there is no project {name!r}", received=name, allowed=known, hint=did_you_mean(name, known))
    return found.id


def view_of(row: TriggerRow, names: dict[str, str], statuses: dict[str, PipelineStatus]) -> TriggerView:
    """A trigger, given the full names of workflows and the statuses of pipelines."""
    status = statuses.get(pipeline_name(row.id))
    lags = [place.lag for place in status.partitions if place.lag is not None] if status else []
    running = status.state if status else "stopped"
    config = row.kafka_configuration
    return TriggerView(
        id=row.id,
        name=row.name,
        workflow=names.get(row.workflow_id, row.workflow_id),
        enabled=row.enabled,
        state=running if row.enabled else "disabled",
        reason=(status.reason if status else "no instance runs it") if row.enabled else None,
        hosts=hosts_text(config),
        topics=config.get("topic_pattern") or topics_text(config),
        group_id=config.get("group_id") or "",
        lag=sum(lags) if lags else None,
        messages=status.events if status else 0,
        dead_letters=status.dead_letters if status else 0,
    )


def show_trigger(store: Store, row: TriggerRow) -> dict[str, Any]:
    """All of a trigger but its secrets."""
    statuses = {status.pipeline: status for status in pipeline_statuses(store, pipeline_name(row.id))}
    status = statuses.get(pipeline_name(row.id))
    return view_of(row, full_names(store), statuses).as_dict() | {
        "comment": row.comment,
        "kafka_configuration": shown(row.kafka_configuration),
        "options": row.options,
        "pipeline": pipeline_name(row.id),
        "revision": row.revision,
        "updated_at": format_time(row.updated_at // 1000),
        "partitions": [asdict(place) for place in status.partitions] if status else [],
    }


def find_trigger(store: Store, text: str) -> TriggerRow:
    """By `project/workflow/trigger`, any unambiguous end of that, its id, or the name of its pipeline."""
    rows, names = store.triggers.list(), full_names(store)
    by_id = next((row for row in rows if row.id == text.removeprefix(PREFIX).lower()), None)
    if by_id is not None:
        return by_id
    by_name = {f"{names[row.workflow_id]}/{row.name}": row for row in rows}
    matching = {full: row for full, row in by_name.items() if full == text or full.endswith(f"/{text}")}
    if len(matching) > 1:
        raise ConfigError(f"several triggers are called {text!r}", received=text, allowed=sorted(matching))
    if not matching:
        near = did_you_mean(text, [*by_name, *(row.name for row in rows)])
        raise NotThere(f"there is no trigger {text!r}", received=text, allowed=sorted(by_name) or None, hint=near)
    return next(iter(matching.values()))


def trigger_spec(store: Store, settings: Settings, row: TriggerRow) -> PipelineSpec:
    """The pipeline that a trigger runs as, on this machine."""
    workflow = store.workflows.by_id(row.workflow_id)
    project = store.projects.get(workflow.project_id) if workflow else None
    if workflow is None or project is None:
        raise ConfigError("its workflow is gone", received=row.workflow_id)
    defaults = TriggerDefaults.of(os.environ)
    box = SecretBox.of(store, settings)
    return compile_trigger(row, workflow, project, box=box, store_url=settings.store_url, defaults=defaults)


def tried_connection(spec: PipelineSpec, timeout: float = 5.0) -> Iterator[Finding]:
    """Each step of reaching the cluster apart: DNS, TCP, TLS, SASL, metadata, topics, group."""
    return probe(spec, timeout)


def disable(store: Store, rows: Iterable[TriggerRow]) -> list[TriggerRow]:
    """Let triggers end on every instance; where they stand is kept."""
    return [store.triggers.set_enabled(row.id, False) for row in rows]
