"""Cursors of tables, set by a person."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.config.spec import PipelineSpec
from penstock.tables import cursor
from penstock.tables.target import Target

Offsets = Mapping[tuple[str, int], int]
"""By topic and partition."""


def set_cursors(spec: PipelineSpec, offsets: Offsets, topic_ids: Mapping[str, str]) -> None:
    """Begin at these offsets, whatever was written before; all of them or none."""
    target = Target(str(spec.action.config["url"]))
    try:
        cursor.make_tables(target)
        with target.transaction() as connection:
            for (topic, partition), offset in offsets.items():
                cursor.put(connection, cursor.Place(spec.name, topic_ids[topic], partition, topic), offset)
    finally:
        target.close()
