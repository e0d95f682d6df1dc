"""Answers about workflows, as data."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from penstock.service.operations.models import View
from penstock.service.operations.trigger_models import TriggerItem


class WorkflowItem(View):
    """A workflow as lists show it."""

    id: str
    project: str
    """Its name."""
    project_id: str
    name: str
    origin: str
    """The file that it was applied from; `store`: it is kept here; `import`: it came from elsewhere."""
    steps: list[str] = Field(default_factory=list)
    triggers: list[str] = Field(default_factory=list)
    enabled_triggers: int = 0
    updated_at: str
    revision: int
    """The ETag of its replacements."""


class StepSpecView(View):
    """One step of a workflow."""

    name: str
    kind: str
    """`python`, `command`, `http` or `action`."""
    config: dict[str, Any] = Field(default_factory=dict)
    """Secrets are masked."""


class EdgeView(View):
    """A step follows a trigger or another step."""

    source: str
    target: str
    when: str = "always"


class WorkflowDetail(WorkflowItem):
    """A workflow with its steps and edges."""

    concurrency: int | None = None
    version: str | None = None
    """Of the definition; changes with every change of it."""
    versions: int = 0
    steps_detail: list[StepSpecView] = Field(default_factory=list)
    edges: list[EdgeView] = Field(default_factory=list)
    trigger_items: list[TriggerItem] = Field(default_factory=list)
    definition: dict[str, Any] = Field(default_factory=dict)
    """As runs use it; secrets are masked."""
    text: str
    """The same as a YAML document; triggers are not part of it."""
    warnings: list[str] = Field(default_factory=list)


class WorkflowVersion(View):
    """One version of a workflow's definition."""

    id: str
    """The snapshot that work orders and runs name."""
    version: str
    saved_at: str
    current: bool = False


class WorkflowVersionText(WorkflowVersion):
    text: str
    """YAML; secrets are masked."""
    definition: dict[str, Any] = Field(default_factory=dict)


class StartedView(View):
    """A work order that was made by hand."""

    work_order: str
    run: str
    dataclip: str
