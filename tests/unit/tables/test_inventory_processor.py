"""Inventories of platforms, by day."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.tables.metadata_tables import dataset_inventory
from penstock.tables.processor import BadEvent
from penstock.tables.processors.inventory import InventoryProcessor
from tests.unit.tables.conftest import Warehouse

AT = 1_478_043_000_000  # 2016-11-01T23:30:00Z


def event(*items: dict[str, Any], **given: Any) -> dict[str, Any]:
    return {
        "auditHeader": {"time": AT},
        "dataPlatformUrn": "urn:li:dataPlatform:hive",
        "datasetList": list(items),
    } | given


def item(name: str, **properties: Any) -> dict[str, Any]:
    return {"nativeName": name, "dataOrigin": "PROD", "datasetProperties": properties or None}


def test_a_row_per_dataset_and_day(warehouse: Warehouse) -> None:
    stamp = {"actorUrn": "urn:li:corpuser:ada", "type": "CREATE", "time": 5, "note": "n"}
    cases = {"datasetName": True, "fieldName": False, "dataContent": True}
    full = item("db.a", changeAuditStamp=stamp, nativeType="TABLE", uri="hive:///db/a", caseSensitivity=cases)
    half = item("db.b", changeAuditStamp=stamp, nativeType="VIEW")
    writer = InventoryProcessor()
    for _ in range(2):
        warehouse.write(writer, event(full, half, item("db.c")))
    first, second, third = warehouse.rows(dataset_inventory)
    assert first == {
        "data_platform": "urn:li:dataPlatform:hive",
        "native_name": "db.a",
        "data_origin": "PROD",
        "event_date": "2016-11-01",
        "change_actor_urn": "urn:li:corpuser:ada",
        "change_type": "CREATE",
        "change_time": 5,
        "change_note": "n",
        "native_type": "TABLE",
        "uri": "hive:///db/a",
        "dataset_name_case_sensitivity": True,
        "field_name_case_sensitivity": False,
        "data_content_case_sensitivity": True,
    }
    assert (second["native_type"], second["data_content_case_sensitivity"]) == ("VIEW", None)
    assert (third["native_name"], third["change_time"], third["uri"]) == ("db.c", None, None)
    warehouse.write(writer, event(item("db.a", nativeType="VIEW")))
    assert warehouse.rows(dataset_inventory, "native_type")[0] == "VIEW"


def test_the_date_is_of_the_job_s_zone(warehouse: Warehouse) -> None:
    warehouse.write(InventoryProcessor(), event(item("a")), zone="Europe/Berlin")
    assert warehouse.rows(dataset_inventory, "event_date") == ["2016-11-02"]


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (event(auditHeader=None), "no `auditHeader`"),
        (event(auditHeader={}, dataPlatformUrn=None), "no value for auditHeader.time, dataPlatformUrn"),
        (event(datasetList=None), "no value for datasetList"),
        (event(item("a"), {"nativeName": "b"}), "an item of `datasetList` has no dataOrigin"),
        (event(item("a"), auditHeader={"time": 2**62}), "is no time"),
    ],
)
def test_all_or_nothing(warehouse: Warehouse, record: dict[str, Any], words: str) -> None:
    with pytest.raises(BadEvent) as refused:
        warehouse.write(InventoryProcessor(), record)
    assert words in str(refused.value)
    assert warehouse.counts() == {}


def test_a_tombstone_is_nothing_to_store(warehouse: Warehouse) -> None:
    warehouse.write(InventoryProcessor(), None)
    assert warehouse.counts() == {}
