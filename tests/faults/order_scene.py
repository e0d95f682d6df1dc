"""A scene whose effects are work orders: the store is the database that they are written into."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tests.faults.scene import WAIT_S, Scene, Values
from tests.support.desk import Desk
from tests.support.kafka_client import KafkaClient
from tests.support.waiting import until

POISON = b"[1]"


def value(seq: int) -> bytes:
    """One in five is no object."""
    return POISON if seq % 5 == 2 else json.dumps({"seq": seq}).encode()


class OrderScene(Scene):
    """The pipeline that a trigger compiles to, as a file. `steps` are executed by runs; without them intake alone is
    looked at, and no run of the project is claimed."""

    def __init__(
        self,
        kafka: KafkaClient,
        folder: Path,
        url: str,
        values: Values = value,
        *,
        rate: float = 60,
        replication: int = 1,
        steps: list[dict[str, Any]] | None = None,
        **config: Any,
    ) -> None:
        of_runs = {"steps": steps or [], "edges": [], "triggers": [], "folder": str(folder)}
        self.desk = Desk(url, definition=of_runs if steps else {})
        self._values = values
        if not steps:
            self.desk.execute("UPDATE penstock_projects SET concurrency = 0")
        super().__init__(
            kafka,
            folder,
            f"trigger-{self.desk.trigger}",
            partitions=2,
            replication=replication,
            rate=rate,
            values=values,
            source={"format": "raw"},
            env={"PENSTOCK_STORE_URL": url},
            action=self.desk.action(**config),
        )

    def count(self) -> int:
        try:
            return self.desk.count("work_orders")
        except sa.exc.SQLAlchemyError:
            return 0  # the store is away

    def kill_worker(self, failpoint: str) -> None:
        """Let a worker die at this place."""
        self.set(failpoint, "kill")
        until(lambda: not (self.failpoints / failpoint).exists(), WAIT_S, lambda: f"{failpoint}; {self.story()}")

    def assert_equal(self) -> None:
        """I5: each message is one dataclip, one work order and one run, or one letter if it is no object."""
        taken = self.desk.query('SELECT "partition", "offset" FROM penstock_dataclips WHERE "offset" IS NOT NULL')
        assert len(taken) == len(set(taken)), "a message was taken in twice"
        assert len(taken) == self.desk.count("work_orders") == self.desk.count("runs")
        letters = {(row.partition, row.offset) for row in self.letters()}
        produced = {(each.at.partition, each.at.offset): each.seq for each in self.feed.produced}
        assert letters == {at for at, seq in produced.items() if self._values(seq) == POISON}
        assert set(taken) == set(produced) - letters
        self.desk.close()

    def run_states(self) -> dict[str, int]:
        """Runs by their state."""
        return dict(self.desk.query("SELECT state, count(*) FROM penstock_runs GROUP BY 1"))
