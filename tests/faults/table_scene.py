"""A scene whose effects are rows of a table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tests.faults.scene import WAIT_S, Scene
from tests.support.kafka_client import KafkaClient
from tests.support.waiting import until

_WRITTEN = sa.text("SELECT kafka_partition, kafka_offset FROM effects")


def value(seq: int) -> bytes:
    """One in five has no place in the table."""
    return json.dumps({"seq": seq, "bad": seq % 5 == 2}).encode()


class TableScene(Scene):
    """Events are appended: a table that has no key shows every row that is written twice."""

    def __init__(
        self, kafka: KafkaClient, folder: Path, name: str, url: str, *, partitions: int = 2, **more: Any
    ) -> None:
        columns = {"seq": {"from": "seq", "type": "bigint"}, "n": {"cel": "event.bad ? 1 / 0 : 1", "type": "bigint"}}
        config = {"url": url, "table": "effects", "columns": columns, "metadata": True, "create": True}
        action = {"type": "table", "config": config}
        super().__init__(kafka, folder, name, partitions=partitions, values=value, action=action, **more)
        self._rows = sa.create_engine(url, pool_pre_ping=True)

    def rows(self) -> list[tuple[int, int]]:
        """Partition and offset of each row."""
        try:
            with self._rows.connect() as connection:
                return [(partition, offset) for partition, offset in connection.execute(_WRITTEN)]
        except sa.exc.SQLAlchemyError:
            return []  # not made yet, or being restarted

    def count(self) -> int:
        return len(self.rows())

    def kill_worker(self, failpoint: str) -> None:
        """Let a worker die at this place."""
        self.set(failpoint, "kill")
        until(lambda: not (self.failpoints / failpoint).exists(), WAIT_S, lambda: f"{failpoint}; {self.story()}")

    def assert_equal(self) -> None:
        """I5: each event is one row, or one letter if it has no place in the table."""
        rows = self.rows()
        self._rows.dispose()
        assert len(rows) == len(set(rows)), "a row was written twice"
        letters = {(row.partition, row.offset) for row in self.letters()}
        produced = {(each.at.partition, each.at.offset): each.seq for each in self.feed.produced}
        assert letters == {at for at, seq in produced.items() if seq % 5 == 2}
        assert set(rows) == set(produced) - letters
