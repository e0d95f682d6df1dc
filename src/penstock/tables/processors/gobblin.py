"""What the processors of Gobblin's tracking events share: their metadata, and rows whose numbers may be missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock.tables.java_values import INT, LONG, number, text
from penstock.tables.processor import BadEvent, Processor, ProcessorSettings, Row

_MISSING: Final = object()


class TrackingEvent:
    """One event: `timestamp`, `namespace`, `name` and a map of texts."""

    __slots__ = ("_metadata", "name", "namespace", "timestamp")

    def __init__(self, record: Mapping[str, Any]) -> None:
        self.timestamp: int | None = record.get("timestamp")
        self.namespace: str | None = record.get("namespace")
        self.name: str | None = record.get("name")
        self._metadata: Mapping[str, Any] = record.get("metadata") or {}

    def get(self, key: str) -> str | None:
        """None where the key is missing; the text `null` where its value is null."""
        value = self._metadata.get(key, _MISSING)
        if value.__class__ is str:
            return value
        return None if value is _MISSING else text(value)


class RowOfNumbers(dict[str, Any]):
    """A row that notes which of its numbers fell back to 0."""

    def __init__(self) -> None:
        super().__init__()
        self._defaulted: list[str] = []

    def number(self, column: str, written: str | None, bits: int = LONG) -> None:
        """The number in a text; 0 where there is none."""
        self.value_or_zero(column, number(written, bits))

    def value_or_zero(self, column: str, value: int | None) -> None:
        if value is None:
            self._defaulted.append(column)
        self[column] = value or 0

    def finished(self, required: tuple[str, ...]) -> Row:
        """The row, which is stored only when every column that must have a value has one."""
        require(self, required)
        self["ps_notes"] = ", ".join(self._defaulted) or None
        return self


def require(row: Row, required: tuple[str, ...]) -> None:
    """Refuse a row without a value for a column that must have one."""
    missing = [name for name in required if row.get(name) is None]
    if missing:
        raise BadEvent(f"the event has no value for {', '.join(missing)}", received=missing)


class GobblinProcessor(Processor):
    """Base of those that make one row of a tracking event."""

    required: tuple[str, ...]

    def __init__(self) -> None:
        self.settings = ProcessorSettings()

    def configure(self, settings: ProcessorSettings) -> None:
        self.settings = settings

    def begin(self, event: TrackingEvent, context: str) -> RowOfNumbers:
        """What all rows of tracking events have."""
        row = RowOfNumbers()
        row["cluster"] = self.settings.clusters.code_of(event.get("clusterIdentifier"))
        row["dataset"] = event.get("datasetUrn")
        row["job_context"] = context
        row["project_name"] = event.get("azkabanProjectName")
        row["flow_name"] = event.get("azkabanFlowId")
        row["job_name"] = event.get("azkabanJobId")
        row.number("flow_exec_id", event.get("azkabanExecId"), INT)
        row["log_event_time"] = event.timestamp
        return row
