"""Lumos' snapshots and deltas → `stg_kafka_gobblin_lumos`."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from penstock.tables.java_regex import JavaPattern, java_pattern
from penstock.tables.java_values import number
from penstock.tables.processor import Row
from penstock.tables.processors.gobblin import GobblinProcessor, RowOfNumbers, TrackingEvent
from penstock.tables.staging import filled_columns, required_columns, stg_kafka_gobblin_lumos

_EARLIEST_DATE: Final = 1_460_000_000_000
"""A smaller `Dropdate` (April 2016, in ms) is none; the time is then taken from a name."""
_ORIGINAL_REGULAR: Final = r"146\d{7,10}-\w+-\d+"


class LumosProcessor(GobblinProcessor):
    """A database table was published as a snapshot, or as a delta to one."""

    columns: ClassVar[tuple[str, ...]] = filled_columns(stg_kafka_gobblin_lumos)
    required = required_columns(stg_kafka_gobblin_lumos)

    def process(self, record: dict[str, Any] | None, topic: str) -> Row | None:  # noqa: ARG002 - the contract
        if record is None:
            return None
        event = TrackingEvent(record)
        if event.namespace is None or event.name not in ("DeltaPublished", "SnapshotPublished"):
            return None
        row = self.begin(event, f"Lumos:{event.name}")
        partition, directory = event.get("partition"), event.get("TargetDirectory")
        row["location"] = directory
        row["partition_type"] = "snapshot"
        if event.name == "SnapshotPublished":
            row["partition_name"] = partition
            row["subpartition_type"] = row["subpartition_name"] = None
            self._date(row, event, directory)
        else:
            snapshot = self.settings.expressions.lumos_partition.find(directory)
            row["partition_name"] = snapshot[1] if snapshot else None
            row["subpartition_type"], row["subpartition_name"] = "_delta", partition
            self._date(row, event, partition)
        row.value_or_zero("max_data_key", 0 if self._regular.find(partition) else self._epoch(partition))
        row.number("record_count", event.get("recordCount"))
        self._source(row, event)
        return row.finished(self.required)

    @property
    def _regular(self) -> JavaPattern:
        if self.settings.as_original:
            return java_pattern(_ORIGINAL_REGULAR)
        return self.settings.expressions.lumos_regular

    def _date(self, row: RowOfNumbers, event: TrackingEvent, fallback: str | None) -> None:
        date = number(event.get("Dropdate")) or 0
        row.value_or_zero("max_data_date_epoch3", date if date >= _EARLIEST_DATE else self._epoch(fallback))

    def _epoch(self, name: str | None) -> int | None:
        found = self.settings.expressions.lumos_epoch.find(name)
        return number(found[1]) if found else None

    def _source(self, row: RowOfNumbers, event: TrackingEvent) -> None:
        place = event.get("DatasourceColo")
        found = self.settings.expressions.lumos_source.find(place)
        row["source_datacenter"] = found[2] if found else place
        row["source_deployment_env"] = found[1] if found else None
        row["source_database"] = event.get("Database")
        row["source_table"] = event.get("Table")
