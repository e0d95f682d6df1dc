"""Usage limits: how many work orders a project or a trigger may still take in within the period."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from penstock.core.errors import Unavailable
from penstock.store.workflow_tables import usage

Period = Literal["hour", "day", "month", "total"]
_FORMS: Final[dict[str, str]] = {"hour": "%Y-%m-%dT%H", "day": "%Y-%m-%d", "month": "%Y-%m", "total": "total"}
WITHOUT_END: Final = 1 << 62


class LimitReached(Unavailable):
    """Nothing more is taken in for now; what waits is taken in when the limit allows."""

    code = "work_order_creation_blocked"


@dataclass(frozen=True, slots=True)
class Limit:
    """Of one project or trigger."""

    scope: str
    """Its id."""
    what: str
    """What to call it."""
    soft: int | None
    hard: int | None
    per: Period = "month"


def period_of(per: Period, now: float) -> str:
    """The calendar period (UTC) that a time belongs to."""
    return datetime.fromtimestamp(now, UTC).strftime(_FORMS[per])


class Meter:
    """What may be taken in within one transaction. The rows that count are locked to its end, so that instances side
    by side stop at the same number."""

    def __init__(self, connection: sa.Connection, limits: Sequence[Limit], now: float) -> None:
        self._connection = connection
        # In the same order everywhere: whoever locks two rows cannot wait for one that waits for it.
        self._limits = sorted((each for each in limits if not _is_open(each)), key=lambda each: each.scope)
        self._periods = {each.scope: period_of(each.per, now) for each in self._limits}
        self._used = {each.scope: self._locked(each.scope) for each in self._limits}
        self._counted = 0

    @property
    def soft_room(self) -> int:
        """Work orders that may have a run."""
        return self._room([(each, each.soft) for each in self._limits])

    @property
    def hard_room(self) -> int:
        """Work orders at all, rejected ones included."""
        return self._room([(each, each.hard) for each in self._limits])

    def _room(self, bounds: list[tuple[Limit, int | None]]) -> int:
        given = [(each, bound) for each, bound in bounds if bound is not None]
        return max(0, min((bound - self._used[each.scope] for each, bound in given), default=WITHOUT_END))

    def count(self, made: int) -> None:
        """So many were made."""
        self._counted += made
        for scope in self._used:
            self._used[scope] += made

    def write(self) -> None:
        """Keep what was counted."""
        if self._counted:
            for scope, used in self._used.items():
                self._connection.execute(sa.update(usage).where(*self._at(scope)).values(work_orders=used))

    def reached(self) -> LimitReached:
        """Why there is no room."""
        each = next(e for e in self._limits if e.hard is not None and self._used[e.scope] >= e.hard)
        period = "" if each.per == "total" else f" of this {each.per}"
        return LimitReached(
            f"the hard limit of {each.what}, {each.hard:,} work orders{period}, is reached",
            received=self._used[each.scope],
            allowed=each.hard,
            hint="nothing is lost: intake goes on when the limit is raised or the period ends",
        )

    def _locked(self, scope: str) -> int:
        there = sa.select(usage.c.work_orders).where(*self._at(scope))
        query = there.with_for_update()
        if (used := self._connection.scalar(query)) is None:
            self._begin(scope)
            used = self._connection.scalar(query)
        return int(used or 0)

    def _begin(self, scope: str) -> None:
        kind = sqlite.insert if self._connection.dialect.name == "sqlite" else postgresql.insert
        values = {"scope": scope, "period": self._periods[scope], "work_orders": 0}
        self._connection.execute(kind(usage).values(values).on_conflict_do_nothing())
        # Earlier periods count no more.
        earlier = sa.delete(usage).where(usage.c.scope == scope, usage.c.period != self._periods[scope])
        self._connection.execute(earlier)

    def _at(self, scope: str) -> list[sa.ColumnElement[bool]]:
        return [usage.c.scope == scope, usage.c.period == self._periods[scope]]


def _is_open(limit: Limit) -> bool:
    return limit.soft is None and limit.hard is None
