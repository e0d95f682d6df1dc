"""A dataset's schema: the dataset itself, its fields, and the schema as it was given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock.tables.metadata_tables import dataset_schema_info, dict_dataset, dict_field_detail
from penstock.tables.processor import BadEvent, Row
from penstock.tables.processors import datasets
from penstock.tables.processors.datasets import Dataset
from penstock.tables.processors.reading import (
    json_text,
    record_of,
    records_of,
    required_record,
    seconds,
    split_last,
    whole,
)
from penstock.tables.rows import Rows

_SOURCE: Final = "API"
_CARRIED: Final = ("namespace", "comment_ids", "default_comment_id", "is_partitioned", "is_indexed")
"""What people or other events have said of a field outlives a new schema."""


def store_schema(rows: Rows, dataset: Dataset | None, urn: str, schema: Mapping[str, Any], now: int) -> Dataset:
    """Store the schema of a dataset, which is made where it is not known yet."""
    created = whole(schema, "createTime")
    if created is None:
        raise BadEvent("`schema` has no `createTime`")
    known = _store_dataset(rows, dataset, urn, schema, now)
    fields = records_of(schema, "fieldSchema")
    if fields is not None:
        _store_fields(rows, known, fields)
    _store_info(rows, known, schema, now)
    return known


def _store_dataset(rows: Rows, dataset: Dataset | None, urn: str, schema: Mapping[str, Any], now: int) -> Dataset:
    original = required_record(schema, "originalSchema")
    said = {
        "schema": original.get("text"),
        "schema_type": original.get("format"),
        "fields": json_text(schema.get("fieldSchema")),
        "source": _SOURCE,
        "modified_time": now,
    }
    if dataset is not None:
        rows.update(dict_dataset, {"id": dataset.id}, said)
        return dataset
    scheme, mark, _ = urn.partition("://")
    new = {
        "urn": urn,
        "name": split_last(urn, "/")[1],
        "dataset_type": scheme.lower() if mark else None,
        "source_created_time": seconds(whole(schema, "createTime")),
        "created_time": now,
    }
    rows.upsert(dict_dataset, ["urn"], said | new, once=list(new))
    made = datasets.by_urn(rows, urn)
    if made is None:
        raise BadEvent("the dataset was stored and cannot be found again", received=urn)
    return made


def _store_fields(rows: Rows, dataset: Dataset, fields: list[Mapping[str, Any]]) -> None:
    before = rows.select(dict_field_detail, ["field_name", "parent_path", *_CARRIED], {"dataset_id": dataset.id})
    known = {(row["field_name"], row["parent_path"] or ""): row for row in before}
    made = []
    for place, field in enumerate(fields, 1):
        row = _field(dataset, field, place)
        old = known.get((row["field_name"], row["parent_path"]))
        made.append(
            row | ({name: old[name] for name in _CARRIED} if old else {"is_partitioned": "N", "is_indexed": "N"})
        )
    # Rows that go into one statement must have the same columns.
    columns = dict.fromkeys(name for row in made for name in row)
    rows.replace(
        dict_field_detail, {"dataset_id": dataset.id}, [{name: row.get(name) for name in columns} for row in made]
    )


def _field(dataset: Dataset, field: Mapping[str, Any], place: int) -> Row:
    path = field.get("fieldPath")
    if not path:
        raise BadEvent("a field of `fieldSchema` has no `fieldPath`")
    parent, name = split_last(path, ".")
    position = whole(field, "position")
    return {
        "dataset_id": dataset.id,
        "fields_layout_id": 0,
        "sort_id": place if position is None else position,
        "parent_sort_id": whole(field, "parentFieldPosition") or 0,
        "parent_path": parent,
        "field_name": name,
        "field_label": field.get("label"),
        "data_type": field.get("type"),
        "data_size": whole(field, "maxCharLength"),
        "data_precision": whole(field, "precision"),
        "data_fraction": whole(field, "scale"),
        "is_nullable": _flag(field.get("nullable", True)),
        "is_recursive": _flag(field.get("isRecursive")),
        "default_value": field.get("defaultValue"),
    }


def _flag(value: Any) -> str:
    return "Y" if value else "N"


def _store_info(rows: Rows, dataset: Dataset, schema: Mapping[str, Any], now: int) -> None:
    row = {
        "dataset_id": dataset.id,
        "dataset_urn": dataset.urn,
        "is_backward_compatible": schema.get("isBackwardCompatible"),
        "create_time": whole(schema, "createTime"),
        "revision": whole(schema, "revision"),
        "version": schema.get("version"),
        "name": schema.get("name"),
        "description": schema.get("description"),
        "original_schema": json_text(record_of(schema, "originalSchema")),
        "key_schema": json_text(record_of(schema, "keySchema")),
        "is_field_name_case_sensitive": schema.get("isFieldNameCaseSensitive"),
        "field_schema": json_text(schema.get("fieldSchema")),
        "change_data_capture_fields": json_text(schema.get("changeDataCaptureFields")),
        "audit_fields": json_text(schema.get("auditFields")),
        "modified_time": now,
    }
    rows.upsert(dataset_schema_info, ["dataset_id"], row)
