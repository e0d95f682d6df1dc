"""I9: constraints that PostgreSQL would check at COMMIT refuse one row, not the chunk."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from penstock.act.table import Table, TableConfig
from penstock.core.event import Event, Record
from penstock.tables.action import Chunk, Written
from penstock.tables.cursor import Place
from penstock.tables.errors import RowRefused
from tests.support.postgres import PostgresServer, postgres_server

__all__ = ["postgres_server"]

pytestmark = pytest.mark.postgres

PLACE = Place("pipeline", "topic-id", 0, "topic")
FOREIGN_KEY = """
CREATE TABLE customers (id bigint PRIMARY KEY);
INSERT INTO customers VALUES (1);
CREATE TABLE orders (id bigint, customer bigint REFERENCES customers DEFERRABLE INITIALLY DEFERRED);
"""
TRIGGER = """
CREATE TABLE orders (id bigint, customer bigint);
CREATE FUNCTION known() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN IF NEW.customer <> 1 THEN RAISE EXCEPTION 'unknown customer'; END IF; RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER orders_known AFTER INSERT ON orders DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW EXECUTE FUNCTION known();
"""
SELF_REFERENCE = """
CREATE TABLE orders (id bigint PRIMARY KEY, customer bigint REFERENCES orders DEFERRABLE INITIALLY DEFERRED);
"""


class Scene:
    def __init__(self, url: str) -> None:
        self.engine = sa.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
        self.url = url

    def table(self, schema: str) -> Table:
        with self.engine.begin() as connection:
            connection.exec_driver_sql(schema)
        columns = {name: {"from": name, "type": "bigint"} for name in ("id", "customer")}
        config = {"url": self.url, "table": "orders", "columns": columns}
        return Table(TableConfig.model_validate(config))

    def ids(self) -> list[int]:
        with self.engine.connect() as connection:
            return list(connection.scalars(sa.text("SELECT id FROM orders ORDER BY id")))

    def failures(self) -> list[int]:
        with self.engine.connect() as connection:
            return list(connection.scalars(sa.text('SELECT "offset" FROM penstock_failures ORDER BY 1')))


@pytest.fixture
def scene(postgres_server: PostgresServer) -> Iterator[Scene]:
    made = Scene(postgres_server.create_database())
    yield made
    made.engine.dispose()


def event(offset: int, customer: int | None) -> Event:
    return Event(Record("topic", 0, offset), {"id": offset, "customer": customer})


def put(table: Table, customers: dict[int, int | None], *, throws: bool = False) -> Written:
    table.open(PLACE, 0)
    events = [event(offset, customer) for offset, customer in customers.items()]
    return table.put(Chunk(PLACE, 0, len(events), events, encode=lambda *_: b"x", throws=throws))


@pytest.mark.parametrize("schema", [FOREIGN_KEY, TRIGGER], ids=["foreign key", "constraint trigger"])
def test_a_row_that_a_deferred_constraint_refuses_is_one_dead_letter(scene: Scene, schema: str) -> None:
    table = scene.table(schema)
    written = put(table, {n: 99 if n in (4, 17) else 1 for n in range(20)})
    assert [(each.record.offset(), type(error)) for each, error in written.refused] == [
        (4, RowRefused),
        (17, RowRefused),
    ]
    assert written.end == 20
    assert scene.ids() == [n for n in range(20) if n not in (4, 17)]
    assert scene.failures() == [4, 17]
    table.close()


def test_with_throw_the_cursor_stays_at_the_refused_row(scene: Scene) -> None:
    table = scene.table(FOREIGN_KEY)
    written = put(table, {0: 1, 1: 1, 2: 99, 3: 1}, throws=True)
    assert (written.end, scene.ids(), scene.failures()) == (2, [0, 1], [])
    table.close()


def test_a_replay_finds_the_refused_row_too(scene: Scene) -> None:
    table = scene.table(FOREIGN_KEY)
    put(table, dict.fromkeys(range(3), 99))
    refused = table.put_again(PLACE, [event(0, 1), event(1, 99), event(2, 1)])
    assert [each.record.offset() for each, _ in refused] == [1]
    assert scene.ids() == [0, 2]
    table.close()


def test_rows_of_a_chunk_may_refer_to_each_other_in_any_order(scene: Scene) -> None:
    table = scene.table(SELF_REFERENCE)
    assert put(table, {0: 2, 1: None, 2: 1}).refused == []
    assert scene.ids() == [0, 1, 2]
    table.close()


def test_constraints_are_deferred_again_for_the_next_statements(scene: Scene) -> None:
    """A processor writes an event's rows in several statements, perhaps the one that refers to another first."""
    table = scene.table(FOREIGN_KEY)
    with table.target.transaction() as connection:
        for number in (10, 11):
            connection.execute(sa.text("INSERT INTO orders VALUES (:n, :n)"), {"n": number})
            connection.execute(sa.text("INSERT INTO customers VALUES (:n)"), {"n": number})
            table.target.check_constraints(connection)
    assert scene.ids() == [10, 11]
    table.close()
