"""Questions about dead letters, and answers, as data."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from penstock.core.clock import format_time
from penstock.core.dead_letter import Stage
from penstock.service.dead_letters import which_letters
from penstock.service.letter_job_records import job_name
from penstock.service.operations.models import Text, View
from penstock.store import (
    DeadLetterFilter,
    DeadLetterRow,
    DeadLetterStatus,
    LetterJobKind,
    LetterJobRow,
    LetterJobState,
)

_ID = Field(ge=1, le=2**62)


class LetterQuery(BaseModel):
    """Which letters; what is absent does not matter."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    pipeline: Text | None = None
    topic: Text | None = None
    partition: int | None = Field(default=None, ge=0, le=2**31 - 1)
    stage: Stage | None = None
    status: DeadLetterStatus | None = None
    error: str | None = Field(default=None, min_length=1, max_length=1_000)
    """Text within the error's code or message, whatever its case."""
    fingerprint: Text | None = None
    """Of failures of the same kind at the same place."""
    since: Text | None = None
    """Failed last at or after this: a time, a time ago like `2h`, or epoch milliseconds."""
    until: Text | None = None
    """Failed last before this."""
    text: str | None = Field(default=None, min_length=1, max_length=1_000)
    """Text within the error, the key or the value, whatever its case."""

    def filter(self) -> DeadLetterFilter:
        return which_letters(**self.model_dump())

    @property
    def is_empty(self) -> bool:
        return not self.model_dump(exclude_none=True)


class LetterChoice(BaseModel):
    """Letters by their ids, or by what they have in common."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"ids": [1, 2]}, {"filter": {"pipeline": "orders"}}]}
    )

    ids: list[int] | None = Field(default=None, min_length=1, max_length=1_000)
    filter: LetterQuery | None = None


class Bytes(View):
    """Bytes: `text` where they are UTF-8, else `base64`."""

    text: str | None = None
    base64: str | None = None


class LetterItem(View):
    """A letter as lists show it."""

    id: int
    pipeline: str
    topic: str
    partition: int
    offset: int
    stage: Stage
    error_code: str
    error: str
    attempts: int
    status: DeadLetterStatus
    first_failed_at: str
    last_failed_at: str

    @classmethod
    def of(cls, row: DeadLetterRow) -> LetterItem:
        return cls(**row.as_dict())


class HeaderView(View):
    name: str
    value: Bytes | None = None


class LetterStep(View):
    """Something that happened to a letter."""

    model_config = ConfigDict(frozen=True, extra="allow")

    at: str
    kind: str
    text: str
    by: str | None = None


class LetterDetail(LetterItem):
    """A letter with its bytes and its history."""

    group: str
    topic_id: str
    spec_version: str
    timestamp: int
    timestamp_type: str
    key: Bytes | None = None
    value: Bytes | None = None
    headers: list[HeaderView] = Field(default_factory=list)
    error_class: str
    fingerprint: str
    schema_id: int | None = None
    value_seen: Bytes | None = None
    """The value as the failing stage saw it."""
    traceback: str
    replays: int
    masked: bool = False
    """Fields of the value are not shown, by a rule of the installation."""
    history: list[LetterStep] = Field(default_factory=list)


class ErrorGroupView(View):
    """Letters that failed in the same way at the same place."""

    fingerprint: str
    letters: int
    last_failed_at: str
    pipeline: str
    stage: Stage
    error_code: str
    error: str
    letter_id: int
    """The one that failed last."""


class FacetsView(View):
    """How letters spread."""

    letters: int
    complete: bool
    """False: there are more; the newest were counted."""
    counts: dict[str, dict[str, int]]
    """By `status`, `stage`, `pipeline` and `topic`: letters per value, most first."""
    errors: list[ErrorGroupView]


class PlanView(View):
    """What a replay or a discard would take."""

    letters: int
    partitions: list[dict[str, Any]] = Field(default_factory=list)
    """For a replay: letters by pipeline, topic and partition."""
    statuses: dict[str, int] = Field(default_factory=dict)
    """For a discard: letters by the status they have."""


class JobView(View):
    """A replay or discard of many letters, in the background."""

    id: str
    kind: LetterJobKind
    by: str
    what: str
    state: LetterJobState
    letters: int
    done: int
    asked_at: str
    started_at: str | None = None
    ended_at: str | None = None
    instance: str
    """The one that does it, or did it."""
    note: str | None = None
    """What it waits for."""
    error: str | None = None
    pipelines: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Figures by pipeline, once its part has begun."""

    @classmethod
    def of(cls, row: LetterJobRow) -> JobView:
        def told(at: int | None) -> str | None:
            return None if at is None else format_time(at)

        return cls(
            id=job_name(row),
            kind=row.kind,
            by=row.asked_by,
            what=row.what,
            state=row.state,
            letters=row.total,
            done=row.done,
            asked_at=format_time(row.asked_at),
            started_at=told(row.started_at),
            ended_at=told(row.ended_at),
            instance=row.instance,
            note=row.note,
            error=row.error,
            pipelines={name: figures for name, figures in row.pipelines.items() if figures},
        )
