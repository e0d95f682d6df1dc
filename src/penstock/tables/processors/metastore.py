"""Hive's metastore audit events → `stg_kafka_metastore_audit`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from penstock.tables.java_values import optional_text, text
from penstock.tables.processor import BadEvent, Processor, ProcessorSettings, Row
from penstock.tables.processors.gobblin import require
from penstock.tables.staging import filled_columns, required_columns, stg_kafka_metastore_audit

_CONTENTS: Final = (
    ("metastoreTableAuditContent", "MetastoreTableAuditEvent", "newTable", "oldTable"),
    ("metastorePartitionAuditContent", "MetastorePartitionAuditEvent", "newPartition", "oldPartition"),
)
"""Field of the content, name of the event, and the two states of what it is about."""
_NO_PARTITION: Final = "?"


class MetastoreProcessor(Processor):
    """A table or partition was made, altered or dropped."""

    columns: ClassVar[tuple[str, ...]] = filled_columns(stg_kafka_metastore_audit)
    required = required_columns(stg_kafka_metastore_audit)

    def __init__(self) -> None:
        self.settings = ProcessorSettings()

    def configure(self, settings: ProcessorSettings) -> None:
        self.settings = settings

    def process(self, record: dict[str, Any] | None, topic: str) -> Row | None:  # noqa: ARG002 - the contract
        if record is None:
            return None
        header = _record(record.get("auditHeader"), "auditHeader")
        event_name, content, subject = _content(record)
        server = header.get("server")
        values = subject.get("values")
        row: Row = {
            "server": self.settings.clusters.code_of(None if server is None else text(server)),
            "instance": text(header.get("instance")),
            "app_name": text(header.get("appName")),
            "event_name": event_name,
            "event_type": content.get("eventType"),
            "log_event_time": content.get("timestamp"),
            "metastore_thrift_uri": text(content.get("metastoreThriftUri")),
            "metastore_version": optional_text(content.get("metastoreVersion")),
            "is_successful": text(content.get("isSuccessful")),
            "is_data_deleted": text(content.get("isDataDeleted")),
            "db_name": subject.get("dbName"),
            "table_name": subject.get("tableName"),
            "time_partition": _NO_PARTITION if values is None else text(values),
            "location": optional_text(subject.get("location")),
            "owner": optional_text(subject.get("owner")),
            "create_time": subject.get("createTime"),
            "last_access_time": subject.get("lastAccessTime"),
        }
        require(row, self.required)
        return row


def _content(record: Mapping[str, Any]) -> tuple[str, Mapping[str, Any], Mapping[str, Any]]:
    """The event's name, its content, and the table or partition it is about: the new one, else the old."""
    for name, event_name, new, old in _CONTENTS:
        content = record.get(name)
        if content is None:
            continue
        content = _record(content, name)
        subject = content.get(new) if content.get(new) is not None else content.get(old)
        if subject is None:
            raise BadEvent(f"`{name}` has neither `{new}` nor `{old}`")
        return event_name, content, _record(subject, new)
    raise BadEvent(f"the event has neither {' nor '.join(f'`{each[0]}`' for each in _CONTENTS)}")


def _record(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise BadEvent(f"`{name}` is not a record", received=type(value).__name__)
    return value
