"""From staging rows to load status: what each column of `log_dataset_instance_load_status` is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from penstock.tables import staging
from penstock.tables.java_regex import java_pattern

Row = Mapping[str, Any]

IDENTITY: Final = tuple(column.name for column in staging.log_dataset_instance_load_status.primary_key)
_DATE: Final = java_pattern(r"(?<!\d)((?:19|20)\d\d)([-/_.]?)(\d\d)\2(\d\d)(?:[-/_.T ]?([01]\d|2[0-3]))?(?!\d)")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Source(NamedTuple):
    """A staging table, and what its rows say."""

    table: sa.Table
    operation: str
    grain: Callable[[Row], str]
    expression: Callable[[Row], str | None]
    time: Callable[[Row], int]
    records: Callable[[Row], int | None]
    uri: Callable[[Row], str | None]


def date_in(name: str | None) -> int | None:
    """Epoch seconds of the first date in a name, with its hour if it has one: `daily/2016/11/01`, `2016-11-01-13`."""
    found = _DATE.find(name)
    if not found:
        return None
    try:
        moment = datetime(int(found[1]), int(found[3]), int(found[4]), int(found[5] or 0), tzinfo=UTC)
    except ValueError:
        return None
    return int(moment.timestamp())


def load_status(source: Source, row: Row, dataset_id: int, db_id: int) -> dict[str, Any]:
    """The load status that a staging row stands for."""
    at = source.time(row)
    return {
        "dataset_id": dataset_id,
        "db_id": db_id,
        "dataset_type": "hdfs",
        "dataset_native_name": row["dataset"],
        "operation_type": source.operation,
        "partition_grain": source.grain(row),
        "partition_expr": source.expression(row) or "",
        "data_time_expr": _shown(at),
        "data_time_epoch": at,
        "record_count": source.records(row),
        "log_time_epoch": row["log_event_time"] // 1000,
        "ref_uri": source.uri(row),
    }


def rank(row: Row) -> tuple[Any, ...]:
    """Of two rows of one identity the greater stays: the later one, and whichever it is when both are of one second.

    So the outcome is the same whatever is merged first, and however often.
    """
    count = -1 if row["record_count"] is None else row["record_count"]
    return row["log_time_epoch"], row["operation_type"] or "", count, row["ref_uri"] or ""


def _shown(epoch: int) -> str:
    try:
        return (_EPOCH + timedelta(seconds=epoch)).strftime("%Y-%m-%d %H:%M:%S")
    except OverflowError:
        return str(epoch)


def _time_of_partition(row: Row) -> int:
    found = date_in(row["partition_name"])
    return int(row["log_event_time"] // 1000) if found is None else found


def _time_of_lumos(row: Row) -> int:
    date = row["max_data_date_epoch3"]
    return int((row["log_event_time"] if date is None else date) // 1000)


def _all_records(row: Row) -> int | None:
    counts = [row[name] for name in ("record_count", "late_record_count") if row[name] is not None]
    return sum(counts) if counts else None


SOURCES: Final = {
    source.table.name: source
    for source in (
        Source(
            staging.stg_kafka_gobblin_compaction,
            "compact",
            lambda row: row["partition_type"] or "unknown",
            lambda row: row["partition_name"],
            _time_of_partition,
            _all_records,
            lambda _row: None,
        ),
        Source(
            staging.stg_kafka_gobblin_lumos,
            "load",
            lambda row: "delta" if row["subpartition_type"] is not None else "snapshot",
            lambda row: row["subpartition_name"] or row["partition_name"],
            _time_of_lumos,
            lambda row: row["record_count"],
            lambda row: row["location"],
        ),
        Source(
            staging.stg_kafka_gobblin_distcp,
            "load",
            lambda _row: "unknown",
            lambda row: row["partition_name"],
            _time_of_partition,
            lambda _row: None,
            lambda row: row["target_path"],
        ),
    )
}
"""Staging tables that tell of loads."""
