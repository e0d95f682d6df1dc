"""What the repositories of definitions take and give. Times are epoch microseconds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from penstock.core.errors import ConfigError

LimitPeriod = Literal["hour", "day", "month", "total"]
RetentionPolicy = Literal["retain_all", "retain_with_errors", "erase_all"]


class NotThere(ConfigError):
    """A project, workflow, trigger or work order that was asked for does not exist."""

    code = "not-found"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectRow:
    id: str
    name: str
    description: str | None = None
    concurrency: int | None = None
    soft_limit: int | None = None
    hard_limit: int | None = None
    limit_period: LimitPeriod = "month"
    retention_policy: RetentionPolicy = "retain_all"
    history_retention: int | None = None
    """Days; None: for ever."""
    dataclip_retention: int | None = None
    """Days; None: as long as the history."""
    settings: dict[str, Any] = field(default_factory=dict)
    inserted_at: int = 0
    updated_at: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowRow:
    id: str
    project_id: str
    name: str
    origin: str = "store"
    concurrency: int | None = None
    snapshot_id: str | None = None
    """The snapshot that new work orders use; set by the store."""
    deleted_at: int | None = None
    inserted_at: int = 0
    updated_at: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRow:
    """One version of a workflow's definition."""

    id: str
    workflow_id: str
    version: str
    definition: dict[str, Any]
    inserted_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerRow:
    id: str
    workflow_id: str
    name: str
    type: str = "kafka"
    enabled: bool = False
    comment: str | None = None
    kafka_configuration: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    revision: int = 0
    """Counts the changes that matter to a running consumer; set by the store."""
    notified_at: int | None = None
    unreported: dict[str, Any] = field(default_factory=dict)
    notifying_until: int | None = None
    deleted_at: int | None = None
    inserted_at: int = 0
    updated_at: int = 0


class TriggerChange(NamedTuple):
    """What a loop compares to see whether it must do something for a trigger."""

    id: str
    revision: int
    enabled: bool
    workflow_id: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UserRow:
    id: str
    email: str
    name: str | None = None
    role: str | None = None
    """Of the whole instance: admin, operator, viewer; None: as the memberships say."""
    inserted_at: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRow:
    """A user within a project."""

    project_id: str
    user_id: str
    role: str
    email: str
    name: str | None
    instance_role: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkJobRow:
    """Many retries or cancellations, done in the background."""

    id: str
    kind: str
    request: dict[str, Any]
    state: str
    total: int = 0
    done: int = 0
    skipped: int = 0
    position: str | None = None
    """Where it goes on after an interruption."""
    asked_by: str | None = None
    claimed_by: str | None = None
    heartbeat_at: int | None = None
    inserted_at: int = 0
    updated_at: int = 0
