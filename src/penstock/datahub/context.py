"""DataHub's context of a pipeline's plug-ins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass
class PipelineContext:
    """Given to every plug-in's `create`."""

    pipeline_name: str
    graph: Any
    """Client of the catalogue; None where the file has no `datahub` block."""
    event_source: Any = None
    """Takes the acknowledgements of events that an action deferred."""
