"""Metadata change events → `dict_dataset`, `dict_field_detail` and what else is known of a dataset."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

import sqlalchemy as sa

from penstock.tables import metadata_tables as t
from penstock.tables.processor import BadEvent, Row, Writer
from penstock.tables.processors import dataset_items, datasets
from penstock.tables.processors.dataset_items import Change
from penstock.tables.processors.dataset_schema import store_schema
from penstock.tables.processors.datasets import Dataset
from penstock.tables.processors.owners import store_owners
from penstock.tables.processors.reading import list_of, record_of, records_of, seconds, split_last, whole
from penstock.tables.rows import Rows, TableColumns

_ITEMS: Final[tuple[tuple[str, Callable[[Change], None]], ...]] = (
    ("datasetProperties", dataset_items.case_sensitivity),
    ("references", dataset_items.references),
    ("partitionSpec", dataset_items.partition_spec),
    ("deploymentInfo", dataset_items.deployment),
    ("tags", dataset_items.tags),
    ("constraints", dataset_items.constraints),
    ("indices", dataset_items.indices),
    ("capacity", dataset_items.capacity),
    ("privacyCompliancePolicy", dataset_items.privacy),
    ("securitySpecification", dataset_items.security),
)
"""What an event may say of a dataset that is known, in the order in which it is applied."""


class MetadataChangeProcessor(Writer):
    """Everything that an event says about its dataset, or nothing of it."""

    tables: ClassVar[tuple[str, ...]] = tuple(
        name for name in t.metadata.tables if not name.startswith("job_") and name != t.dataset_inventory.name
    )

    def __init__(self) -> None:
        super().__init__()
        self._columns = TableColumns()

    def write(self, connection: sa.Connection, record: dict[str, Any] | None, topic: str) -> None:  # noqa: ARG002 - the contract
        time = None if record is None else whole(record_of(record, "auditHeader") or {}, "time")
        if record is None or time is None:
            return
        rows, now = Rows(connection, self._columns), self.settings.now()
        dataset = datasets.find(rows, record)
        schema = record_of(record, "schema")
        if schema is not None:
            dataset = store_schema(rows, dataset, _name(record), schema, now)
        owners = records_of(record, "owners")
        if owners:
            urn = dataset.urn if dataset else _name(record)
            made = [_owner(owner, time) for owner in owners]
            store_owners(rows, dataset, urn, made, now=now, source=record.get("source"))
        self._store_items(rows, dataset, record, now)

    def _store_items(self, rows: Rows, dataset: Dataset | None, record: Mapping[str, Any], now: int) -> None:
        present = [(name, store) for name, store in _ITEMS if self._says(record, name)]
        if dataset is None:
            wanted = [name for name, _ in present if name != "tags" or record["tags"]]
            if wanted:
                raise BadEvent(
                    f"the event has {', '.join(wanted)} for a dataset that `dict_dataset` does not know",
                    received=datasets.candidates(record) or None,
                    hint="send its schema first, then replay the dead letter",
                )
            return
        change = Change(rows, dataset, record, now)
        for _, store in present:
            store(change)

    def _says(self, record: Mapping[str, Any], name: str) -> bool:
        if name == "datasetProperties":
            return record_of(record_of(record, name) or {}, "caseSensitivity") is not None
        if name == "tags":
            # Every event must carry tags, so that an empty list says nothing; the original took it for "no tags".
            given = list_of(record, name)
            return bool(given) or (given is not None and self.settings.as_original)
        return record.get(name) is not None


def _name(record: Mapping[str, Any]) -> str:
    names = datasets.candidates(record)
    if not names:
        raise BadEvent("the event names no dataset: it has no `datasetProperties.uri`, `urn` or `datasetIdentifier`")
    return names[0]


def _owner(owner: Mapping[str, Any], time: int) -> Row:
    given = owner.get("owner")
    if not given:
        raise BadEvent("one of `owners` has no `owner`")
    namespace, owner_id = split_last(given, ":")
    kind = owner.get("ownerType")
    return {
        "namespace": namespace,
        "owner_id": owner_id,
        "owner_type": owner.get("ownerCategory"),
        "owner_id_type": kind,
        "is_group": "Y" if (kind or "").lower() == "group" else "N",
        "owner_source": owner.get("ownerSource"),
        "source_time": seconds(time),
        "created_time": seconds(time),
    }
