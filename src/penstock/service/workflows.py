"""Workflows in the store: applied from definitions, found by name, deleted."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import orjson

from penstock.config.problems import did_you_mean
from penstock.config.trigger import new_group_id
from penstock.config.workflow import DEFAULT_PROJECT, LimitsSpec, ProjectSpec, TriggerSpec, WorkflowSpec
from penstock.core.errors import ConfigError
from penstock.service.secrets import SecretBox
from penstock.store import Store
from penstock.store.work.model import NotThere, ProjectRow, TriggerRow, WorkflowRow

_IDS: Final = uuid.UUID("5b1c8a52-7a0e-5c43-9d57-0f4c1f2d6e11")
_OPTIONS: Final = ("rate", "consumers", "concurrency", "ordering", "accept", "tombstones", "backlog", "limits")
_ORIGIN: Final = "store"
TAKEN_OVER: Final = "taken_over"
"""Option of a trigger whose group comes from elsewhere."""


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of a definition."""

    workflow: WorkflowRow
    project: str
    triggers: list[TriggerRow]
    is_new: bool
    changed: bool
    """False: the store held the same already."""
    warnings: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return {
            "id": self.workflow.id,
            "project": self.project,
            "workflow": self.workflow.name,
            "snapshot": self.workflow.snapshot_id,
            "created": self.is_new,
            "changed": self.changed,
            "triggers": [{"id": each.id, "name": each.name, "enabled": each.enabled} for each in self.triggers],
            "warnings": list(self.warnings),
        }


def stable_id(*names: str) -> str:
    """The same for the same names, on every machine: a file that is applied anywhere means the same workflow."""
    return str(uuid.uuid5(_IDS, "/".join(name.replace("%", "%25").replace("/", "%2F") for name in names)))


def apply_workflow(
    store: Store,
    box: SecretBox,
    spec: WorkflowSpec,
    *,
    extra: dict[str, Any] | None = None,
    ids: dict[str, str] | None = None,
) -> Applied:
    """Make the store hold this workflow and these triggers, and no others of its name.

    `extra` is kept with the definition as it is; `ids` are those of triggers that come from elsewhere, by name.
    """
    project = save_project(store, box, spec.project, spec.limits)
    before = store.workflows.get(project.id, spec.name)
    known = {row.name: row for row in store.triggers.list(workflow_id=before.id)} if before else {}
    new_ids = {each.name: stable_id(spec.project.name, spec.name, each.name) for each in spec.triggers} | (ids or {})
    rows = [_row(box, each, known.get(each.name), new_ids[each.name]) for each in spec.triggers]
    refuse_taken_groups(store, rows)
    definition = box.hidden(spec.definition()) | (extra or {})
    workflow = WorkflowRow(
        id=before.id if before else stable_id(spec.project.name, spec.name),
        project_id=project.id,
        name=spec.name,
        origin=spec.origin or _ORIGIN,
        concurrency=spec.concurrency,
    )
    saved = store.workflows.apply(workflow, definition, version_of(definition), rows)
    after = store.triggers.list(workflow_id=saved.id)
    same = before is not None and before.snapshot_id == saved.snapshot_id
    return Applied(
        saved,
        project.name,
        after,
        before is None,
        not (same and _marks(known.values()) == _marks(after)),
        tuple(_unused_groups(spec, known)),
    )


def _marks(rows: Any) -> set[tuple[str, int]]:
    return {(row.id, row.revision) for row in rows}


def version_of(definition: dict[str, Any]) -> str:
    """The same for the same definition."""
    return hashlib.sha256(orjson.dumps(definition, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]


def save_project(store: Store, box: SecretBox, spec: ProjectSpec, limits: LimitsSpec | None = None) -> ProjectRow:
    """Make the project, or change what is said of it; what is not said stays."""
    said = spec.model_dump(exclude_none=True, exclude={"name", "limits", "notify", "members"})
    if (own := spec.limits or limits) is not None:
        said |= {"soft_limit": own.soft, "hard_limit": own.hard, "limit_period": own.per}
    before = store.projects.get(spec.name)
    if spec.notify is not None:
        said["settings"] = (before.settings if before else {}) | box.hidden({"notify": spec.notify})
    saved = store.projects.save(stable_id(spec.name), spec.name, **said)
    for email, role in (spec.members or {}).items():
        if all(user.email != email for user in store.users.list()):
            store.users.save(email)
        store.users.set_member(saved.id, email, role)
    return saved


def _row(box: SecretBox, trigger: TriggerSpec, before: TriggerRow | None, new_id: str) -> TriggerRow:
    # A person who switched it meanwhile is stronger than a file that does not say.
    keeps = before is not None and "enabled" not in trigger.model_fields_set
    taken_over = before.options.get(TAKEN_OVER) if before else trigger.group_id
    return TriggerRow(
        id=before.id if before else new_id,
        workflow_id="",
        name=trigger.name,
        enabled=before.enabled if before is not None and keeps else trigger.enabled,
        comment=trigger.comment,
        kafka_configuration=box.hidden(trigger.kafka_configuration)
        | {"group_id": _group(before) or trigger.group_id or new_group_id()},
        options=trigger_options(trigger) | ({TAKEN_OVER: True} if taken_over else {}),
    )


def _group(row: TriggerRow | None) -> str | None:
    return row.kafka_configuration.get("group_id") if row else None


def refuse_taken_groups(store: Store, rows: list[TriggerRow]) -> None:
    """Two triggers in one group would take each other's messages."""
    mine = {row.id for row in rows}
    seen = {_group(row): row.name for row in store.triggers.list() if row.id not in mine}
    for row in rows:
        group = _group(row)
        if group in seen:
            raise ConfigError(
                f"trigger {row.name}: the group {group} is that of trigger {seen[group]}",
                received=group,
                hint="a group belongs to one trigger; leave group_id out to get a new one",
            )
        seen[group] = row.name


def _unused_groups(spec: WorkflowSpec, known: dict[str, TriggerRow]) -> Iterator[str]:
    for trigger in spec.triggers:
        kept = _group(known.get(trigger.name))
        if kept and trigger.group_id not in (None, kept):
            yield f"trigger {trigger.name}: its group stays {kept}; {trigger.group_id} is not used"


def trigger_options(trigger: TriggerSpec) -> dict[str, Any]:
    """Penstock's own settings of a trigger, as far as they are not the defaults."""
    return trigger.model_dump(mode="json", include=set(_OPTIONS), exclude_none=True, exclude_defaults=True)


def find_workflow(store: Store, name: str) -> WorkflowRow:
    """By `project/name`, by its name where only one project has it, or by its id."""
    if (found := store.workflows.by_id(name)) is not None and found.deleted_at is None:
        return found
    projects = {row.id: row.name for row in store.projects.list()}
    by_name = {f"{projects[row.project_id]}/{row.name}": row for row in store.workflows.list()}
    if name in by_name:
        return by_name[name]
    matching = {full: row for full, row in by_name.items() if row.name == name}
    if len(matching) > 1:
        full = f"{DEFAULT_PROJECT}/{name}"
        raise ConfigError(
            f"several projects have a workflow {name!r}",
            received=name,
            allowed=sorted(matching),
            hint=f"say which, as in {full}",
        )
    if not matching:
        raise NotThere(
            f"there is no workflow {name!r}",
            received=name,
            allowed=sorted(by_name) or None,
            hint=did_you_mean(name, by_name),
        )
    return next(iter(matching.values()))


def full_names(store: Store) -> dict[str, str]:
    """`project/name` of every workflow, by its id; of deleted ones too."""
    projects = {row.id: row.name for row in store.projects.list()}
    return {row.id: f"{projects[row.project_id]}/{row.name}" for row in store.workflows.list(deleted_too=True)}


def delete_workflow(store: Store, name: str) -> WorkflowRow:
    """Take a workflow and its triggers out of use; what they have brought in stays."""
    found = find_workflow(store, name)
    store.workflows.delete(found.id)
    return found
