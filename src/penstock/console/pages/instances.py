"""Instances: the running processes, and what each of them works on."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from penstock.console import words
from penstock.console.frame import Visit, pages, refreshing
from penstock.console.parts import empty, title
from penstock.console.tables import Column, cell, table

_COLUMNS: Final = (
    Column("id", "Instance", lead=True),
    Column("host", "Host"),
    Column("pid", "Process", "mono"),
    Column("version", "Version"),
    Column("pipelines", "Pipelines", "number"),
    Column("partitions", "Partitions", "number"),
    Column("started", "Started"),
    Column("heard", "Heard of"),
    Column("address", "Address", "mono"),
)


@pages.page("/instances", "Instances", "/instances")
async def instances(visit: Visit) -> None:
    title("Instances")
    rows = await visit.ask(_rows, visit)
    if not rows:
        empty("No instance is running.", "`penstock run FILE` starts one; several may share the work of a pipeline.")
        return
    shown = table(_COLUMNS, rows, key="id", label="Instances")

    async def look() -> None:
        fresh = await visit.ask(_rows, visit)
        if fresh != shown.rows:
            shown.rows = fresh

    refreshing(look)


def _rows(visit: Visit) -> list[dict[str, Any]]:
    pipelines = Counter(state.instance for state in visit.data.states())
    lines = visit.data.overview().lines
    partitions = Counter(place.owner for line in lines for place in line.status.partitions if place.owner)
    return [
        {
            "id": each.id,
            "host": cell(each.host),
            "pid": each.pid,
            "version": each.version,
            "pipelines": pipelines[each.id],
            "partitions": partitions[each.id],
            "started": -each.started_at,
            "started_text": words.moment(each.started_at),
            "heard": -each.heartbeat_at,
            "heard_text": words.ago(each.heartbeat_at / 1000),
            "address": each.http_address or "",
        }
        for each in visit.data.instances()
    ]
