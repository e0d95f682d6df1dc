"""DataHub's models of a pipeline's configuration, for code that builds pipelines itself."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict


class FailureMode(StrEnum):
    """What a failure does once the retries are used up."""

    THROW = "THROW"
    CONTINUE = "CONTINUE"

    @classmethod
    def _missing_(cls, value: object) -> FailureMode | None:
        return cls.__members__.get(value.upper()) if isinstance(value, str) else None


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class SourceConfig(_Strict):
    """A source's type and configuration."""

    type: str
    config: dict[str, Any] | None = None


class TransformConfig(SourceConfig):
    """A transformer's type and configuration."""


class FilterSpec(SourceConfig):
    """A filter's type and configuration."""


class ActionConfig(SourceConfig):
    """An action's type and configuration."""


class FilterConfig(_Strict):
    """The deprecated `filter` block."""

    event_type: str | list[str]
    event: dict[str, Any] | None = None


class PipelineOptions(BaseModel):
    """The `options` block; unknown keys are ignored."""

    retry_count: int | None = None
    failure_mode: FailureMode | None = None
    failed_events_dir: str | None = None


class PipelineConfig(_Strict):
    """One pipeline's file."""

    name: str
    enabled: bool = True
    source: SourceConfig
    filter: FilterConfig | None = None
    filters: list[FilterSpec] | None = None
    transform: list[TransformConfig] | None = None
    action: ActionConfig
    datahub: dict[str, Any] | None = None
    options: PipelineOptions | None = None
