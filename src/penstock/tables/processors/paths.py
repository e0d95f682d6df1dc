"""From the name of a dataset in a lineage event to what it is an instance of: patterns of paths, kept in tables."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import sqlalchemy as sa
import structlog

from penstock.core.clock import Clock
from penstock.core.errors import ConfigError
from penstock.tables.java_regex import JavaPattern, java_pattern
from penstock.tables.lookup_tables import dataset_partition_layout_pattern, filename_pattern
from penstock.tables.rows import TableColumns

log = structlog.get_logger("penstock.processors")

_HIVE: Final = java_pattern(r"(dalids|hive):///(\w.*/)?(\w.*)(\.|/)(\w.*)$")
_HDFS: Final = java_pattern(r"hdfs://.*:\d{4}(/.*)")
_TCP: Final = java_pattern(r"tcp://.*:\d{5}/(.*)")
_PASSING: Final = ("/tmp/", "/temp/")  # noqa: S108 - paths of datasets, nothing is written there
_REFRESH_SECONDS: Final = 60.0


class Analysed(NamedTuple):
    """What a path says."""

    abstracted: str
    layout_id: int | None = None
    partition: str | None = None
    partition_type: str | None = None


class _Layout(NamedTuple):
    pattern: JavaPattern
    layout_id: int
    leading_path: int
    partition: int | None
    partition_group: str | None


class Paths:
    """The patterns of `filename_pattern` and `dataset_partition_layout_pattern`, read again now and then."""

    def __init__(self, surroundings: Clock) -> None:
        self._surroundings = surroundings
        self._due = 0.0
        self._files: list[JavaPattern] = []
        self._layouts: list[_Layout] = []

    def refresh(self, connection: sa.Connection, columns: TableColumns) -> None:
        """A table that is missing holds no patterns."""
        now = self._surroundings.monotonic()
        if now < self._due:
            return
        self._due = now + _REFRESH_SECONDS
        if columns.has_table(connection, filename_pattern):
            found = connection.scalars(sa.select(filename_pattern.c.regex))
            self._files = [pattern for source in found if (pattern := _usable(filename_pattern, source))]
        if columns.has_table(connection, dataset_partition_layout_pattern):
            table = dataset_partition_layout_pattern
            rows = connection.execute(sa.select(table).order_by(table.c.sort_id, table.c.layout_id)).mappings()
            self._layouts = [layout for row in rows if (layout := _layout(row))]

    def analyse(self, name: str) -> Analysed | None:
        """What the name of a dataset says; None: it is one that does not last."""
        path = name
        if found := _HIVE.full(path):
            path = f"/{found[3]}/{found[5]}"
        elif found := _HDFS.full(path):
            path = found[1]
        if path.startswith(_PASSING):
            return None
        for pattern in self._files:
            if (found := pattern.full(path)) and found[1] is not None:
                path = found[1]
        for layout in self._layouts:
            if found := layout.pattern.full(path):
                partition = found[layout.partition] if layout.partition is not None else None
                return Analysed(found[layout.leading_path] or path, layout.layout_id, partition, layout.partition_group)
        found = _TCP.full(path)
        return Analysed(found[1] if found else path)


def _layout(row: Any) -> _Layout | None:
    pattern = _usable(dataset_partition_layout_pattern, row["regex"])
    leading, partition = row["leading_path_index"], row["partition_index"]
    if pattern is None or leading is None:
        return None
    if not 0 <= leading <= pattern.groups or (partition is not None and not 0 <= partition <= pattern.groups):
        log.warning("pattern_ignored", table=dataset_partition_layout_pattern.name, layout_id=row["layout_id"])
        return None
    return _Layout(pattern, row["layout_id"], leading, partition, row["partition_pattern_group"])


def _usable(table: sa.Table, source: str | None) -> JavaPattern | None:
    """One pattern that cannot be read must not stop lineage: it is left out, and named in the log."""
    if not source:
        return None
    try:
        pattern = java_pattern(source)
    except ConfigError as error:
        log.warning("pattern_ignored", table=table.name, pattern=source, error=error.message)
        return None
    return pattern if pattern.groups else None
