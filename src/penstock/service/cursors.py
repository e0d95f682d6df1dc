"""Cursors of tables, seen and set by a person."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.config.spec import PipelineSpec
from penstock.tables import cursor
from penstock.tables.target import Target

Offsets = Mapping[tuple[str, int], int]
"""By topic and partition."""


def get_cursors(spec: PipelineSpec) -> dict[tuple[str, int], int]:
    """Where the rows of a pipeline end; empty where it never wrote any."""
    target = Target(str(spec.action.config["url"]))
    try:
        if target.inspect(cursor.cursors.name) is None:
            return {}
        with target.transaction() as connection:
            return cursor.positions(connection, spec.name)
    finally:
        target.close()


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
