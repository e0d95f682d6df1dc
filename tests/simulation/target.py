"""The SQL target: rows and cursors that change in one transaction.

Rules modelled: a transaction compares the cursor with the value that the writer expects, inserts rows and failures and
moves the cursor, or does nothing; the answer to a COMMIT may be lost, with the transaction applied or not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.core.errors import Unavailable
from tests.simulation.scheduler import Process

if TYPE_CHECKING:
    from tests.simulation.world import World

CursorKey = tuple[str, str, int]
"""Pipeline, topic id, partition."""


class Fenced(Exception):
    """The cursor is not where the writer left it: another writer was there."""


@dataclass(slots=True)
class SimTarget:
    world: World
    away: bool = False
    compares: bool = True
    """False: the mutation `no cursor comparison`."""
    cursors: dict[CursorKey, int] = field(default_factory=dict)
    rows: Counter[tuple[str, str, int, int]] = field(default_factory=Counter)
    failures: dict[CursorKey, dict[int, str]] = field(default_factory=dict)
    """By cursor: offset and stage of events that failed; told again when an outcome was lost."""

    def cursor(self, process: Process, key: CursorKey, *, in_store: bool) -> int | None:
        self._reach(process, in_store=in_store)
        return self.cursors.get(key)

    def write(  # noqa: PLR0917 - one transaction
        self,
        process: Process,
        key: CursorKey,
        expected: int | None,
        following: int,
        rows: Sequence[int],
        failures: dict[int, str],
        *,
        in_store: bool,
    ) -> None:
        """One transaction; raises `Fenced` or `Unavailable`. After the latter its effect is unknown."""
        self._reach(process, in_store=in_store)
        answer = self.world.faults.transaction_answer()
        if answer == "lost request":
            raise Unavailable("the connection broke before the commit")
        if self.compares and self.cursors.get(key) != expected:
            raise Fenced(f"the cursor is {self.cursors.get(key)}, not {expected}")
        self.cursors[key] = following
        for offset in rows:
            self.rows[(*key, offset)] += 1
            self.world.judge.row(*key, offset)
        self.failures.setdefault(key, {}).update(failures)
        if answer == "lost answer":
            raise Unavailable("the connection broke while committing")

    def _reach(self, process: Process, *, in_store: bool) -> None:
        self.world.network.call(process)
        if self.world.store.away if in_store else self.away:
            self.world.network.wait_out(0.5)
            raise Unavailable("the target does not answer")
