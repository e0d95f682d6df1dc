"""Gobblin's audit events: owners that auditors found, and files that were classified."""

from __future__ import annotations

from typing import Any, ClassVar, Final

import sqlalchemy as sa

from penstock.core.event import json_bytes
from penstock.tables.java_values import strict
from penstock.tables.metadata_tables import dataset_owner, dict_dataset, stg_dataset_owner_unmatched
from penstock.tables.processor import BadEvent, Row, Writer
from penstock.tables.processors import datasets
from penstock.tables.processors.gobblin import TrackingEvent
from penstock.tables.processors.owners import store_owners
from penstock.tables.processors.reading import seconds, split_last
from penstock.tables.rows import Rows, TableColumns

_AUDITORS: Final = frozenset({"DaliLimitedRetentionAuditor", "DaliAutoPurgeAuditor", "DsIgnoreIDPCAuditor"})
_SOURCE: Final = "IDPC"
_GROUP_NAMESPACE: Final = "urn:li:griduser"
_PROPERTIES: Final = {
    "owner": "owner",
    "group": "group",
    "file_permission": "permission",
    "codec": "codec",
    "storage": "storage",
    "cluster": "cluster",
    "abstract_path": "abstractPath",
}


class AuditProcessor(Writer):
    """Writes `dataset_owner` and `dict_dataset`."""

    tables: ClassVar[tuple[str, ...]] = (dict_dataset.name, dataset_owner.name, stg_dataset_owner_unmatched.name)

    def __init__(self) -> None:
        super().__init__()
        self._columns = TableColumns()

    def write(self, connection: sa.Connection, record: dict[str, Any] | None, topic: str) -> None:  # noqa: ARG002 - the contract
        if record is None:
            return
        event = TrackingEvent(record)
        rows = Rows(connection, self._columns)
        if event.name in _AUDITORS and self.settings.owners:
            self._owners(rows, event)
        elif event.name == "MetadataFileClassifier":
            self._file(rows, event)

    def _owners(self, rows: Rows, event: TrackingEvent) -> None:
        if (event.get("HasError") or "").lower() == "true":
            return
        path, urns = event.get("DatasetPath"), event.get("OwnerURNs")
        if path is None or urns is None:
            raise BadEvent(f"the event has no `{'DatasetPath' if path is None else 'OwnerURNs'}`")
        dataset = datasets.by_urn(rows, f"hdfs://{'' if path.startswith('/') else '/'}{path}")
        if dataset is None:
            return
        at = seconds(event.timestamp)
        owners = [_owner(urn.strip(), at) for urn in urns.split(",") if urn.strip()]
        store_owners(rows, dataset, dataset.urn, owners, now=self.settings.now(), source=_SOURCE)

    def _file(self, rows: Rows, event: TrackingEvent) -> None:
        path = event.get("dataset")
        expressions = self.settings.expressions
        if not path or any(pattern.find(path) for pattern in expressions.audit_skip):
            return
        modified = event.get("modificationTime")
        name, prefix = expressions.audit_name.find(path), expressions.audit_location_prefix.start(path)
        now = self.settings.now()
        row = {
            "urn": f"hdfs://{path}",
            "name": name[1] if name else "",
            "schema": event.get("schema"),
            "schema_type": "JSON",
            "source": "Hdfs",
            "dataset_type": "hdfs",
            "is_active": True,
            "source_modified_time": None if modified is None else seconds(strict(modified, "modificationTime")),
            "location_prefix": prefix[0] if prefix else None,
            "parent_name": self._parent(path),
            "properties": json_bytes({name: event.get(key) for name, key in _PROPERTIES.items()}).decode(),
            "created_time": now,
            "modified_time": now,
        }
        rows.upsert(dict_dataset, ["urn"], row, once=["created_time"])

    def _parent(self, path: str) -> str:
        for pattern in self.settings.expressions.audit_parent:
            found = pattern.full(path)
            if found:
                return found[0 if self.settings.as_original else 1]
        return ""


def _owner(urn: str, at: int | None) -> Row:
    namespace, owner_id = split_last(urn, ":")
    is_group = namespace.lower() == _GROUP_NAMESPACE
    return {
        "namespace": namespace,
        "owner_id": owner_id,
        "owner_type": None,
        "owner_id_type": "GROUP" if is_group else "PERSON",
        "is_group": "Y" if is_group else "N",
        "owner_source": _SOURCE,
        "source_time": at,
        "created_time": at,
    }
