"""Gobblin's copy events → `stg_kafka_gobblin_distcp`."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from penstock.tables.processor import Row
from penstock.tables.processors.gobblin import GobblinProcessor, TrackingEvent
from penstock.tables.staging import filled_columns, required_columns, stg_kafka_gobblin_distcp

_NAMESPACE: Final = "gobblin.copy.CopyDataPublisher"


class DistcpProcessor(GobblinProcessor):
    """A dataset was copied and published."""

    columns: ClassVar[tuple[str, ...]] = filled_columns(stg_kafka_gobblin_distcp)
    required = required_columns(stg_kafka_gobblin_distcp)

    def process(self, record: dict[str, Any] | None, topic: str) -> Row | None:  # noqa: ARG002 - the contract
        if record is None:
            return None
        event = TrackingEvent(record)
        if event.namespace != _NAMESPACE or event.name != "DatasetPublished":
            return None
        row = self.begin(event, "DistcpNG:DatasetPublished")
        row["partition_type"] = None
        row["partition_name"] = event.get("partition")
        row.number("upsteam_timestamp", event.get("upstreamTimestamp"))  # sic: the column's name
        row.number("origin_timestamp", event.get("originTimestamp"))
        row["source_path"] = event.get("SourcePath")
        row["target_path"] = event.get("TargetPath")
        return row.finished(self.required)
