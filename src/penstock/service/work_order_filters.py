"""Which work orders a person means: names become ids, times become numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, TypeVar, cast, get_args

from penstock.config.problems import did_you_mean
from penstock.core.clock import SYSTEM
from penstock.core.errors import ConfigError
from penstock.service.moments import moment
from penstock.service.workflows import full_names
from penstock.store import Store
from penstock.store.work.history_model import FIELDS, SearchField, WorkOrderFilter
from penstock.store.work.model import NotThere, ProjectRow, TriggerRow, WorkflowRow
from penstock.store.work.states import WORK_ORDER_STATES

RECENT: Final = 30 * 86_400_000
"""Milliseconds of activity that are looked at unless a time is given."""

Word = TypeVar("Word", bound=str)
Row = TypeVar("Row", WorkflowRow, TriggerRow)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a person wrote; None where nothing was."""

    project: str | None = None
    """Name or id."""
    workflow: str | None = None
    """Name, `project/name` or id."""
    trigger: str | None = None
    """`project/workflow/name`, an end of that, or id."""
    state: Sequence[str] | None = None
    received_after: str | None = None
    received_before: str | None = None
    active_after: str | None = None
    active_before: str | None = None
    search: str | None = None
    within: Sequence[str] | None = None
    """Where the search looks."""
    ids: Sequence[str] | None = None
    any_time: bool = False
    """Not only those with activity within 30 days."""

    @property
    def given(self) -> list[str]:
        """Names of the filters that narrow down at all."""
        return [field.name for field in fields(self) if getattr(self, field.name) and field.name != "any_time"]


def which_work_orders(store: Store, asked: Asked) -> WorkOrderFilter:
    """A filter from what a person wrote; `NotThere` where a name or an id is of nothing."""
    states = _words("state", asked.state, WORK_ORDER_STATES)
    within = _words("place to search", asked.within, get_args(SearchField))
    if asked.search is not None and not asked.search.strip():
        raise ConfigError("the text to look for is empty", hint="leave --search out")
    if within and asked.search is None:
        raise ConfigError("places to search are given, and nothing to look for", hint="give --search TEXT")
    project = find_project(store, asked.project)
    workflow = find_workflow(store, asked.workflow, project)
    trigger = _trigger(store, asked.trigger, project, workflow)
    received = _period("received", asked.received_after, asked.received_before)
    active = _period("active", asked.active_after, asked.active_before)
    if active == (None, None) and not asked.any_time and not asked.ids:
        active = (SYSTEM.now_ms() - RECENT) * 1_000, None
    return WorkOrderFilter(
        project_id=project.id if project else None,
        workflow_id=workflow.id if workflow else None,
        trigger_id=trigger.id if trigger else None,
        states=states,
        received_after=received[0],
        received_before=received[1],
        active_after=active[0],
        active_before=active[1],
        ids=tuple(dict.fromkeys(asked.ids or ())),
        term=asked.search,
        fields=frozenset(cast("tuple[SearchField, ...]", within)) or FIELDS,
    )


def filter_as_json(which: WorkOrderFilter) -> dict[str, Any]:
    """As jobs keep it."""
    return asdict(which) | {"fields": sorted(which.fields)}


def filter_from_json(data: dict[str, Any]) -> WorkOrderFilter:
    places: frozenset[SearchField] = frozenset(data["fields"])
    return WorkOrderFilter(**data | {"states": tuple(data["states"]), "ids": tuple(data["ids"]), "fields": places})


def find_project(store: Store, name: str | None) -> ProjectRow | None:
    if name is None:
        return None
    found = store.projects.get(name)
    if found is None:
        known = [project.name for project in store.projects.list()]
        raise NotThere(f"there is no project {name!r}", received=name, allowed=known, hint=did_you_mean(name, known))
    return found


def find_workflow(store: Store, name: str | None, project: ProjectRow | None) -> WorkflowRow | None:
    """By id, by name, or as `project/name`; a deleted one where no other has the name: history tells of it."""
    if name is None:
        return None
    full = full_names(store)
    rows = store.workflows.list(project.id if project else None, deleted_too=True)
    return _only("workflow", name, {row.id: full[row.id] for row in rows}, rows)


def _trigger(
    store: Store, name: str | None, project: ProjectRow | None, workflow: WorkflowRow | None
) -> TriggerRow | None:
    """By id, or as `project/workflow/name` or an end of that; deleted ones as above."""
    if name is None:
        return None
    full = full_names(store)
    owners = {"workflow_id": workflow.id if workflow else None, "project_id": project.id if project else None}
    rows = store.triggers.list(**owners, include_deleted=True)
    return _only("trigger", name, {row.id: f"{full[row.workflow_id]}/{row.name}" for row in rows}, rows)


def _only(what: str, text: str, full: dict[str, str], rows: Sequence[Row]) -> Row:
    named = [row for row in rows if f"/{full[row.id]}".endswith(f"/{text}")]
    live = [row for row in named if row.deleted_at is None]
    found = [row for row in rows if row.id == text.lower()] or live or named
    if not found:
        known = sorted(full[row.id] for row in rows if row.deleted_at is None)
        raise NotThere(f"there is no {what} {text!r}", received=text, allowed=known, hint=did_you_mean(text, known))
    if len(found) > 1:
        names = sorted({full[row.id] for row in found})
        several = names if len(names) == len(found) else [row.id for row in found]
        raise ConfigError(f"several {what}s are called {text!r}", received=text, allowed=several, hint="say which")
    return found[0]


def _words(what: str, given: Sequence[str] | None, allowed: Sequence[Word]) -> tuple[Word, ...]:
    written = [word.strip() for text in given or () for word in text.split(",") if word.strip()]
    for word in written:
        if word not in allowed:
            raise ConfigError(f"no such {what}", received=word, allowed=list(allowed))
    return tuple(cast("Word", word) for word in dict.fromkeys(written))


def _period(name: str, after: str | None, before: str | None) -> tuple[int | None, int | None]:
    begin, end = moment(f"--{name}-after", after), moment(f"--{name}-before", before)
    if begin is not None and end is not None and begin >= end:
        raise ConfigError(f"--{name}-after is not before --{name}-before", received=f"{after} and {before}")
    return None if begin is None else begin * 1_000, None if end is None else end * 1_000
