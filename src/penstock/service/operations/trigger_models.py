"""Questions about triggers, and answers, as data."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import orjson
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema

from penstock.config.trigger_model import KafkaConfiguration
from penstock.config.workflow import LimitsSpec
from penstock.core.durations import Rate
from penstock.service.operations.models import PartitionView, Text, View
from penstock.service.operations.offsets import MoveView


def _plain(value: dict[str, Any]) -> dict[str, Any]:
    try:
        written = orjson.dumps(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"it is no plain JSON: {error}") from None
    if rb"\u0000" in written:
        raise ValueError("a NUL is in it")
    return value


Configuration = Annotated[
    dict[str, Any], AfterValidator(_plain), WithJsonSchema(KafkaConfiguration.model_json_schema() | {"title": "Kafka"})
]
Kept = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00/]*$")]
"""A name; it is part of `project/workflow/trigger`."""
_EXAMPLE: dict[str, Any] = {
    "hosts": [["broker-a", "9092"]],
    "topics": ["lab-results"],
    "initial_offset_reset_policy": "earliest",
}


class TriggerChange(BaseModel):
    """A trigger as it should be. A secret that is left out, or given as the mask, stays as it is; null removes it."""

    model_config = ConfigDict(
        extra="forbid",
        use_attribute_docstrings=True,
        hide_input_in_errors=True,
        json_schema_extra={"examples": [{"kafka_configuration": _EXAMPLE}]},
    )

    comment: Text | None = None
    """For people."""
    kafka_configuration: Configuration
    """Where its messages come from."""
    rate: Rate | None = None
    """Messages per second over all instances, as `100/s`; absent: no limit."""
    consumers: int | None = Field(default=None, ge=1, le=10_000)
    """A hint how many readers share the topics in an instance."""
    concurrency: int | None = Field(default=None, ge=1, le=10_000)
    """A hint how many messages are taken in side by side."""
    ordering: Literal["none", "key", "partition"] = "none"
    """Whose runs come one after the other: nobody's, those of a message key, or those of a partition."""
    accept: Literal["object", "any"] = "object"
    """Which values start a run: JSON objects, or anything; what is no object is wrapped then."""
    tombstones: Literal["dead_letter", "skip"] = "dead_letter"
    """What becomes of messages without a value."""
    backlog: int | None = Field(default=None, ge=1, le=2**31)
    """The trigger waits while so many of its runs are unfinished."""
    limits: LimitsSpec | None = None
    """Work orders of this trigger within a period."""


class NewTrigger(TriggerChange):
    """A trigger to make."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"workflow": "clinic/labs", "kafka_configuration": _EXAMPLE}]}
    )

    workflow: Text
    """Id of the workflow that it starts, its name, or `project/name`."""
    name: Kept = "kafka"
    """Unique within the workflow."""
    enabled: bool = False
    """Whether it runs at once."""
    group_id: Annotated[str, Field(min_length=1, max_length=249, pattern=r"^[^\x00]*$")] | None = None
    """Consumer group of a trigger that is taken over from elsewhere; absent: a new one."""
    steps: list[Text] | None = Field(default=None, min_length=1, max_length=1_000)
    """Steps that follow it; absent: those that follow no other step."""


class TriggerItem(View):
    """A trigger as lists show it."""

    id: str
    name: str
    workflow: str
    """`project/name`."""
    workflow_id: str
    project_id: str
    enabled: bool
    state: str
    """Of its pipeline; `disabled` where it should not run."""
    reason: str | None = None
    hosts: str
    topics: str
    group_id: str
    lag: int | None = None
    """Messages to be read, as far as instances know."""
    messages: int = 0
    dead_letters: int = 0
    revision: int
    """The ETag of its replacements."""


class TriggerDetail(TriggerItem):
    """A trigger with its configuration, without its secrets."""

    comment: str | None = None
    kafka_configuration: dict[str, Any] = Field(default_factory=dict)
    options: dict[str, Any] = Field(default_factory=dict)
    """Penstock's own settings, as far as they are not the defaults."""
    pipeline: str
    """The pipeline that it runs as; its dead letters have this name."""
    partitions: list[PartitionView] = Field(default_factory=list)
    updated_at: str
    warnings: list[str] = Field(default_factory=list)


class EnabledView(View):
    """What enabling a trigger did."""

    trigger: TriggerItem
    moves: list[MoveView] = Field(default_factory=list)
    """Partitions whose offsets were set."""
    warnings: list[str] = Field(default_factory=list)
