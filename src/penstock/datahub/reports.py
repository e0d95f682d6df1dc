"""DataHub's reporting base class for actions, and the reports that such actions keep."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from pydantic import BaseModel

from penstock.datahub.bases import Action
from penstock.datahub.context import PipelineContext
from penstock.datahub.envelope import EventEnvelope

_URN = "urn:li:dataHubAction:"


class EventProcessingStats(BaseModel):
    """When events happened and when they were worked on: the last one, and the last of each outcome. ISO times."""

    last_seen_event_time: str | None = None
    last_event_processed_time: str | None = None
    last_seen_event_time_success: str | None = None
    last_event_processed_time_success: str | None = None
    last_seen_event_time_failure: str | None = None
    last_event_processed_time_failure: str | None = None

    def start(self, event: EventEnvelope) -> None:
        self.last_event_processed_time = _now()
        self.last_seen_event_time = _happened(event)

    def end(self, event: EventEnvelope, success: bool) -> None:  # noqa: FBT001 - DataHub's signature
        happened = _happened(event)
        if success:
            self.last_seen_event_time_success = happened or self.last_seen_event_time_success
            self.last_event_processed_time_success = _now()
        else:
            self.last_seen_event_time_failure = happened or self.last_seen_event_time_failure
            self.last_event_processed_time_failure = _now()

    def __str__(self) -> str:
        return json.dumps(self.model_dump(), indent=2)


class StageStatus(StrEnum):
    """How a stage of an action stands."""

    SUCCESS = "success"
    FAILURE = "failure"
    RUNNING = "running"
    STOPPED = "stopped"


class ActionStageReport(BaseModel):
    """What one run of an action's stage did; `total_…` fields add up over runs."""

    start_time: int = 0
    end_time: int = 0
    total_assets_to_process: int = -1
    """-1: not known."""
    total_assets_processed: int = 0
    total_actions_executed: int = 0
    total_assets_impacted: int = 0
    event_processing_stats: EventProcessingStats | None = None
    status: StageStatus | None = None

    def start(self) -> None:
        self.start_time = _now_ms()
        self.status = StageStatus.RUNNING

    def end(self, success: bool) -> None:  # noqa: FBT001 - DataHub's signature
        self.end_time = _now_ms()
        self.status = StageStatus.SUCCESS if success else StageStatus.FAILURE

    def increment_assets_processed(self, asset: str) -> None:  # noqa: ARG002 - DataHub's signature
        self.total_assets_processed += 1

    def increment_assets_impacted(self, asset: str) -> None:  # noqa: ARG002 - DataHub's signature
        self.total_assets_impacted += 1

    def as_obj(self) -> dict[str, Any]:
        return self.model_dump(mode="json", exclude_none=True)

    def aggregatable_stats(self) -> dict[str, Any]:
        """The totals that are known, and the times of events."""
        unknown = "total_assets_to_process" if self.total_assets_to_process == -1 else None
        stats = {
            name: value for name, value in self.model_dump().items() if name.startswith("total_") and name != unknown
        }
        times = self.event_processing_stats.model_dump(exclude_none=True) if self.event_processing_stats else {}
        return stats | {f"event_processing_stats.{name}": str(value) for name, value in times.items()}


class ReportingAction(Action, ABC):
    """An action that knows its URN and gives a report."""

    def __init__(self, ctx: PipelineContext) -> None:
        super().__init__()
        self.ctx = ctx
        # A name may hold the URN already, with something before it.
        self.action_urn = _URN + ctx.pipeline_name.split(_URN)[-1 if _URN not in ctx.pipeline_name else 1]

    @abstractmethod
    def get_report(self) -> ActionStageReport: ...


def _happened(envelope: EventEnvelope) -> str | None:
    event: Any = envelope.event
    stamp = getattr(event, "auditStamp", None) or getattr(event, "auditHeader", None)
    return datetime.fromtimestamp(stamp.time / 1000, tz=UTC).isoformat() if stamp else None


def _now() -> str:
    return datetime.now(tz=UTC).isoformat()


def _now_ms() -> int:
    return int(datetime.now(tz=UTC).timestamp() * 1000)
