"""I5 as a machine: kills, owners, offsets that go back and replays in any order, and the table is the topic."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any
from unittest import mock

import sqlalchemy as sa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.act.table import Table, TableConfig
from penstock.core.event import Event, Record
from penstock.tables import action as module
from penstock.tables.action import Chunk
from penstock.tables.cursor import Place
from penstock.tables.errors import Fenced

_PLACE = Place("pipeline", "topic-id", 0, "topic")
_FAILPOINTS = ("before-rows", "before-transaction-commit", "after-transaction-commit")


class _Killed(BaseException):
    """The process ends here."""


class Owner:
    """An instance that holds the partition, or believes it does."""

    def __init__(self, url: str) -> None:
        columns = {"id": {"from": "id", "type": "bigint"}}
        config = {"url": url, "table": "orders", "columns": columns, "create": True}
        self.table = Table(TableConfig.model_validate(config))
        self.at = 0


class ExactlyOnce(RuleBasedStateMachine):
    """Forty events, some of which are refused until somebody mends and replays them."""

    @initialize(refused=st.sets(st.integers(0, 39)))
    def begin(self, refused: set[int]) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.url = f"sqlite:///{Path(self.folder.name) / 'target.db'}"
        self.refused = refused
        self.replayed: set[int] = set()
        self.owners = [Owner(self.url)]
        self.open(0, 0)

    def event(self, offset: int, *, good: bool) -> Event:
        value: dict[str, Any] = {"id": offset if good else "no number"}
        return Event(Record("topic", 0, offset), value)

    @rule(which=st.integers(0, 3), committed=st.integers(0, 40))
    def open(self, which: int, committed: int) -> None:
        """Whatever the group's offset is, the cursor says where to go on."""
        owner = self.owners[which % len(self.owners)]
        owner.at, _ = owner.table.open(_PLACE, committed)

    @precondition(lambda self: len(self.owners) < 3)
    @rule()
    def join(self) -> None:
        """Another instance is given the partition; the former one has not heard of it."""
        self.owners.append(Owner(self.url))
        self.open(len(self.owners) - 1, 0)

    @rule(which=st.integers(0, 3), count=st.integers(1, 15), killed=st.sampled_from((None, *_FAILPOINTS)))
    def deliver(self, which: int, count: int, killed: str | None) -> None:
        owner = self.owners[which % len(self.owners)]
        end = min(40, owner.at + count)
        if end == owner.at:
            return
        events = [self.event(offset, good=offset not in self.refused) for offset in range(owner.at, end)]

        def reach(name: str) -> None:
            if name == killed:
                raise _Killed

        with mock.patch.object(module, "reach", reach):
            try:
                owner.at = owner.table.put(Chunk(_PLACE, owner.at, end, events)).end
            except Fenced:
                # It is told so, and asks where the partition stands.
                owner.at, _ = owner.table.open(_PLACE, 0)
            except _Killed:
                self.owners[self.owners.index(owner)] = Owner(self.url)
                self.open(which, 0)

    @rule(which=st.integers(0, 3), offsets=st.sets(st.integers(0, 39), max_size=6))
    def replay(self, which: int, offsets: set[int]) -> None:
        """Dead letters, mended: each may be replayed again and again."""
        letters = sorted(offset for offset in offsets & self.refused if offset < self.cursor())
        owner = self.owners[which % len(self.owners)]
        assert owner.table.put_again(_PLACE, [self.event(offset, good=True) for offset in letters]) == []
        self.replayed.update(letters)

    @invariant()
    def the_table_is_the_topic(self) -> None:
        if hasattr(self, "owners"):
            wanted = [n for n in range(self.cursor()) if n not in self.refused or n in self.replayed]
            assert self.rows() == Counter(wanted)

    def cursor(self) -> int:
        with self.owners[0].table.target.transaction() as connection:
            return connection.scalar(sa.text("SELECT next_offset FROM penstock_cursors")) or 0

    def rows(self) -> Counter[int]:
        with self.owners[0].table.target.transaction() as connection:
            return Counter(connection.scalars(sa.text("SELECT id FROM orders")))

    def teardown(self) -> None:
        if hasattr(self, "owners"):
            for owner in self.owners:
                owner.table.close()
            self.folder.cleanup()


TestExactlyOnce = ExactlyOnce.TestCase
TestExactlyOnce.settings = settings(max_examples=25, stateful_step_count=25)
