"""Instances: the running processes, what each of them works on, and what Spark does for the one that answers."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from penstock.console import words
from penstock.console.data import Data
from penstock.console.frame import Visit, pages, refreshing
from penstock.console.parts import empty, title
from penstock.console.spark_card import SparkCard
from penstock.console.tables import Column, cell, table
from penstock.service.access import Actor
from penstock.service.operations.desk import Desk
from penstock.service.operations.instances import list_instances, this_spark
from penstock.service.operations.scoping import instance_name

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
    rows = await visit.ask(_rows, visit.data)
    if not rows:
        empty("No instance is running.", "`penstock run FILE` starts one; several may share the work of a pipeline.")
        return
    shown = table(_COLUMNS, rows, key="id", label="Instances")
    spark = SparkCard(await visit.ask(this_spark), await visit.ask(visit.data.titles))

    async def look() -> None:
        fresh = await visit.ask(_rows, visit.data)
        if fresh != shown.rows:
            shown.rows = fresh
        spark.show(await visit.ask(this_spark), await visit.ask(visit.data.titles))

    refreshing(look)


def _rows(desk: Desk, actor: Actor, data: Data) -> list[dict[str, Any]]:
    lines = data.overview(desk, actor).lines
    owners = (place.owner for line in lines for place in line.status.partitions if place.owner)
    partitions = Counter(instance_name(actor, owner) for owner in owners)
    return [
        {
            "id": each.id,
            "id_why": "this one" if each.this else None,
            "host": cell(each.host or ""),
            "pid": each.pid or "",
            "version": each.version,
            "pipelines": len(each.pipelines),
            "partitions": partitions[each.id],
            "started": each.started_at,
            "started_text": words.moment_of(each.started_at),
            "heard": each.heard_at,
            "heard_text": words.ago_of(each.heard_at),
            "address": each.http_address or "",
        }
        for each in list_instances(desk, actor)
    ]
