"""Taking letters for a replay, and what becomes of them; closing those that nobody wants replayed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from penstock.core.dead_letter import Failure
from penstock.store.database import Database
from penstock.store.letters import rows, search
from penstock.store.letters.conditions import among
from penstock.store.letters.listing import Listing
from penstock.store.letters.model import (
    ClaimedLetter,
    DeadLetterFilter,
    DeadLetterStatus,
    LetterCount,
    LetterPlace,
    LetterRefused,
    StoredDeadLetter,
    Which,
)
from penstock.store.letters.payloads import PayloadFiles
from penstock.store.letters.recording import Recording
from penstock.store.tables import dead_letter_payloads, dead_letter_search, dead_letters

LEASE_SECONDS: Final = 60.0
"""A replay that has not renewed its claims for so long is dead, and others may take its letters."""

_CLAIMABLE: Final[tuple[DeadLetterStatus, ...]] = ("new", "parked", "replayed")
_DISCARDABLE: Final[tuple[DeadLetterStatus, ...]] = ("new", "parked")
_BATCH: Final = 1_000
_CLAIM_LOCK: Final = 0x70656E636C61696D
"""PostgreSQL advisory lock; any number will do, as long as it stays the same."""
_FREE: Final = {"claimed_by": None, "claimed_at": None, "claimed_from": None}

_c = dead_letters.c
_PLACE: Final = tuple(_c[name] for name in LetterPlace._fields)
_p = dead_letter_payloads.c
_RECORDS: Final = sa.select(
    *(_c.id, *_PLACE, _c.topic, _c.timestamp, _c.timestamp_type, _p.key, _p.value, _p.value_file, _p.headers)
).join(dead_letter_payloads)


class DiscardedPage(NamedTuple):
    """How many letters were closed at once, and the last id that was looked at."""

    letters: int
    last_id: int


class _FailedReplay(NamedTuple):
    """A letter whose replay failed, and the values that change."""

    row: Any
    failure: Failure
    status: DeadLetterStatus
    spec_version: str
    by: str
    now: int

    def letter(self) -> dict[str, Any]:
        first = min(self.row.first_failed_at, self.failure.first_failed_at)
        latest = rows.failure_values(self.failure) | {"first_failed_at": first, "spec_version": self.spec_version}
        status = {"status": self.status, "replays": self.row.replays + 1, "changed_at": self.now}
        return {"at_id": self.row.id} | latest | status | _FREE

    def payload(self) -> dict[str, Any]:
        seen = {"traceback": self.failure.traceback, "value_seen": self.failure.value_seen}
        return {"at_id": self.row.id} | seen

    def texts(self, with_grams: bool) -> dict[str, Any]:  # noqa: FBT001 - which database it is
        error = search.searched_error(self.failure)
        texts: dict[str, Any] = {"at_id": self.row.id, "last_failed_at": self.failure.last_failed_at, "error": error}
        if with_grams:
            texts["grams"] = search.indexed(self.row, self.failure, error, self.row.content or "")
        return texts

    def step(self, kind: str) -> dict[str, Any]:
        return {
            "letter_id": self.row.id,
            "at": self.now,
            "kind": kind,
            "text": self.failure.error,
            "taken_by": self.by,
            "data": rows.failure_data(self.failure, self.spec_version),
        }


class Claims(Listing):
    """The changing side of the repository."""

    def __init__(self, database: Database, files: PayloadFiles) -> None:
        super().__init__(database, files)
        self._recording = Recording(database, files)

    def claim(
        self, which: Which, *, by: str, limit: int = 500, after: LetterPlace | None = None, lease: float = LEASE_SECONDS
    ) -> list[StoredDeadLetter]:
        """Take the next letters for a replay, in order; none are left where the list is empty.

        A filter without a status takes new letters; by id, or by a filter that says so, parked and replayed ones are
        taken too. Letters of a replay that has died are taken over. The first call (without `after`) refuses ids that
        cannot be taken, before it takes any.
        """
        with self._database.write() as connection:
            ids = self._claim(connection, which, by, limit=limit, after=after, lease=lease)
            return self.read(connection, ids, with_history=False)

    def claim_records(
        self, which: Which, *, by: str, limit: int, after: LetterPlace | None, lease: float = LEASE_SECONDS
    ) -> list[ClaimedLetter]:
        """The same, without what a replay does not need: reading that takes longer than replaying."""
        with self._database.write() as connection:
            ids = self._claim(connection, which, by, limit=limit, after=after, lease=lease)
            query = _RECORDS.where(among(self._database, _c.id, ids)).order_by(*_PLACE)
            return [rows.claimed(row, self._files) for row in connection.execute(query)]

    def _claim(
        self,
        connection: sa.Connection,
        which: Which,
        by: str,
        *,
        limit: int,
        after: LetterPlace | None,
        lease: float,
    ) -> list[int]:
        if not self._database.is_sqlite:
            # One replay at a time: a page that another one has just taken would look like the end of the list.
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_CLAIM_LOCK)))
        stale = self._database.now(connection) - int(lease * 1000)
        if after is None:
            self._refuse_claim(connection, which, stale)
        free = _claimable(_statuses(which), stale)
        while ids := self.next_ids(connection, _any_status(which), free, after=after, limit=limit):
            # None is left where somebody has closed all of them meanwhile; that is not the end of the list.
            if taken := self._set_claims(connection, ids, free, by):
                return taken
        return []

    def claimable(self, which: Which, *, lease: float = LEASE_SECONDS) -> list[LetterCount]:
        """What `claim` would take, by pipeline, topic and partition; refuses what it refuses."""
        with self._database.read() as connection:
            stale = self._database.now(connection) - int(lease * 1000)
            self._refuse_claim(connection, which, stale)
            place = (_c.pipeline, _c.topic, _c.partition)
            query = sa.select(*place, sa.func.count().label("letters")).where(_claimable(_statuses(which), stale))
            counted = self.counted(connection, query.group_by(*place).order_by(*place), _any_status(which))
            return [LetterCount(**row._asdict()) for row in counted]

    def renew(self, by: str) -> int:
        """Say that the replay lives; how many letters it holds."""
        with self._database.write() as connection:
            mine = (_c.status == "replaying") & (_c.claimed_by == by)
            values = {"claimed_at": self._database.now(connection)}
            return connection.execute(sa.update(dead_letters).where(mine).values(values)).rowcount

    def claimants(self) -> dict[str, int]:
        """How many letters each replay holds."""
        query = sa.select(_c.claimed_by, sa.func.count()).where(_c.status == "replaying").group_by(_c.claimed_by)
        with self._database.read() as connection:
            return {claimant or "": number for claimant, number in connection.execute(query)}

    def replayed(
        self, ids: Sequence[int], *, by: str, text: str = "", data: Mapping[str, Any] | None = None
    ) -> list[int]:
        """The replay of these letters succeeded; those that were still held by `by` are returned."""
        done = {"status": "replayed", "replays": _c.replays + 1, **_FREE}
        return self._change(ids, _held(by), done, kind="replayed", text=text, by=by, data=data)

    def replay_failed(
        self, failures: Mapping[int, Failure], *, by: str, max_replays: int, spec_version: str
    ) -> dict[int, DeadLetterStatus]:
        """The replay of these letters failed: they are new again, or parked after so many replays; the statuses of
        those that were still held by `by` are returned."""
        if not failures:
            return {}
        with self._database.write() as connection:
            now = self._database.now(connection)
            held = among(self._database, _c.id, list(failures)) & _held(by)
            query = sa.select(dead_letters, dead_letter_search.c.content).outerjoin(dead_letter_search).where(held)
            found = connection.execute(query.order_by(_c.id)).all()
            if not found:
                return {}
            statuses: dict[int, DeadLetterStatus] = {
                row.id: "parked" if row.replays + 1 >= max_replays else "new" for row in found
            }
            changed = [_FailedReplay(row, failures[row.id], statuses[row.id], spec_version, by, now) for row in found]
            self._set_failures(connection, changed)
            self._recording.add_steps(connection, [each.step("replay-failed") for each in changed])
            parked = [each.step("parked") for each in changed if each.status == "parked"]
            self._recording.add_steps(connection, parked)
            return statuses

    def release(
        self, ids: Sequence[int] | None = None, *, by: str, reason: str, claimed_by: str | None = None
    ) -> list[int]:
        """Give letters of a replay that ended early the status they had; all of `claimed_by`'s where no ids are given.

        They are returned."""
        if ids is None:
            query = sa.select(_c.id).where(_c.status == "replaying", _c.claimed_by == claimed_by)
            with self._database.read() as connection:
                ids = list(connection.scalars(query))
        free = {"status": sa.func.coalesce(_c.claimed_from, "new"), **_FREE}
        held = (_c.status == "replaying") if claimed_by is None else _held(claimed_by)
        return self._change(ids, held, free, kind="released", text=reason, by=by, data=None)

    def discard(self, which: Which, *, by: str, reason: str = "", progress: Callable[[int], None] | None = None) -> int:
        """Close letters without a replay; how many. A filter takes the new and the parked ones; ids that cannot be
        discarded are refused before any is."""
        self.refuse_discard(which)
        done, after = 0, 0
        while page := self.discard_page(which, by=by, reason=reason, after=after):
            done, after = done + page.letters, page.last_id
            if progress:
                progress(done)
        return done

    def discard_page(self, which: Which, *, by: str, reason: str, after: int = 0) -> DiscardedPage | None:
        """The next of them, behind the letter with the id `after`; None: there are no more."""
        may = _c.status.in_(_DISCARDABLE)
        query = sa.select(_c.id).where(may, _c.id > after).order_by(_c.id).limit(_BATCH)
        with self._database.read() as connection:
            ids = [row.id for row in self.first(connection, query, which)]
        if not ids:
            return None
        closed = self._change(ids, may, {"status": "discarded"}, kind="discarded", text=reason, by=by, data=None)
        return DiscardedPage(len(closed), ids[-1])

    def discardable(self, which: Which) -> dict[DeadLetterStatus, int]:
        """How many letters a discard would close, by the status they have."""
        self.refuse_discard(which)
        found = self.counts_by_status(which)
        return {status: found[status] for status in _DISCARDABLE if status in found}

    def refuse_discard(self, which: Which) -> None:
        """Raise unless all of them may be discarded."""
        if not isinstance(which, DeadLetterFilter):
            with self._database.read() as connection:
                self._refuse(connection, which, _c.status.in_(_DISCARDABLE), "cannot be discarded")
        elif which.status is not None and which.status not in _DISCARDABLE:
            raise LetterRefused(
                f"{which.status} letters cannot be discarded", received=which.status, allowed=list(_DISCARDABLE)
            )

    def _set_claims(
        self, connection: sa.Connection, ids: list[int], free: sa.ColumnElement[bool], by: str
    ) -> list[int]:
        """Those that nobody has changed since they were found."""
        now = self._database.now(connection)
        before = sa.case((_c.status == "replaying", _c.claimed_from), else_=_c.status)
        values = {"status": "replaying", "claimed_by": by, "claimed_at": now, "claimed_from": before, "changed_at": now}
        update = sa.update(dead_letters).where(among(self._database, _c.id, ids), free).values(values)
        return list(connection.scalars(update.returning(_c.id)))

    def _change(
        self,
        ids: Sequence[int],
        condition: sa.ColumnElement[bool],
        values: dict[str, Any],
        *,
        kind: str,
        text: str,
        by: str,
        data: Mapping[str, Any] | None,
    ) -> list[int]:
        """Change those that fulfil the condition, and say so in their histories."""
        changed: list[int] = []
        for start in range(0, len(ids), _BATCH):
            some = sorted(ids[start : start + _BATCH])
            with self._database.write() as connection:
                now = self._database.now(connection)
                chosen = among(self._database, _c.id, some) & condition
                update = sa.update(dead_letters).where(chosen).values(**values, changed_at=now).returning(_c.id)
                done = sorted(connection.scalars(update))
                step = {"at": now, "kind": kind, "text": text, "taken_by": by, "data": dict(data or {})}
                self._recording.add_step(connection, done, step)
            changed += done
        return changed

    def _set_failures(self, connection: sa.Connection, changed: Sequence[_FailedReplay]) -> None:
        with_grams = not self._database.is_sqlite
        for table, key, values in (
            (dead_letters, _c.id, [each.letter() for each in changed]),
            (dead_letter_payloads, dead_letter_payloads.c.letter_id, [each.payload() for each in changed]),
            (dead_letter_search, dead_letter_search.c.letter_id, [each.texts(with_grams) for each in changed]),
        ):
            names = [name for name in values[0] if name != "at_id"]
            update = sa.update(table).where(key == sa.bindparam("at_id"))
            connection.execute(update.values({name: sa.bindparam(name) for name in names}), values)

    def _refuse_claim(self, connection: sa.Connection, which: Which, stale: int) -> None:
        if not isinstance(which, DeadLetterFilter):
            self._refuse(connection, which, _claimable(_CLAIMABLE, stale), "cannot be replayed")
        elif which.status is not None and which.status not in _CLAIMABLE:
            raise LetterRefused(
                f"{which.status} letters cannot be replayed", received=which.status, allowed=list(_CLAIMABLE)
            )

    def _refuse(
        self, connection: sa.Connection, ids: Sequence[int], allowed: sa.ColumnElement[bool], refusal: str
    ) -> None:
        """Name the first of the ids that is not there or not as it has to be."""
        query = sa.select(_c.id, _c.status, _c.claimed_by, allowed.label("allowed"))
        found = {row.id: row for row in connection.execute(query.where(among(self._database, _c.id, list(ids))))}
        missing = [number for number in ids if number not in found]
        if missing:
            hint = "penstock dead-letters list shows the ids"
            raise LetterRefused("no such dead letter", received=_few(missing), hint=hint)
        refused = [row for row in found.values() if not row.allowed]
        if refused:
            first = refused[0]
            held = f" by {first.claimed_by}" if first.status == "replaying" else ""
            raise LetterRefused(
                f"dead letter {first.id} is {first.status}{held} and {refusal}",
                received=_few([row.id for row in refused]),
                hint="leave these ids out",
            )


def _few(ids: Sequence[int]) -> str:
    return ", ".join(map(str, ids[:20])) + (f" and {len(ids) - 20} more" if len(ids) > 20 else "")


def _statuses(which: Which) -> Sequence[DeadLetterStatus]:
    if not isinstance(which, DeadLetterFilter):
        return _CLAIMABLE
    return (which.status or "new",)


def _any_status(which: Which) -> Which:
    """The filter without its status: a letter that a dead replay holds has another one now."""
    if not isinstance(which, DeadLetterFilter) or which.status is None:
        return which
    return replace(which, status=None)


def _claimable(statuses: Sequence[DeadLetterStatus], stale: int) -> sa.ColumnElement[bool]:
    abandoned = (_c.status == "replaying") & _c.claimed_from.in_(statuses) & (_c.claimed_at < stale)
    return _c.status.in_(statuses) | abandoned


def _held(by: str) -> sa.ColumnElement[bool]:
    return (_c.status == "replaying") & (_c.claimed_by == by)
