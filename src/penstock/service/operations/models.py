"""What operations answer about pipelines, as data; the API's schemas are made from these."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from penstock.config.problems import Problem
from penstock.core.status import State
from penstock.store import Desired

Text = Annotated[str, Field(max_length=1_000, pattern=r"^[^\x00]*$")]
"""A text of a caller that a database takes: Unicode, which the bounds have checked, and PostgreSQL has no place for
NUL."""


class View(BaseModel):
    """An answer: its fields' docstrings become the schema's descriptions."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)


class PipelineItem(View):
    """A pipeline as lists show it."""

    name: str
    state: State
    """What it does."""
    reason: str | None = None
    """Why it does not run."""
    desired: Desired = "running"
    """What it should do."""
    set_by: str | None = None
    set_at: str | None = None
    resume_at: str | None = None
    rate_limit: float | str | None = None
    """Events per second said by command, `none` for no limit; null: as the spec says."""
    events: int = 0
    """Since its instances were started."""
    failures: int = 0
    dead_letters: int = 0
    """Neither replayed nor discarded."""
    lag: int | None = None
    """Events not worked on yet, over all partitions; null: not known."""
    partitions: int = 0
    rate: float | None = None
    """Events per second lately, on the instance that answers."""
    p50_ms: float | None = None
    p99_ms: float | None = None
    instances: list[str] = Field(default_factory=list)
    managed: bool = False
    """Kept in the store; false: defined by a file."""
    project: str | None = None
    """Id of the project it belongs to."""


class PartitionView(View):
    """One partition of a pipeline."""

    topic: str
    partition: int
    committed: int | None = None
    """The lowest offset that is not finished."""
    end: int | None = None
    """The end of the log."""
    lag: int | None = None
    owner: str | None = None
    """Id of the instance that reads it."""


class PipelineDetail(PipelineItem):
    """A pipeline with its spec and partitions."""

    spec: dict[str, Any] | None = None
    """As it runs, or last ran; secrets masked."""
    version: str | None = None
    """Of the spec; changes with every change of it."""
    file: str | None = None
    """Where it is defined."""
    text: str | None = None
    """The document, where it is kept in the store."""
    revision: int | None = None
    """Of the document; the ETag of its replacements."""
    places: list[PartitionView] = Field(default_factory=list)


class ProblemView(View):
    """One thing that is wrong with a document."""

    message: str
    line: int | None = None
    """Counted from 1."""
    column: int | None = None
    path: str = ""
    """Key path, for instance `options.retry.attempts`."""
    received: Any = None
    allowed: list[str] | None = None
    hint: str | None = None

    @classmethod
    def of(cls, problem: Problem) -> ProblemView:
        data = problem.as_dict()
        return cls(**{name: data[name] for name in cls.model_fields if name in data})


class Validation(View):
    """What is right and wrong with a document."""

    valid: bool
    name: str | None = None
    spec: dict[str, Any] | None = None
    """As it would run; secrets masked."""
    problems: list[ProblemView] = Field(default_factory=list)
    warnings: list[ProblemView] = Field(default_factory=list)


class VersionView(View):
    """One version of a pipeline's spec."""

    version: str
    """A revision of a document in the store, or the hash of a spec that ran."""
    saved_at: str
    by: str | None = None
    current: bool = False


class VersionText(VersionView):
    text: str
    """YAML; secrets masked."""


class Difference(View):
    """What changed between two versions."""

    old: str
    new: str
    diff: str
    """Unified; empty where they are the same."""


class HistoryEntry(View):
    """Something that happened to a pipeline."""

    id: int
    at: str
    kind: str
    text: str
    instance: str | None = None
    data: dict[str, Any] = Field(default_factory=dict)
