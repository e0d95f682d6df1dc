"""How a store is upgraded while instances of the version before go on working with it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from penstock.store import DeadLetterFilter, Store, schema
from penstock.store.database import Database
from penstock.store.dead_letters import DeadLetters
from penstock.store.upsert import upsert
from penstock.store.workflow_tables import WORDS
from tests.behaviour.store.letters import letter


class OldInstance:
    """Works with the tables as a version of the schema had them: each statement names the columns it knows."""

    def __init__(self, url: str, version: str) -> None:
        self._database = Database.connect(url, create=True)
        with self._database.write() as connection:
            schema.migrate(connection, version)
        tables = sa.MetaData()
        tables.reflect(self._database.engine)
        self._tables = [
            table
            for table in tables.sorted_tables
            if table.name != schema.VERSION_TABLE and not table.name.startswith(WORDS)
        ]

    def work(self, number: int) -> None:
        """Write a row, with every column, into every table; again, as settling does."""
        for _ in range(2):
            with self._database.write() as connection:
                for table in self._tables:
                    row = {column.name: _value(column, number) for column in table.columns}
                    connection.execute(upsert(self._database, table), row)

    def rows(self) -> dict[str, int]:
        with self._database.read() as connection:
            return {table.name: len(connection.execute(sa.select(*table.columns)).all()) for table in self._tables}

    def close(self) -> None:
        self._database.close()


def _value(column: sa.Column[Any], number: int) -> object:
    if column.name in ("headers", "data"):
        return "{}"
    if isinstance(column.type, sa.ARRAY):
        return [number]
    if isinstance(column.type, postgresql.TSVECTOR):
        return f"text-{number}"
    kind = column.type.python_type
    values = {str: f"text-{number}", bytes: b"x", float: 1.0, bool: True, UUID: str(UUID(int=number)), list: [number]}
    return values.get(kind, number)


class UpgradingBehaviour:
    @pytest.mark.parametrize("version", schema.versions()[:-1])
    def test_an_instance_of_the_version_before_goes_on_while_the_store_is_upgraded(
        self, url: str, version: str
    ) -> None:
        following = schema.versions()[schema.versions().index(version) + 1]
        old = OldInstance(url, version)
        old.work(1)
        newer = Database.connect(url, create=False)
        with newer.write() as connection:
            schema.migrate(connection, following)
        assert schema.current_version(newer) == following
        newer.close()
        old.work(2)
        assert set(old.rows().values()) == {2}
        old.close()

    def test_a_store_of_the_first_version_is_upgraded_and_what_it_holds_is_there(self, url: str) -> None:
        old = OldInstance(url, "0001")
        old.work(1)
        with Store.open(url) as store:
            assert store.version() == schema.known_version()
            assert [row.pipeline for row in store.pipelines.states()] == ["text-1"]
            wanted = store.desired.all()["text-1"]
            assert (wanted.revision, wanted.restarts, wanted.rate_limit, wanted.events) == (0, 0, None, [])
            assert store.dead_letters.count() == 1
        old.close()

    def test_letters_are_found_by_their_texts_after_these_are_indexed_anew(self, url: str) -> None:
        before = Database.connect(url, create=True)
        with before.write() as connection:
            schema.migrate(connection, "0005")
        DeadLetters(before).record([letter(1, value=b"order 7")])
        before.close()
        with Store.open(url) as store:
            while store.dead_letters.make_searchable():
                pass
            for text in ("order 7", "7"):
                assert store.dead_letters.count(DeadLetterFilter(text=text)) == 1
