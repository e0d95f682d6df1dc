"""Taking runs: in batches, by preference and age, each by one worker, within the concurrency and order they ask for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

import sqlalchemy as sa

from penstock.store.database import Database
from penstock.store.work.claim_queries import KEY_HEADS, ONE_OLDEST, PAIRS, SOME_OLDEST
from penstock.store.work.deriving import Changed, Derive, among, derive_orders
from penstock.store.workflow_tables import dataclips, projects, runs, workflows

QUEUES: Final = ("fast_lane", "manual", "default")
"""In the order in which they are served."""
PER_WORKFLOW: Final = 50
"""Runs of one workflow in one claim at most."""

_WINDOW: Final = 4
"""Times as many runs are looked at as are wanted, where the order of keys may forbid some of them."""
_KEYS: Final = 200
"""Order keys that are looked through where the oldest runs all wait for one another."""
_HEADS: Final = 32
"""Workflows whose runs are fetched together."""

_ANY: Final = sa.text("SELECT 1 FROM penstock_runs WHERE state = 'available' LIMIT 1")
_IN_FLIGHT: Final = "penstock_runs.state IN ('claimed', 'started')"


@dataclass(slots=True, frozen=True, kw_only=True)
class Claim:
    """A run that is ours to execute, with its input."""

    id: str
    work_order_id: str
    project_id: str
    workflow_id: str
    snapshot_id: str
    starting_step: str | None
    starting_trigger_id: str | None
    options: dict[str, Any]
    dataclip_id: str | None
    input_type: str | None
    """Type of the dataclip; None: there is none, or it was wiped."""
    body: str | None
    request: str | None


@dataclass(slots=True, frozen=True)
class _Pair:
    """A queue of a workflow that has runs waiting, and the oldest of them."""

    queue: str
    workflow: str
    project: str
    rank: tuple[int, int, str]
    own_limit: int | None
    project_limit: int | None

    @property
    def scope(self) -> str | None:
        """Whose limit counts: the workflow's own comes before its project's."""
        if self.own_limit is not None:
            return self.workflow
        return self.project if self.project_limit is not None else None

    @property
    def limit(self) -> int:
        return (self.project_limit or 0) if self.own_limit is None else self.own_limit


@dataclass(slots=True)
class _Room:
    """How many more runs each limited scope has room for, and each workflow in this claim."""

    scopes: dict[str, int]
    taken: Counter[str] = field(default_factory=Counter)

    def of(self, pair: _Pair) -> int:
        left = PER_WORKFLOW - self.taken[pair.workflow]
        return left if pair.scope is None else min(left, self.scopes[pair.scope])

    def take(self, pair: _Pair) -> bool:
        if self.of(pair) <= 0:
            return False
        self.taken[pair.workflow] += 1
        if pair.scope is not None:
            self.scopes[pair.scope] -= 1
        return True


class Claims:
    """Runs that wait. What a claim costs depends on the workflows that have some, not on how many, nor on history."""

    def __init__(self, database: Database, derive: Derive) -> None:
        self._database = database
        self._derive = derive
        self._passed: dict[str, str] = {}
        """By workflow, the order key up to which its keys have been looked through."""

    def waiting(self) -> bool:
        """Whether any run waits, be it that nobody may take it yet."""
        with self._database.read() as connection:
            return connection.execute(_ANY).first() is not None

    def any_workflow(self) -> bool:
        """Whether there is a workflow that runs could be made of."""
        with self._database.read() as connection:
            return (
                connection.scalar(sa.select(workflows.c.id).where(workflows.c.deleted_at.is_(None)).limit(1))
                is not None
            )

    def claim(self, token: str, limit: int, *, without: Collection[str] = ()) -> list[Claim]:
        """Up to so many runs, for the holder of the token; the first to be executed first.

        `without`: workflows whose runs are left to others."""
        with self._database.write() as connection:
            pairs = [pair for pair in self._pairs(connection) if pair.workflow not in without]
            if not pairs:
                return []
            room = self._room(connection, pairs)
            chosen = self._chosen(
                connection, [p for p in pairs if p.scope is None or p.scope in room.scopes], room, limit
            )
            return self._take(connection, chosen, token) if chosen else []

    def _pairs(self, connection: sa.Connection) -> list[_Pair]:
        found = [
            _Pair(
                row.queue,
                str(row.workflow_id),
                str(row.project_id),
                (_rank(row.queue), row.priority, str(row.id)),
                row.own_limit,
                row.project_limit,
            )
            for row in connection.execute(sa.text(PAIRS))
        ]
        return sorted(found, key=lambda pair: pair.rank)

    def _room(self, connection: sa.Connection, pairs: list[_Pair]) -> _Room:
        """What the limits leave. A scope that another claim holds is left to it: two that count at once would both
        fill the same gap."""
        limited = {pair.scope: pair for pair in pairs if pair.scope is not None}
        if not limited:
            return _Room({})
        held = set(limited) if self._database.is_sqlite else self._locked(connection, limited)
        concerned = {limited[scope].project for scope in held}
        flying = self._in_flight(connection, concerned) if held else Counter()
        return _Room({scope: limited[scope].limit - flying[scope] for scope in held})

    def _locked(self, connection: sa.Connection, limited: dict[str, _Pair]) -> set[str]:
        found: set[str] = set()
        for table, ids in (
            (workflows, [scope for scope, pair in limited.items() if pair.own_limit is not None]),
            (projects, [scope for scope, pair in limited.items() if pair.own_limit is None]),
        ):
            if ids:
                chosen = sa.select(table.c.id).where(among(self._database, table.c.id, ids)).order_by(table.c.id)
                found |= set(connection.scalars(chosen.with_for_update(skip_locked=True, key_share=True)))
        return found

    def _in_flight(self, connection: sa.Connection, concerned: Iterable[str]) -> Counter[str]:
        """Runs being executed, by workflow, and by project for those that its own limit counts."""
        own = workflows.c.concurrency.is_not(None)
        rows = connection.execute(
            sa.select(runs.c.project_id, runs.c.workflow_id, own.label("own"), sa.func.count().label("runs"))
            .join(workflows, workflows.c.id == runs.c.workflow_id)
            .where(among(self._database, runs.c.project_id, list(concerned)), sa.text(_IN_FLIGHT))
            .group_by(runs.c.project_id, runs.c.workflow_id, own)
        )
        counts: Counter[str] = Counter()
        for row in rows:
            counts[row.workflow_id if row.own else row.project_id] += row.runs
        return counts

    def _chosen(self, connection: sa.Connection, pairs: list[_Pair], room: _Room, limit: int) -> list[str]:
        """The oldest runs of all: workflow by workflow, until the oldest of the next is younger than enough others."""
        found: list[tuple[tuple[int, int, str], _Pair]] = []
        open_ = iter([pair for pair in pairs if room.of(pair) > 0])
        while some := list(islice(open_, _HEADS)):
            if len(found) >= limit and sorted(found, key=lambda entry: entry[0])[limit - 1][0] < some[0].rank:
                break
            found += self._oldest(connection, some, room, limit)
        found.sort(key=lambda entry: entry[0])
        taken: list[str] = []
        for (_, _, run), pair in found:
            if len(taken) < limit and run not in taken and room.take(pair):
                taken.append(run)
        return taken

    def _oldest(
        self, connection: sa.Connection, pairs: list[_Pair], room: _Room, limit: int
    ) -> Iterator[tuple[tuple[int, int, str], _Pair]]:
        by_place = {(pair.queue, pair.workflow): pair for pair in pairs}
        wanted = [_wanted(pair, min(limit, room.of(pair))) for pair in pairs]
        found: Counter[_Pair] = Counter()
        for row in self._fetched(connection, wanted):
            pair = by_place[row.queue, str(row.workflow_id)]
            found[pair] += 1
            yield (_rank(row.queue), row.priority, str(row.id)), pair
        for want in wanted:
            pair = by_place[want["queue"], want["workflow"]]
            if found[pair] < want["take"]:
                yield from self._by_keys(connection, pair)

    def _fetched(self, connection: sa.Connection, wanted: list[dict[str, Any]]) -> Iterator[sa.Row[Any]]:
        if self._database.is_sqlite:
            for want in wanted:
                yield from connection.execute(sa.text(ONE_OLDEST), want)
        else:
            yield from connection.execute(_POSTGRES_OLDEST, {"pairs": wanted})

    def _by_keys(self, connection: sa.Connection, pair: _Pair) -> Iterator[tuple[tuple[int, int, str], _Pair]]:
        """Runs that are the first of their order key, where the oldest runs wait for others: a few keys each time, in a
        circle, so that a key with a long backlog hides no other."""
        after = self._passed.get(pair.workflow, "")
        rows = list(connection.execute(sa.text(KEY_HEADS), {"workflow": pair.workflow, "after": after, "keys": _KEYS}))
        if len(rows) < _KEYS:
            self._passed.pop(pair.workflow, None)
        else:
            self._passed[pair.workflow] = rows[-1].order_key
        for row in rows:
            if row.state == "available" and row.queue == pair.queue:
                yield (_rank(row.queue), row.priority, str(row.id)), pair

    def _take(self, connection: sa.Connection, chosen: list[str], token: str) -> list[Claim]:
        at = self._database.micros(connection)
        free = sa.select(runs.c.id).where(among(self._database, runs.c.id, chosen), sa.text("state = 'available'"))
        taken = sa.update(runs).where(runs.c.id.in_(free.with_for_update(skip_locked=True)))
        values = {"state": "claimed", "worker_name": token, "claimed_at": at, "heartbeat_at": at, "updated_at": at}
        rows = connection.execute(taken.values(values).returning(runs)).all()
        derive_orders(
            self._database,
            connection,
            self._derive,
            [Changed(row.id, row.work_order_id, "claimed") for row in rows],
            at,
        )
        inputs = self._inputs(connection, {row.dataclip_id for row in rows if row.dataclip_id})
        order = {run: place for place, run in enumerate(chosen)}
        return [_claim(row, inputs.get(row.dataclip_id)) for row in sorted(rows, key=lambda row: order[row.id])]

    def _inputs(self, connection: sa.Connection, ids: set[str]) -> dict[str, Any]:
        columns = (dataclips.c.id, dataclips.c.type, dataclips.c.body, dataclips.c.request)
        chosen = sa.select(*columns).where(
            among(self._database, dataclips.c.id, list(ids)), dataclips.c.wiped_at.is_(None)
        )
        return {row.id: row for row in connection.execute(chosen)} if ids else {}


_POSTGRES_OLDEST: Final = sa.text(SOME_OLDEST).bindparams(sa.bindparam("pairs", type_=sa.JSON()))


def _rank(queue: str) -> int:
    return QUEUES.index(queue) if queue in QUEUES else len(QUEUES)


def _wanted(pair: _Pair, take: int) -> dict[str, Any]:
    return {"queue": pair.queue, "workflow": pair.workflow, "take": take, "looked": take * _WINDOW}


def _claim(row: sa.Row[Any], clip: sa.Row[Any] | None) -> Claim:
    return Claim(
        id=row.id,
        work_order_id=row.work_order_id,
        project_id=row.project_id,
        workflow_id=row.workflow_id,
        snapshot_id=row.snapshot_id,
        starting_step=row.starting_step,
        starting_trigger_id=row.starting_trigger_id,
        options=row.options,
        dataclip_id=row.dataclip_id,
        input_type=None if clip is None else clip.type,
        body=None if clip is None else clip.body,
        request=None if clip is None else clip.request,
    )
