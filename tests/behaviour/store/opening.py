"""How a store is opened, made, upgraded and refused."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from penstock.store import Store, StoreMissing, StoreTooNew, schema
from penstock.store.workflow_tables import WORDS, metadata
from tests.behaviour.store.letters import letter


class OpeningBehaviour:
    def test_what_was_written_is_there_after_opening_again(self, url: str) -> None:
        with Store.open(url) as store:
            store.dead_letters.record([letter(1)])
        with Store.open(url, create=False) as store:
            assert store.dead_letters.count() == 1
            assert store.version() == schema.known_version()

    def test_a_store_that_is_not_there_is_made_only_when_asked(self, url: str) -> None:
        with pytest.raises(StoreMissing):
            Store.open(url, create=False)
        Store.open(url).close()
        Store.open(url, create=False).close()

    def test_the_migrations_lead_to_the_tables_the_code_knows(self, store: Store) -> None:
        with store._database.read() as connection:
            options = {
                "compare_type": True,
                "compare_server_default": True,
                "version_table": schema.VERSION_TABLE,
                # FTS5's table and those it makes for itself are no tables that SQLAlchemy could know.
                "include_name": lambda name, kind, _: kind != "table" or not name.startswith(WORDS),
            }
            assert compare_metadata(MigrationContext.configure(connection, opts=options), metadata) == []

    def test_a_newer_store_is_refused_and_left_alone(self, url: str) -> None:
        with Store.open(url) as store, store._database.write() as connection:
            connection.execute(sa.text(f"UPDATE {schema.VERSION_TABLE} SET version_num = '9999'"))  # noqa: S608 - a constant
        with pytest.raises(StoreTooNew) as refused:
            Store.open(url)
        assert (refused.value.received, refused.value.allowed) == ("9999", schema.known_version())

    def test_stores_opened_at_the_same_moment_are_made_once(self, url: str) -> None:
        with ThreadPoolExecutor(8) as pool:
            stores = list(pool.map(Store.open, [url] * 8))
        stores[0].dead_letters.record([letter(1)])
        assert [store.dead_letters.count() for store in stores] == [1] * 8
        for store in stores:
            store.close()

    def test_a_live_store_answers(self, store: Store) -> None:
        store.ping()
