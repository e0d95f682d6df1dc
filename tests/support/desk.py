"""A store with a workflow and a trigger in it, and what is there of their work."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from penstock.core.ids import new_id
from penstock.store import Store
from penstock.store.workflow_tables import dataclips, projects, snapshots, triggers, workflows


@dataclass
class Desk:
    """One project with one workflow and one Kafka trigger."""

    url: str
    project: str = field(default_factory=new_id)
    workflow: str = field(default_factory=new_id)
    trigger: str = field(default_factory=new_id)
    snapshot: str = field(default_factory=new_id)
    limits: dict[str, Any] = field(default_factory=dict)
    """Columns of the project."""
    definition: dict[str, Any] = field(default_factory=dict)
    """Steps of the workflow."""

    def __post_init__(self) -> None:
        Store.open(self.url).close()
        self.engine = sa.create_engine(self.url.replace("postgresql://", "postgresql+psycopg://"))
        now = time.time_ns() // 1_000
        times = {"inserted_at": now, "updated_at": now}
        name = f"lab {self.project[-6:]}"
        of = {"workflow_id": self.workflow}
        rows: list[tuple[sa.Table, dict[str, Any]]] = [
            (projects, {"id": self.project, "name": name, **times, **self.limits}),
            (workflows, {"id": self.workflow, "project_id": self.project, "name": "Lab results", **times}),
            (snapshots, {"id": self.snapshot, **of, "version": "1", "definition": self.definition, "inserted_at": now}),
            (triggers, {"id": self.trigger, **of, "name": "kafka", **times}),
        ]
        with self.engine.begin() as connection:
            for table, values in rows:
                connection.execute(sa.insert(table).values(values))
            connection.execute(sa.update(workflows).values(snapshot_id=self.snapshot))

    def action(self, **more: Any) -> dict[str, Any]:
        """As a trigger compiles to."""
        ids = {"trigger": self.trigger, "workflow": self.workflow, "project": self.project}
        return {"type": "work_order", "config": {"url": self.url, **ids} | more}

    def query(self, statement: str) -> list[Any]:
        with self.engine.connect() as connection:
            return [tuple(row) for row in connection.execute(sa.text(statement))]

    def execute(self, statement: str) -> None:
        with self.engine.begin() as connection:
            connection.execute(sa.text(statement))

    def states(self) -> dict[str, int]:
        """Work orders by their state."""
        return dict(self.query("SELECT state, count(*) FROM penstock_work_orders GROUP BY 1"))

    def offsets(self, partition: int = 0) -> list[int]:
        """Of the messages that were taken in."""
        query = sa.select(dataclips.c.offset).where(dataclips.c.partition == partition).order_by(dataclips.c.offset)
        with self.engine.connect() as connection:
            return list(connection.scalars(query))

    def count(self, table: str) -> int:
        return int(self.query(f"SELECT count(*) FROM penstock_{table}")[0][0])  # noqa: S608 - a name of ours

    def close(self) -> None:
        self.engine.dispose()
