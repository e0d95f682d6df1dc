"""Dead letters in the store: recorded once per coordinates, listed newest first, with every step taken."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, Literal, NamedTuple

import msgspec
import sqlalchemy as sa

from penstock.core.dead_letter import DeadLetter, Failure, Stage
from penstock.core.event import Headers
from penstock.store.database import Database
from penstock.store.tables import clean, dead_letter_payloads, dead_letter_steps, dead_letters
from penstock.store.upsert import execute_many, insert_many

DeadLetterStatus = Literal["new", "replaying", "replayed", "parked", "discarded"]

OPEN: Final[tuple[DeadLetterStatus, ...]] = ("new", "replaying", "parked")
"""Statuses of letters that still wait for something to happen."""

_STATEMENT_BYTES: Final = 8_000_000
"""Payloads sent at once; more at a time is not faster and is held in memory several times over."""

_COORDINATES: Final = ("pipeline", "topic_id", "partition", "offset")
_LETTER: Final = [c.name for c in dead_letters.columns if c.name not in {"id", "replays", "status"}]
_PAYLOAD: Final = dead_letter_payloads.columns.keys()
_STEP: Final = [c.name for c in dead_letter_steps.columns if c.name != "id"]
_HEADERS: Final = msgspec.json.Decoder(Headers)


class DeadLetterCursor(NamedTuple):
    """Where a list goes on: the last row seen."""

    last_failed_at: int
    id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterFilter:
    """Which letters; what is None does not matter."""

    pipeline: str | None = None
    topic: str | None = None
    partition: int | None = None
    stage: Stage | None = None
    status: DeadLetterStatus | None = None
    error: str | None = None
    """Text within the message, whatever its case, or the whole error code."""
    fingerprint: str | None = None
    since: int | None = None
    """Failed last at or after this, epoch milliseconds."""
    until: int | None = None
    """Failed last before this, epoch milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterRow:
    """A letter as lists show it."""

    id: int
    pipeline: str
    topic: str
    partition: int
    offset: int
    stage: Stage
    error_code: str
    error: str
    attempts: int
    status: DeadLetterStatus
    first_failed_at: int
    last_failed_at: int

    @property
    def cursor(self) -> DeadLetterCursor:
        """Given as `before`, lists what comes after this row."""
        return DeadLetterCursor(self.last_failed_at, self.id)

    def as_dict(self) -> dict[str, Any]:
        """The shape that `penstock dead-letters list --json` promises."""
        times = {"first_failed_at": iso(self.first_failed_at), "last_failed_at": iso(self.last_failed_at)}
        return {name: getattr(self, name) for name in self.__slots__} | times


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterStep:
    """One thing that happened to a letter."""

    at: int
    kind: str
    """`failed`; replays and decisions of people add theirs."""
    text: str
    data: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDeadLetter:
    """A letter with all that is known of it."""

    row: DeadLetterRow
    letter: DeadLetter
    replays: int
    history: list[DeadLetterStep] = field(default_factory=list)


Rows = list[DeadLetterRow]

_LISTED: Final = tuple(dead_letters.c[name] for name in DeadLetterRow.__slots__)


class DeadLetters:
    """The repository of dead letters."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._upsert_letters = _letters_statement(database)
        self._upsert_payloads = _payloads_statement(database)
        self._insert_steps = _steps_statement(database)
        self._run = partial(execute_many, database)

    def record(self, letters: Sequence[DeadLetter]) -> None:
        """Make failures durable, in one transaction; a letter that exists is updated and its history goes on.

        I1: when this returns, the offsets of these events may be committed.
        """
        if not letters:
            return
        # One statement must not meet a row twice, and writers that take rows in the same order cannot deadlock.
        latest = {_coordinates(letter): letter for letter in letters}
        ordered = [latest[at] for at in sorted(latest)]
        with self._database.write() as connection:
            stored = self._run(connection, self._upsert_letters, [_letter_values(letter) for letter in ordered])
            ids = {(r.pipeline, r.topic_id, r.partition, r.offset): r.id for r in stored}
            for some in _by_size(ordered):
                self._run(connection, self._upsert_payloads, [_payload_values(ids[_coordinates(x)], x) for x in some])
            self._run(connection, self._insert_steps, [_step_values(ids[_coordinates(x)], x) for x in letters])

    def get(self, letter_id: int) -> StoredDeadLetter | None:
        """The letter with its payload and history; None where there is none."""
        letter = sa.select(dead_letters, dead_letter_payloads).join(dead_letter_payloads)
        steps = sa.select(dead_letter_steps).where(dead_letter_steps.c.letter_id == letter_id)
        with self._database.read() as connection:
            found = connection.execute(letter.where(dead_letters.c.id == letter_id)).mappings().one_or_none()
            if found is None:
                return None
            history = connection.execute(steps.order_by(dead_letter_steps.c.id)).all()
        return StoredDeadLetter(
            row=DeadLetterRow(**{name: found[name] for name in DeadLetterRow.__slots__}),
            letter=_letter(found),
            replays=found["replays"],
            history=[DeadLetterStep(at=s.at, kind=s.kind, text=s.text, data=s.data) for s in history],
        )

    def count(self, which: DeadLetterFilter | None = None) -> int:
        query = sa.select(sa.func.count()).select_from(dead_letters).where(*_conditions(which))
        with self._database.read() as connection:
            return connection.scalar(query) or 0

    def counts_by_pipeline(self) -> dict[str, int]:
        """Letters that are neither replayed nor discarded, per pipeline that has any."""
        c = dead_letters.c
        query = sa.select(c.pipeline, sa.func.count()).where(c.status.in_(OPEN)).group_by(c.pipeline)
        with self._database.read() as connection:
            return dict(row for row in connection.execute(query))

    def list(
        self, which: DeadLetterFilter | None = None, *, limit: int = 100, before: DeadLetterCursor | None = None
    ) -> Rows:
        """The letters that failed last, newest first; `before` goes on behind the row whose cursor it is."""
        order = sa.tuple_(dead_letters.c.last_failed_at, dead_letters.c.id)
        query = sa.select(*_LISTED).where(*_conditions(which))
        if before is not None:
            query = query.where(order < sa.tuple_(before.last_failed_at, before.id))
        newest_first = (dead_letters.c.last_failed_at.desc(), dead_letters.c.id.desc())
        with self._database.read() as connection:
            found = connection.execute(query.order_by(*newest_first).limit(limit))
            return [DeadLetterRow(**row) for row in found.mappings()]


def iso(millis: int) -> str:
    """Epoch milliseconds as ISO 8601 in UTC."""
    return datetime.fromtimestamp(millis / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _conditions(which: DeadLetterFilter | None) -> Sequence[sa.ColumnElement[bool]]:
    if which is None:
        return ()
    c = dead_letters.c
    equal = ("pipeline", "topic", "partition", "stage", "status", "fingerprint")
    conditions = [c[name] == getattr(which, name) for name in equal if getattr(which, name) is not None]
    if which.error is not None:
        conditions.append(c.error.icontains(which.error, autoescape=True) | (c.error_code == which.error))
    if which.since is not None:
        conditions.append(c.last_failed_at >= which.since)
    if which.until is not None:
        conditions.append(c.last_failed_at < which.until)
    return conditions


def _coordinates(letter: DeadLetter) -> tuple[str, str, int, int]:
    # As the database gives them back.
    return clean(letter.pipeline), clean(letter.topic_id), letter.partition, letter.offset


def _by_size(letters: Sequence[DeadLetter]) -> Iterator[Sequence[DeadLetter]]:
    """Runs of letters whose payloads fit into one statement: PostgreSQL takes no parameter above 1 GB."""
    start = size = 0
    for at, letter in enumerate(letters):
        size += len(letter.key or b"") + len(letter.value or b"") + len(letter.failure.value_seen or b"")
        if size >= _STATEMENT_BYTES:
            yield letters[start : at + 1]
            start, size = at + 1, 0
    if start < len(letters):
        yield letters[start:]


def _letters_statement(database: Database) -> sa.sql.dml.ReturningInsert[Any]:
    statement = insert_many(database, dead_letters, _LETTER)
    given = statement.excluded
    newer = {
        name: given[name]
        for name in (
            "spec_version",
            "schema_id",
            "stage",
            "error_code",
            "error_class",
            "error",
            "fingerprint",
            "attempts",
        )
    }
    c = dead_letters.c
    earliest = sa.case((given.first_failed_at < c.first_failed_at, given.first_failed_at), else_=c.first_failed_at)
    # An event that fails again after its letter was closed is open again; a settle that is merely repeated is not news.
    # Literals, for a statement over many rows takes no other parameters than theirs.
    closed = c.status.in_([sa.literal_column("'replayed'"), sa.literal_column("'discarded'")])
    failed_again = closed & (given.last_failed_at > c.last_failed_at)
    status = sa.case((failed_again, sa.literal_column("'new'")), else_=c.status)
    changes = newer | {"first_failed_at": earliest, "last_failed_at": given.last_failed_at, "status": status}
    statement = statement.on_conflict_do_update(index_elements=[c[name] for name in _COORDINATES], set_=changes)
    return statement.returning(c.id, *(c[name] for name in _COORDINATES))


def _payloads_statement(database: Database) -> sa.Insert:
    # I3: the record's own bytes were stored with the first failure and are not touched again.
    statement = insert_many(database, dead_letter_payloads, _PAYLOAD)
    seen = {"traceback": statement.excluded.traceback, "value_seen": statement.excluded.value_seen}
    return statement.on_conflict_do_update(index_elements=["letter_id"], set_=seen)


def _steps_statement(database: Database) -> sa.Insert:
    key = ["letter_id", "at", "kind"]
    return insert_many(database, dead_letter_steps, _STEP).on_conflict_do_nothing(index_elements=key)


def _letter_values(letter: DeadLetter) -> dict[str, Any]:
    failure = letter.failure
    return {
        "pipeline": letter.pipeline,
        "topic": letter.topic,
        "topic_id": letter.topic_id,
        "partition": letter.partition,
        "offset": letter.offset,
        "consumer_group": letter.group,
        "spec_version": letter.spec_version,
        "timestamp": letter.timestamp,
        "timestamp_type": letter.timestamp_type,
        "schema_id": failure.schema_id,
        "stage": failure.stage,
        "error_code": failure.error_code,
        "error_class": failure.error_class,
        "error": failure.error,
        "fingerprint": failure.fingerprint,
        "attempts": failure.attempts,
        "first_failed_at": failure.first_failed_at,
        "last_failed_at": failure.last_failed_at,
    }


def _payload_values(letter_id: int, letter: DeadLetter) -> dict[str, Any]:
    return {
        "letter_id": letter_id,
        "key": letter.key,
        "value": letter.value,
        # JSON keeps the order and the repeats, and base64 the bytes.
        "headers": msgspec.json.encode(letter.headers).decode(),
        "traceback": letter.failure.traceback,
        "value_seen": letter.failure.value_seen,
    }


def _step_values(letter_id: int, letter: DeadLetter) -> dict[str, Any]:
    failure = letter.failure
    data = {
        "stage": failure.stage,
        "error_code": failure.error_code,
        "attempts": failure.attempts,
        "spec_version": letter.spec_version,
    }
    return {
        "letter_id": letter_id,
        "at": failure.last_failed_at,
        "kind": "failed",
        "text": failure.error,
        "data": data,
    }


def _letter(found: sa.RowMapping) -> DeadLetter:
    failure = Failure(
        stage=found["stage"],
        error_code=found["error_code"],
        error_class=found["error_class"],
        error=found["error"],
        traceback=found["traceback"],
        fingerprint=found["fingerprint"],
        attempts=found["attempts"],
        first_failed_at=found["first_failed_at"],
        last_failed_at=found["last_failed_at"],
        value_seen=found["value_seen"],
        schema_id=found["schema_id"],
    )
    return DeadLetter(
        pipeline=found["pipeline"],
        spec_version=found["spec_version"],
        group=found["consumer_group"],
        topic=found["topic"],
        topic_id=found["topic_id"],
        partition=found["partition"],
        offset=found["offset"],
        key=found["key"],
        value=found["value"],
        headers=_HEADERS.decode(found["headers"]),
        timestamp=found["timestamp"],
        timestamp_type=found["timestamp_type"],
        failure=failure,
    )
