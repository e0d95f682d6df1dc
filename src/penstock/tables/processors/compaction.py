"""Gobblin's compaction events → `stg_kafka_gobblin_compaction`."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from penstock.tables.processor import Row
from penstock.tables.processors.gobblin import GobblinProcessor, RowOfNumbers, TrackingEvent
from penstock.tables.staging import filled_columns, required_columns, stg_kafka_gobblin_compaction

_NAMESPACE: Final = "compaction.tracking.events"


class CompactionProcessor(GobblinProcessor):
    """A dataset's partition was compacted, or its records were counted."""

    columns: ClassVar[tuple[str, ...]] = filled_columns(stg_kafka_gobblin_compaction)
    required = required_columns(stg_kafka_gobblin_compaction)

    def process(self, record: dict[str, Any] | None, topic: str) -> Row | None:  # noqa: ARG002 - the contract
        if record is None:
            return None
        event = TrackingEvent(record)
        if event.namespace != _NAMESPACE:
            return None
        if event.name == "CompactionCompleted":
            row = self._completed(event)
        elif event.name == "CompactionRecordCounts":
            row = self._counted(event)
        else:
            return None
        row["dedupe_status"] = event.get("dedupeStatus")
        return row.finished(self.required)

    def _completed(self, event: TrackingEvent) -> RowOfNumbers:
        row = self.begin(event, "Gobblin:CompactionCompleted")
        row["partition_type"] = None
        row["partition_name"] = event.get("partition")
        row.number("record_count", event.get("recordCount"))
        row["late_record_count"] = 0
        return row

    def _counted(self, event: TrackingEvent) -> RowOfNumbers:
        row = self.begin(event, "Gobblin:CompactionRecordCounts")
        path = self.settings.expressions.compaction_path.find(event.get("DatasetOutputPath"))
        row["dataset"], row["partition_type"], row["partition_name"] = (
            path.group(1, 2, 3) if path else (None, None, None)
        )
        row.number("record_count", event.get("RegularRecordCount"))
        row.number("late_record_count", event.get("LateRecordCount"))
        return row
