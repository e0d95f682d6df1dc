"""Metadata inventories → `dataset_inventory`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Final
from zoneinfo import ZoneInfo

import sqlalchemy as sa

from penstock.tables.metadata_tables import dataset_inventory
from penstock.tables.processor import BadEvent, Row, Writer
from penstock.tables.processors.reading import record_of, records_of, required_record, whole
from penstock.tables.rows import Rows, TableColumns

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_KEYS: Final = tuple(column.name for column in dataset_inventory.primary_key)


class InventoryProcessor(Writer):
    """One row per dataset of a platform and day."""

    tables: ClassVar[tuple[str, ...]] = (dataset_inventory.name,)

    def __init__(self) -> None:
        super().__init__()
        self._columns = TableColumns()

    def write(self, connection: sa.Connection, record: dict[str, Any] | None, topic: str) -> None:  # noqa: ARG002 - the contract
        if record is None:
            return
        time = whole(required_record(record, "auditHeader"), "time")
        platform, items = record.get("dataPlatformUrn"), records_of(record, "datasetList")
        given = {"auditHeader.time": time, "dataPlatformUrn": platform, "datasetList": items}
        missing = [name for name, value in given.items() if value is None]
        if missing or time is None or items is None:
            raise BadEvent(f"the event has no value for {', '.join(missing)}", received=missing)
        same = {"data_platform": platform, "event_date": _date(time, self.settings.zone)}
        rows = Rows(connection, self._columns)
        for item in items:
            rows.upsert(dataset_inventory, _KEYS, same | _row(item))


def _date(millis: int, zone: str) -> str:
    try:
        return (_EPOCH + timedelta(milliseconds=millis)).astimezone(ZoneInfo(zone)).date().isoformat()
    except OverflowError:
        raise BadEvent("`auditHeader.time` is no time", received=millis) from None


def _row(item: Mapping[str, Any]) -> Row:
    missing = [name for name in ("nativeName", "dataOrigin") if item.get(name) is None]
    if missing:
        raise BadEvent(f"an item of `datasetList` has no {', '.join(missing)}", received=missing)
    properties = record_of(item, "datasetProperties") or {}
    stamp = record_of(properties, "changeAuditStamp") or {}
    cases = record_of(properties, "caseSensitivity") or {}
    return {
        "native_name": item["nativeName"],
        "data_origin": item["dataOrigin"],
        "change_actor_urn": stamp.get("actorUrn"),
        "change_type": stamp.get("type"),
        "change_time": stamp.get("time"),
        "change_note": stamp.get("note"),
        "native_type": properties.get("nativeType"),
        "uri": properties.get("uri"),
        "dataset_name_case_sensitivity": cases.get("datasetName"),
        "field_name_case_sensitivity": cases.get("fieldName"),
        "data_content_case_sensitivity": cases.get("dataContent"),
    }
