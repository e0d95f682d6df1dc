"""Actions that write into a database, exactly once: a chunk of one partition is one transaction, and so is what a
replay writes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final, Generic, NamedTuple, TypeVar

import sqlalchemy as sa
from sqlalchemy import exc

from penstock.core.clock import SYSTEM, Clock
from penstock.core.errors import Unavailable
from penstock.core.event import Event
from penstock.core.failpoints import reach
from penstock.core.plugin import Action
from penstock.tables import cursor
from penstock.tables.cursor import Place
from penstock.tables.errors import RowRefused, TargetUnavailable, is_conflict, is_refusal, words
from penstock.tables.target import Target

_TRIES: Final = 4
"""A transaction that lost to another (deadlock, serialization) is repeated so often before it counts as an outage."""
_CONFLICT_PAUSE: Final = 0.03
"""Seconds before the first repetition; doubled each time, and moved at random so that the two do not meet again."""

T = TypeVar("T")
R = TypeVar("R")
Refused = tuple[Event, Exception]


class Opening(NamedTuple):
    """A partition whose cursor a unit asks for."""

    place: Place
    start: int
    """The cursor where the target has none: the group's offset."""
    log_start: int = 0
    """The lowest offset of the log: a cursor below it moves there."""
    settled: int = 0
    """Failures below this offset are known to be dead letters."""


class Opened(NamedTuple):
    """A partition's state in the target."""

    cursor: int
    failures: list[bytes]
    """Failures that may not be in the store yet, in the order of their offsets."""
    moved_from: int | None = None
    """The cursor before it moved to the log's start."""


@dataclass(slots=True)
class Chunk:
    """Events of one partition, in order, and the cursor after them."""

    place: Place
    current: int
    end: int
    events: list[Event]
    failed: list[tuple[int, bytes]] = field(default_factory=list)
    """Events of this range that failed before they came here, by offset."""
    encode: Callable[[Event, Exception], bytes] = lambda _event, _error: b""
    """How a row that is refused is noted."""
    settled: int | None = None
    """Failures below this offset are dead letters by now."""
    throws: bool = False
    """True: nothing from the first refused event on is written, and the cursor stays at it."""
    confirm: Callable[[], None] = lambda: None
    """Called before the COMMIT; raises where the events must not be written after all."""

    def before(self, offset: int) -> Chunk:
        """The part of it below this offset."""
        events = [event for event in self.events if event.record.offset() < offset]
        failed = [each for each in self.failed if each[0] < offset]
        return replace(self, end=offset, events=events, failed=failed)


@dataclass(frozen=True, slots=True)
class Written:
    """What became of a chunk."""

    end: int
    """Where the cursor stands now."""
    refused: list[Refused]
    waits: Unavailable | None = None
    """Why the chunk was not written to its end, where no event is to blame."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of rows within a transaction."""

    refused: list[Refused]
    cut: tuple[int, Unavailable] | None = None
    """Nothing from this offset on was written, and why."""


class SqlAction(Action, Generic[T]):
    """Exactly once into a database; `T` is what an event becomes before it is written."""

    parallel_safe: ClassVar[bool] = True
    transactional: ClassVar[bool] = True
    batch_size: int = 5_000
    """Events of one transaction at most."""
    batch_seconds: float = 0.02
    """Seconds in which events are collected for one."""
    clock: Clock = SYSTEM
    copies: bool = False
    """Whether `set_aside` keeps events that cannot be written while the database does not answer."""

    def __init__(self, target: Target) -> None:
        self.target = target
        cursor.make_tables(target)

    @abstractmethod
    def prepare(self, event: Event) -> T:
        """What is to be written; raises for an event that has nothing that fits."""

    @abstractmethod
    def take(self, connection: sa.Connection, place: Place, prepared: list[tuple[Event, T]]) -> Taken:
        """Write what can be written within the caller's transaction."""

    def set_aside(self, place: Place, events: Sequence[Event]) -> None:
        """The database does not answer: keep copies of these events elsewhere, each once."""

    def close(self) -> None:
        self.target.close()

    # -- the cursor ------------------------------------------------------------------------

    def open(self, place: Place, offset: int) -> tuple[int, list[bytes]]:
        """The cursor of one partition and its unsettled failures; `offset` becomes the cursor where there is none."""
        (opened,) = self.open_all([Opening(place, offset)])
        return opened.cursor, opened.failures

    def open_all(self, openings: Sequence[Opening]) -> list[Opened]:
        """Read the cursors of a unit's partitions, in one transaction of two queries, and insert those that are new.

        L5: every unit reads them again (1 ms for one partition, 2 ms for 64, measured). A cursor kept from an earlier
        unit is wrong after a move between lanes, a COMMIT with an unknown result, or a restore of the database.
        """
        if not openings:
            return []
        places = [opening.place for opening in openings]
        with self.target.transaction() as connection:
            found = cursor.read_all(connection, places)
            unsettled = cursor.unsettled(connection, places) if found else {}
            return [
                self._opened(connection, each, found.get(each.place), unsettled.get(each.place, []))
                for each in openings
            ]

    def _opened(
        self, connection: sa.Connection, opening: Opening, found: int | None, unsettled: list[tuple[int, bytes]]
    ) -> Opened:
        place = opening.place
        if found is None:
            start = max(opening.start, opening.log_start)
            cursor.begin(connection, place, start)
            return Opened(start, [])
        # A failure stays unsettled until a chunk marks it; the driver may have settled it since.
        failed = [failure for offset, failure in unsettled if offset >= opening.settled]
        if found >= opening.log_start:
            return Opened(found, failed)
        # The log was deleted up to its start: there is nothing to read below it, now or later.
        cursor.move(connection, place, found, opening.log_start)
        return Opened(opening.log_start, failed, found)

    def put(self, chunk: Chunk) -> Written:
        """I5: rows, failures and cursor in one transaction."""
        prepared, refused = self._prepared(chunk.events)
        if chunk.throws and refused:
            return self._put_before(chunk, refused[0])
        try:
            return self._repeated(lambda: self._put(chunk, prepared, refused))
        except _Stopped as stopped:
            return self._put_before(chunk, stopped.refused)

    def _put_before(self, chunk: Chunk, refused: Refused) -> Written:
        part = chunk.before(_offset(refused))
        earlier = self.put(part) if part.end > part.current else Written(part.current, [])
        # What comes before may hold one that is refused, too: the database looks at rows in its own order.
        return earlier if earlier.refused else Written(part.end, [refused])

    def _put(self, chunk: Chunk, prepared: list[tuple[Event, T]], unfit: list[Refused]) -> Written:
        with self.target.transaction() as connection:
            # I5: first of all, so that a former owner writes nothing. The row stays locked to the end.
            cursor.move(connection, chunk.place, chunk.current, chunk.end)
            if chunk.settled is not None:
                cursor.settle(connection, chunk.place, chunk.settled)
            reach("before-rows")
            taken = self.take(connection, chunk.place, prepared)
            if taken.cut is not None:
                chunk, unfit = self._shortened(connection, chunk, unfit, *taken.cut)
            refused = sorted([*unfit, *taken.refused], key=_offset)
            if chunk.throws and refused:
                raise _Stopped(refused[0])
            noted = chunk.failed + [(_offset(each), chunk.encode(*each)) for each in refused]
            cursor.keep(connection, chunk.place, noted)
            chunk.confirm()
            reach("before-transaction-commit")
        reach("after-transaction-commit")
        return Written(chunk.end, refused, taken.cut[1] if taken.cut else None)

    def _shortened(
        self, connection: sa.Connection, chunk: Chunk, unfit: list[Refused], cut: int, why: Unavailable
    ) -> tuple[Chunk, list[Refused]]:
        if cut <= chunk.current:
            raise why
        cursor.move(connection, chunk.place, chunk.end, cut)
        return chunk.before(cut), [each for each in unfit if _offset(each) < cut]

    # -- replays ---------------------------------------------------------------------------

    def put_again(self, place: Place, events: Sequence[Event]) -> list[Refused]:
        """Write events that failed before, each once, whatever is repeated; the cursor stays where it is."""
        prepared, refused = self._prepared(events)
        return [*refused, *self._repeated(lambda: self._put_again(place, prepared))]

    def _put_again(self, place: Place, prepared: list[tuple[Event, T]]) -> list[Refused]:
        with self.target.transaction() as connection:
            offsets = [event.record.offset() for event, _ in prepared]
            there = cursor.written(connection, place, offsets)
            taken = self.take(connection, place, [e for e in prepared if e[0].record.offset() not in there])
            if taken.cut is not None:
                raise taken.cut[1]
            refused = taken.refused
            bad = {_offset(each) for each in refused}
            cursor.apply(connection, place, [o for o in offsets if o not in there and o not in bad])
        return refused

    # -- rows ------------------------------------------------------------------------------

    def _prepared(self, events: Sequence[Event]) -> tuple[list[tuple[Event, T]], list[Refused]]:
        good: list[tuple[Event, T]] = []
        bad: list[Refused] = []
        for event in events:
            try:
                good.append((event, self.prepare(event)))
            except TargetUnavailable:
                raise
            except Exception as error:  # noqa: BLE001 - whatever an expression or a processor raises ends this event alone
                bad.append((event, error))
        return good, bad

    def sifted(
        self,
        connection: sa.Connection,
        prepared: list[tuple[Event, T]],
        write: Callable[[sa.Connection, Sequence[T]], object],
    ) -> list[Refused]:
        """I9: a row that the database refuses is found by halving; the others are written."""
        if not prepared:
            return []
        try:
            with connection.begin_nested():
                write(connection, [row for _, row in prepared])
                self.target.check_constraints(connection)
        except TargetUnavailable:
            raise
        except Exception as error:
            if isinstance(error, exc.SQLAlchemyError) and not is_refusal(error):
                raise
            if len(prepared) == 1:
                said = RowRefused(words(error)) if isinstance(error, exc.SQLAlchemyError) else error
                return [(prepared[0][0], said)]
            middle = len(prepared) // 2
            first = self.sifted(connection, prepared[:middle], write)
            return first + self.sifted(connection, prepared[middle:], write)
        return []

    def _repeated(self, act: Callable[[], R]) -> R:
        for attempt in range(1, _TRIES):
            try:
                return act()
            except TargetUnavailable as error:
                if not is_conflict(error):
                    raise
                self.clock.sleep(self.clock.jittered(_CONFLICT_PAUSE * 2**attempt, 0.67))
        return act()


class RowAction(SqlAction[T]):
    """The base of `table` and of processors: all rows are written, whatever their number."""

    @abstractmethod
    def write(self, connection: sa.Connection, prepared: Sequence[T]) -> None:
        """Write within the caller's transaction; raises what the database says."""

    def take(self, connection: sa.Connection, place: Place, prepared: list[tuple[Event, T]]) -> Taken:  # noqa: ARG002 - rows say themselves where they were
        return Taken(self.sifted(connection, prepared, self.write))


class _Stopped(Exception):
    """Undoes a transaction at the first refused event."""

    def __init__(self, refused: Refused) -> None:
        super().__init__()
        self.refused = refused


def _offset(refused: Refused) -> int:
    return refused[0].record.offset()
