"""`WorkflowSpec`: a `kind: workflow` document. What starts it, its steps, and how one follows another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, PrivateAttr, field_validator, model_validator

from penstock.config.model import Model, ProblemAt
from penstock.config.source import Start
from penstock.config.trigger import FIELDS
from penstock.core.declarations import REFERABLE, SECRET, Address, Needs
from penstock.core.durations import Duration, Rate

STEP_KINDS: Final = ("python", "command", "http", "action")
_MAIN_KEYS: Final = {"python": "callable", "command": "argv", "http": "url", "action": "type"}
WORDS: Final = ("always", "success", "failure")
"""What `when` may say besides an expression."""
DEFAULT_PROJECT: Final = "default"

Name = Annotated[str, Field(min_length=1, max_length=200)]


class LimitsSpec(Model):
    """How many work orders may come within a period."""

    soft: int | None = Field(default=None, ge=0)
    """From so many on, work orders are kept as `rejected`, without a run; they can be retried."""
    hard: int | None = Field(default=None, ge=0)
    """From so many on, nothing is taken in: the trigger waits until the limit allows."""
    per: Literal["hour", "day", "month", "total"] = "month"
    """Calendar period in UTC."""

    @model_validator(mode="after")
    def _hard_is_harder(self) -> Self:
        if self.soft is not None and self.hard is not None and self.hard < self.soft:
            raise ProblemAt(["hard"], f"{self.hard} is below the soft limit, {self.soft}", received=self.hard)
        return self


class ProjectSpec(Model):
    """The project that a workflow belongs to, and what holds for all of its workflows."""

    name: Name
    """Unique."""
    description: str | None = None
    """For people."""
    concurrency: int | None = Field(default=None, ge=1)
    """Runs of all its workflows side by side."""
    limits: LimitsSpec | None = None
    """Work orders of all its workflows."""
    retention_policy: Literal["retain_all", "retain_with_errors", "erase_all"] | None = None
    """Whether inputs and outputs are kept: all, those of runs that did not succeed, or none."""
    history_retention: int | None = Field(default=None, ge=1)
    """Days after which work orders are deleted; absent: never."""
    dataclip_retention: int | None = Field(default=None, ge=1)
    """Days after which inputs and outputs are wiped; absent: never."""
    notify: Annotated[list[str] | None, Address("notification"), SECRET] = None
    """Addresses (apprise) that are told of failures."""
    members: dict[str, Literal["owner", "admin", "editor", "viewer"]] | None = None
    """E-mail addresses and roles; owners and admins get mails about failures."""


class TriggerSpec(Model):
    """What starts the workflow: a message of a Kafka topic."""

    name: Name = "kafka"
    """Unique within the workflow."""
    type: Literal["kafka"] = "kafka"
    """Only `kafka`."""
    enabled: bool = True
    """False: it waits to be enabled."""
    comment: str | None = None
    """For people."""
    kafka_configuration: dict[str, Any] = Field(default_factory=dict)
    """Lightning's fields; each may also stand beside this key instead of below it."""
    group_id: str | None = Field(default=None, min_length=1)
    """Consumer group of a trigger that is taken over from elsewhere, so that it goes on where that ended; default
    `lightning-<uuid>`, made once."""
    start: Start | None = None
    """Where to begin without a committed offset, if not as `initial_offset_reset_policy` says: also an ISO time."""
    rate: Rate | None = None
    """Messages per second over all instances; default: no limit."""
    consumers: int | None = Field(default=None, ge=1)
    """A hint how many readers share the topics in an instance; by default the load decides."""
    concurrency: int | None = Field(default=None, ge=1)
    """A hint how many messages are taken in side by side; by default the load decides."""
    ordering: Literal["none", "key", "partition"] = "none"
    """Whose runs come one after the other: nobody's, those of a message key, or those of a partition."""
    accept: Literal["object", "any"] = "object"
    """Which values start a run: JSON objects, or anything; what is no object is wrapped then."""
    tombstones: Literal["dead_letter", "skip"] = "dead_letter"
    """What becomes of messages without a value."""
    backlog: int | None = Field(default=None, ge=1)
    """The trigger waits while so many of its runs are unfinished; default: no bound."""
    limits: LimitsSpec | None = None
    """Work orders of this trigger."""

    @model_validator(mode="before")
    @classmethod
    def _kafka_fields_below(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        beside = {key: data[key] for key in FIELDS if key in data and key != "group_id"}
        below = data.get("kafka_configuration")
        if not beside or not isinstance(below, dict | None):
            return data
        for key in beside:
            if below and key in below:
                raise ProblemAt([key], "stands below kafka_configuration too", hint="say it once")
        rest = {key: value for key, value in data.items() if key not in beside}
        return rest | {"kafka_configuration": beside | (below or {})}


class WorkflowStep(Model):
    """One step: exactly one of `python`, `command`, `http` and `action`."""

    name: Name
    """Unique within the workflow."""
    python: Annotated[str | None, Needs("python", "a Python function")] = None
    """A function, as `module:function` or `./file.py:function`; called with the state, and with `config` if it takes
    two arguments. What it returns is the next state."""
    command: Annotated[list[str] | None, Needs("command", "a program")] = Field(default=None, min_length=1)
    """A program and its arguments; the state is its standard input, a JSON object on standard output the next state."""
    http: Annotated[str | dict[str, str] | None, Address("url"), REFERABLE] = None
    """Address of a request, or the reference of a secret one; the answer is put into the state as `response`."""
    action: str | None = None
    """A registered action, given the state as its event."""
    config: dict[str, Any] = Field(default_factory=dict)
    """Keys of the step's own kind."""

    @field_validator("command", mode="before")
    @classmethod
    def _one_word_is_a_list(cls, command: Any) -> Any:
        return [command] if isinstance(command, str) else command

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        given = [kind for kind in STEP_KINDS if getattr(self, kind) is not None]
        if len(given) != 1:
            said = f"{' and '.join(given)} are too many" if given else "none is given"
            raise ProblemAt(given[1:2], f"exactly one of {', '.join(STEP_KINDS)} is wanted; {said}", allowed=STEP_KINDS)
        main = _MAIN_KEYS[given[0]]
        if given[0] in ("command", "http") and main in self.config:
            raise ProblemAt(["config", main], f"is said by {given[0]} already")
        return self

    @property
    def kind(self) -> str:
        return next(kind for kind in STEP_KINDS if getattr(self, kind) is not None)

    def definition(self) -> dict[str, Any]:
        """As the snapshot keeps it."""
        main = {_MAIN_KEYS[self.kind]: getattr(self, self.kind)}
        config = main | ({"config": self.config} if self.kind in ("python", "action") else self.config)
        return {"name": self.name, "kind": self.kind, "config": config}


class EdgeSpec(Model):
    """A step follows a trigger or another step."""

    source: str = Field(alias="from")
    """Name of a trigger or step."""
    target: str = Field(alias="to")
    """Name of a step."""
    when: str = "always"
    """`always`, `success`, `failure`, or a CEL expression over `state`."""


class WorkflowSpec(Model):
    """One workflow."""

    project: ProjectSpec = Field(default_factory=lambda: ProjectSpec(name=DEFAULT_PROJECT))
    """Its project: a name, or a map; `default` where none is given."""
    name: Name
    """Unique within the project."""
    triggers: list[TriggerSpec] = Field(default_factory=list)
    """What starts it: a list, or a map by name. Without any it is started by hand, or by pipelines."""
    steps: list[WorkflowStep] = Field(min_length=1)
    """What is done."""
    edges: list[EdgeSpec] = Field(default_factory=list)
    """What follows what; steps to which none leads follow the triggers."""
    limits: LimitsSpec | None = None
    """Work orders of the project, as `project.limits` says them."""
    concurrency: int | None = Field(default=None, ge=1)
    """Runs side by side; goes before the project's."""
    isolation: Literal["shared", "process"] = "shared"
    """`process`: each run has a process of its own."""
    timeout: Duration = Field(default=300.0, gt=0, le=86_400.0)
    """A run that takes longer is killed."""
    run_memory_limit_mb: int | None = Field(default=None, ge=16)
    """Memory of a run, with `isolation: process`; one that wants more is killed."""
    on_lost: Literal["lost", "rerun"] = "lost"
    """What becomes of a run whose worker has died: it ends as lost, or is run again."""
    logs: bool = True
    """False: log lines of steps are not kept."""
    save_dataclips: bool = True
    """False: what steps return is not kept."""

    _origin: str | None = PrivateAttr(default=None)
    _folder: str | None = PrivateAttr(default=None)

    @field_validator("project", mode="before")
    @classmethod
    def _a_name_is_a_project(cls, project: Any) -> Any:
        return {"name": project} if isinstance(project, str) else project

    @field_validator("triggers", mode="before")
    @classmethod
    def _named_triggers(cls, triggers: Any) -> Any:
        if not isinstance(triggers, dict):
            return triggers
        return [
            {"name": name} | (each or {}) if isinstance(each, dict | None) else each for name, each in triggers.items()
        ]

    @model_validator(mode="after")
    def _memory_needs_a_process(self) -> Self:
        if self.run_memory_limit_mb is not None and self.isolation != "process":
            raise ProblemAt(["run_memory_limit_mb"], "needs isolation: process; runs that share one share its memory")
        if self.limits and self.project.limits and self.limits != self.project.limits:
            raise ProblemAt(["limits"], "contradicts project.limits", hint="they are the same limits; say them once")
        return self

    @property
    def full_name(self) -> str:
        """`project/name`."""
        return f"{self.project.name}/{self.name}"

    @property
    def origin(self) -> str | None:
        """The file it was read from."""
        return self._origin

    @property
    def folder(self) -> str | None:
        """Where relative paths of its steps begin."""
        return self._folder

    def with_origin(self, origin: str | None, folder: str | None) -> WorkflowSpec:
        """The same workflow, knowing its file."""
        spec = self.model_copy()
        spec._origin, spec._folder = origin, folder  # noqa: SLF001 - a copy of its own kind
        return spec

    def definition(self) -> dict[str, Any]:
        """As a snapshot keeps it: everything that a run needs, every edge said."""
        options = {
            "run_timeout_ms": round(self.timeout * 1000),
            "run_memory_limit_mb": self.run_memory_limit_mb,
            "enable_job_logs": self.logs,
            "save_dataclips": self.save_dataclips,
        }
        return {
            "steps": [step.definition() for step in self.steps],
            "edges": [*self._implied_edges(), *(edge.model_dump(by_alias=True) for edge in self.edges)],
            "triggers": [trigger.name for trigger in self.triggers],
            "isolation": self.isolation,
            "on_lost": self.on_lost,
            "options": {key: value for key, value in options.items() if value is not None},
            "folder": self.folder,
            "concurrency": self.concurrency,
        }

    def _implied_edges(self) -> Iterator[dict[str, str]]:
        reached = {edge.target for edge in self.edges}
        for step in self.steps:
            if step.name not in reached:
                yield from ({"from": each.name, "to": step.name, "when": "always"} for each in self.triggers)
