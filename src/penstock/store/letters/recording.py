"""Recording failures: one letter per coordinates, whatever is settled again."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any, Final

import sqlalchemy as sa

from penstock.core.dead_letter import DeadLetter
from penstock.store.database import Database
from penstock.store.letters import rows
from penstock.store.letters.conditions import among
from penstock.store.letters.model import LetterPlace
from penstock.store.letters.payloads import PayloadFiles
from penstock.store.many import InsertMany, insert_many
from penstock.store.tables import dead_letter_payloads, dead_letter_search, dead_letter_steps, dead_letters
from penstock.store.upsert import Insert, insert

_LETTER: Final = tuple(rows.COLUMNS)
_PAYLOAD: Final = dead_letter_payloads.columns.keys()
_STEP: Final = [c.name for c in dead_letter_steps.columns if c.name != "id"]
_STEP_KEY: Final = ["letter_id", "at", "kind"]


class Recording:
    """Writes letters within a transaction of the caller's."""

    def __init__(self, database: Database, files: PayloadFiles) -> None:
        self._database = database
        self._files = files
        self._letters = insert_many(database, dead_letters, _LETTER, _letters)
        self._payloads = insert_many(database, dead_letter_payloads, _PAYLOAD, _payloads)
        self._search = _search_insert(database)
        self._steps = insert_many(database, dead_letter_steps, _STEP, _steps)

    def write(self, connection: sa.Connection, letters: Sequence[DeadLetter]) -> list[int]:
        """Make the letters, or update those there are; their ids."""
        places = [rows.place_of(letter) for letter in letters]
        # One statement must not meet a row twice, and writers that take rows in the same order cannot deadlock.
        latest = dict(sorted(zip(places, letters, strict=True), key=itemgetter(0)))
        stored = self._letters.run(connection, [rows.letter_values(letter) for letter in latest.values()])
        ids = {LetterPlace(*place): number for number, *place in stored}
        numbered = [(ids[at], letter) for at, letter in latest.items()]
        for some in rows.by_size(numbered):
            self._payloads.run(connection, [rows.payload_values(*each, self._files) for each in some])
        self.make_searchable(connection, numbered)
        return [ids[at] for at in places]

    def make_searchable(self, connection: sa.Connection, numbered: Sequence[tuple[int, DeadLetter]]) -> None:
        """Put the letters' texts where they are looked for."""
        with_grams = not self._database.is_sqlite
        values = [rows.search_values(*each, with_grams=with_grams) for each in numbered]
        self._search.run(connection, values)

    def add_steps(self, connection: sa.Connection, steps: Sequence[dict[str, Any]]) -> None:
        """Go on with the letters' histories."""
        self._steps.run(connection, steps)

    def add_step(self, connection: sa.Connection, ids: Sequence[int], step: dict[str, Any]) -> None:
        """The same step for many letters; the database multiplies it in a third of the time."""
        names = [name for name in _STEP if name != "letter_id"]
        said = [sa.literal(step[name], dead_letter_steps.c[name].type) for name in names]
        chosen = sa.select(dead_letters.c.id, *said).where(among(self._database, dead_letters.c.id, ids))
        statement = insert(self._database, dead_letter_steps).from_select(["letter_id", *names], chosen)
        connection.execute(statement.on_conflict_do_nothing(index_elements=_STEP_KEY))


def _letters(statement: Insert) -> sa.sql.dml.Insert:
    given, c = statement.excluded, dead_letters.c
    newer = {name: given[name] for name in ("spec_version", *rows.FAILURE)}
    earliest = sa.case((given.first_failed_at < c.first_failed_at, given.first_failed_at), else_=c.first_failed_at)
    # An event that fails again after its letter was closed is open again; a settle that is merely repeated is not news.
    # Literals, for a statement over many rows takes no other parameters than theirs.
    closed = c.status.in_([sa.literal_column("'replayed'"), sa.literal_column("'discarded'")])
    failed_again = closed & (given.last_failed_at > c.last_failed_at)
    status = sa.case((failed_again, sa.literal_column("'new'")), else_=c.status)
    changes = newer | {"first_failed_at": earliest, "status": status}
    statement = statement.on_conflict_do_update(index_elements=[c[name] for name in rows.COORDINATES], set_=changes)
    return statement.returning(c.id, *(c[name] for name in rows.COORDINATES))


def _payloads(statement: Insert) -> Insert:
    # I3: the record's own bytes were stored with the first failure and are not touched again.
    seen = {"traceback": statement.excluded.traceback, "value_seen": statement.excluded.value_seen}
    return statement.on_conflict_do_update(index_elements=["letter_id"], set_=seen)


def _search_insert(database: Database) -> InsertMany:
    names = rows.TEXTS if database.is_sqlite else (*rows.TEXTS, "grams")
    newer = [name for name in names if name != "letter_id"]
    return insert_many(
        database,
        dead_letter_search,
        names,
        lambda statement: statement.on_conflict_do_update(
            index_elements=["letter_id"], set_={name: statement.excluded[name] for name in newer}
        ),
    )


def _steps(statement: Insert) -> Insert:
    return statement.on_conflict_do_nothing(index_elements=_STEP_KEY)
