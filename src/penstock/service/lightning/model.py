"""A project of Lightning, whatever file it came from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from penstock.config.problems import Path as KeyPath


@dataclass(slots=True, kw_only=True)
class LightningTrigger:
    """A Kafka trigger."""

    name: str
    id: str | None
    enabled: bool
    configuration: Any
    """`kafka_configuration` as written."""
    group_id: str | None = None
    comment: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    """Penstock's own, where Penstock wrote the file."""
    path: KeyPath = ()
    """Where it stands in the file."""


@dataclass(slots=True, kw_only=True)
class LightningWorkflow:
    """A workflow: its Kafka triggers, and the rest as text."""

    name: str
    id: str | None = None
    triggers: list[LightningTrigger] = field(default_factory=list)
    jobs: list[dict[str, Any]] = field(default_factory=list)
    edges: list[dict[str, Any]] = field(default_factory=list)
    penstock: dict[str, Any] = field(default_factory=dict)
    """Steps, edges and settings, where Penstock wrote the file."""
    delete: bool = False
    path: KeyPath = ()


@dataclass(frozen=True, slots=True)
class Ignored:
    """Something of a file that is not used."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


@dataclass(slots=True, kw_only=True)
class LightningProject:
    """What a file holds."""

    name: str
    description: str | None = None
    workflows: list[LightningWorkflow] = field(default_factory=list)
    ignored: list[Ignored] = field(default_factory=list)
