"""I5: whatever is delivered again, refused or interrupted, a table's content equals its topic's."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import orjson
import pytest
import sqlalchemy as sa

from penstock.core.errors import ConfigError
from penstock.engine.replay.dead_letters import LetterWork
from penstock.engine.replay.replay import Replay
from penstock.service.offsets import Target, cluster_of, reset_offsets
from tests.support.engine import Engine, pipeline
from tests.support.kafka import KafkaBroker
from tests.support.kafka_client import Sent
from tests.support.waiting import until

COLUMNS = {
    "id": {"from": "id", "type": "bigint"},
    "name": "customer.name",
    "total": {"cel": "event.total * 2.0", "type": "float"},
    "at": {"from": "at", "type": "timestamp", "default": 0},
}
Query = Callable[[str], list[Any]]
Topics = Callable[..., str]


@pytest.fixture
def query(url: str) -> Iterator[Query]:
    engine = sa.create_engine(url)

    def run(statement: str) -> list[Any]:
        with engine.connect() as connection:
            return [tuple(row) for row in connection.execute(sa.text(statement))]

    yield run
    engine.dispose()


def order(number: int, **more: Any) -> dict[str, Any]:
    return {"id": number, "customer": {"name": f"Ann {number}"}, "total": 1.5} | more


def table(url: str, **more: Any) -> dict[str, Any]:
    return {"type": "table", "config": {"url": url, "table": "orders", "columns": COLUMNS, "create": True} | more}


def test_every_event_is_a_row_once_and_bad_ones_are_letters_with_the_databases_words(
    engine: Engine, kafka: KafkaBroker, topic: Topics, url: str, query: Query
) -> None:
    orders = topic(partitions=3)
    name = f"rows-{orders}"
    values = [order(n) for n in range(900)]
    values[100]["id"] = "not a number"
    values[200]["total"] = "much"
    values[300]["customer"] = {"name": "a\0b"}
    kafka.produce(orders, map(orjson.dumps, values))
    flow = engine.run(pipeline(name, kafka.bootstrap, [orders], action=table(url, metadata=True)))
    until(lambda: kafka.lag(name, orders) == 0, 60, lambda: f"all is committed: {flow.state} {flow.reason}")

    rows = query("SELECT id, name, total, kafka_topic, kafka_partition, kafka_offset FROM orders ORDER BY id")
    assert [row[0] for row in rows] == [n for n in range(900) if n not in (100, 200, 300)]
    assert rows[5][1:4] == ("Ann 5", 3.0, orders)
    assert len({(row[4], row[5]) for row in rows}) == 897
    letters = engine.dead_letters(name)
    assert {letter.stage for letter in letters} == {"write"}
    assert any("column id: a whole number is wanted" in letter.error for letter in letters)
    assert sorted(query("SELECT next_offset FROM penstock_cursors")) == sorted(
        (end,) for end in kafka.end_offsets(orders).values()
    )
    engine.stop(flow)


def test_a_row_that_the_database_refuses_is_found_among_its_neighbours(
    engine: Engine, kafka: KafkaBroker, topic: Topics, url: str, query: Query
) -> None:
    orders = topic(partitions=1)
    made = sa.create_engine(url)
    with made.begin() as connection:
        connection.execute(
            sa.text("CREATE TABLE orders (id BIGINT PRIMARY KEY, note VARCHAR(10) CHECK (note <> 'bad'))")
        )
    made.dispose()
    kafka.produce(
        orders,
        map(orjson.dumps, [{"id": n, "note": "bad" if n in (3, 700) else "fine"} for n in range(1_000)] + [{"id": 5}]),
    )
    action = {"type": "table", "config": {"url": url, "table": "orders", "columns": {"id": "id", "note": "note"}}}
    name = f"refused-{orders}"
    flow = engine.run(pipeline(name, kafka.bootstrap, [orders], action=action))
    until(lambda: kafka.lag(name, orders) == 0, 60, lambda: f"all is committed: {flow.state} {flow.reason}")

    assert query("SELECT count(*), min(id), max(id) FROM orders") == [(998, 0, 999)]
    letters = {letter.offset: letter.error for letter in engine.dead_letters(name)}
    assert sorted(letters) == [3, 700, 1_000]
    assert "constraint" in letters[3].lower()
    assert "unique" in letters[1_000].lower()
    engine.stop(flow)


def test_offsets_that_go_back_change_nothing_and_a_topic_made_anew_begins_anew(
    engine: Engine, kafka: KafkaBroker, topic: Topics, url: str, query: Query
) -> None:
    orders = topic(partitions=1)
    name = f"again-{orders}"
    document = pipeline(name, kafka.bootstrap, [orders], action=table(url))
    kafka.produce(orders, map(orjson.dumps, [order(n) for n in range(50)]))
    flow = engine.run(document)
    until(lambda: kafka.lag(name, orders) == 0, 60, lambda: f"all is committed: {flow.state} {flow.reason}")
    engine.stop(flow)

    kafka.set_offsets(name, {(orders, 0): 10})
    flow = engine.run(document)
    kafka.produce(orders, map(orjson.dumps, [order(n) for n in range(50, 60)]))
    until(lambda: kafka.lag(name, orders) == 0, 60, lambda: f"committed again: {flow.state} {flow.reason}")
    assert [row[0] for row in query("SELECT id FROM orders ORDER BY id")] == list(range(60))
    engine.stop(flow)

    kafka.delete_topic(orders)
    kafka.create_topic(orders, 1)
    kafka.produce(orders, map(orjson.dumps, [order(n) for n in range(60, 80)]))
    flow = engine.run(document)
    until(lambda: query("SELECT count(*) FROM orders") == [(80,)], 60, lambda: f"the new topic: {flow.state}")
    assert [row[0] for row in query("SELECT id FROM orders ORDER BY id")] == list(range(80))
    engine.stop(flow)


def test_a_cursor_below_the_beginning_of_the_log_goes_on_behind_the_gap(
    engine: Engine, kafka: KafkaBroker, topic: Topics, url: str, query: Query
) -> None:
    """F4: while the pipeline was stopped, records that the cursor points at were deleted."""
    orders = topic(partitions=1)
    name = f"gap-{orders}"
    document = pipeline(name, kafka.bootstrap, [orders], action=table(url))
    kafka.produce(orders, map(orjson.dumps, [order(n) for n in range(100)]))
    flow = engine.run(document)
    until(lambda: kafka.lag(name, orders) == 0, 60, lambda: f"all is committed: {flow.state} {flow.reason}")
    engine.stop(flow)
    kafka.produce(orders, map(orjson.dumps, [order(n) for n in range(100, 200)]))
    kafka.delete_records(orders, {0: 150})

    flow = engine.run(document)
    until(lambda: kafka.lag(name, orders) == 0, 60, lambda: f"behind the gap: {flow.state} {flow.reason}")
    kafka.produce(orders, map(orjson.dumps, [order(n) for n in range(200, 210)]))
    until(lambda: kafka.lag(name, orders) == 0, 60, lambda: f"and on: {flow.state} {flow.reason}")
    engine.stop(flow)
    assert [row[0] for row in query("SELECT id FROM orders ORDER BY id")] == [*range(100), *range(150, 210)]
    assert query("SELECT next_offset FROM penstock_cursors") == [(210,)]
    assert {row.kind for row in engine.store.pipelines.history(name)} == {"gap"}
    assert engine.dead_letters(name) == []


def test_i05_a_topic_that_is_recreated_under_a_running_pipeline_is_written_once(
    engine: Engine, kafka: KafkaBroker, topic: Topics, url: str, query: Query
) -> None:
    """F36: the new topic is longer than the old one was; what is read of it under the old id is not written twice."""
    orders = topic(partitions=1)
    name = f"anew-{orders}"
    kafka.produce(orders, map(orjson.dumps, [order(n) for n in range(20)]))
    flow = engine.run(pipeline(name, kafka.bootstrap, [orders], action=table(url)))
    until(lambda: kafka.lag(name, orders) == 0, 60, lambda: f"all is committed: {flow.state} {flow.reason}")
    kafka.delete_topic(orders)
    kafka.create_topic(orders, 1)
    kafka.produce(orders, map(orjson.dumps, [order(n) for n in range(20, 80)]))
    until(lambda: query("SELECT count(*) FROM orders")[0][0] >= 80, 60, lambda: f"{flow.state} {flow.reason}")
    kafka.produce(orders, map(orjson.dumps, [order(80)]))
    until(lambda: query("SELECT count(*) FROM orders WHERE id = 80") == [(1,)], 60, lambda: f"{flow.state}")
    engine.stop(flow)
    assert [row[0] for row in query("SELECT id FROM orders ORDER BY id")] == list(range(81))


def test_events_are_written_again_only_where_that_is_said(
    engine: Engine, kafka: KafkaBroker, topic: Topics, url: str, query: Query
) -> None:
    orders = topic(partitions=1)
    name = f"reapplied-{orders}"
    document = pipeline(name, kafka.bootstrap, [orders], action=table(url))
    kafka.produce(orders, map(orjson.dumps, [order(n) for n in range(20)]))
    flow = engine.run(document)
    until(lambda: kafka.lag(name, orders) == 0, 60, lambda: f"all is committed: {flow.state} {flow.reason}")
    engine.stop(flow)

    spec = engine.spec(document)
    back = Target("offset", 15)
    with pytest.raises(ConfigError, match="sets the cursor too"):
        reset_offsets(None, cluster_of(spec), spec, back)
    assert kafka.offsets(name) == {(orders, 0): 20}
    reset_offsets(None, cluster_of(spec), spec, back, reapply=True)
    flow = engine.run(document)
    until(lambda: query("SELECT count(*) FROM orders") == [(25,)], 60, lambda: f"again: {flow.state} {flow.reason}")
    until(lambda: kafka.lag(name, orders) == 0, 60, lambda: f"committed again: {flow.state} {flow.reason}")
    assert query("SELECT id FROM orders GROUP BY id HAVING count(*) = 2 ORDER BY id") == [(n,) for n in range(15, 20)]
    engine.stop(flow)


def test_a_letter_that_is_replayed_twice_is_written_once(
    engine: Engine, kafka: KafkaBroker, topic: Topics, url: str, query: Query
) -> None:
    orders = topic(partitions=2)
    name = f"replayed-{orders}"
    kafka.produce(orders, map(orjson.dumps, [order(n, total="much" if n % 10 == 0 else 1.5) for n in range(100)]))
    document = pipeline(name, kafka.bootstrap, [orders], action=table(url))
    flow = engine.run(document)
    until(lambda: kafka.lag(name, orders) == 0, 60, lambda: f"all is committed: {flow.state} {flow.reason}")
    assert query("SELECT count(*) FROM orders") == [(90,)]
    ids = [letter.id for letter in engine.dead_letters(name)]
    assert len(ids) == 10
    engine.stop(flow)

    lenient = {name: column for name, column in COLUMNS.items() if name != "total"}
    spec = engine.spec(pipeline(name, kafka.bootstrap, [orders], action=table(url, columns=lenient)))
    for _ in range(2):  # a letter may be taken again by its id: it is in the table already
        work = LetterWork(
            engine.store.dead_letters,
            ids,
            spec,
            by="test",
            max_replays=9,
            lanes=1,
            stop=threading.Event(),
            say=lambda _: None,
        )
        with work:
            Replay(engine.instance.spark, spec, work).run(threading.Event())
        assert work.marks.replayed == 10
    assert query("SELECT count(*), count(DISTINCT id) FROM orders") == [(100, 100)]


def test_upsert_keeps_the_last_event_of_a_key_and_latest_the_newest(
    engine: Engine, kafka: KafkaBroker, topic: Topics, url: str, query: Query
) -> None:
    orders = topic(partitions=1)
    events = [{"id": n % 7, "customer": {"name": f"v{n}"}, "total": 1.0, "at": 1_000_000 - n} for n in range(70)]
    kafka.produce(orders, map(orjson.dumps, events))
    flows = []
    for mode, more in (("upsert", {}), ("latest", {"newest": "at"})):
        config = table(url, table=mode, mode=mode, keys=["id"], **more)
        flows.append(engine.run(pipeline(f"{mode}-{orders}", kafka.bootstrap, [orders], action=config)))
        until(lambda mode=mode: kafka.lag(f"{mode}-{orders}", orders) == 0, 60, "all is committed")
    assert query("SELECT id, name FROM upsert ORDER BY id") == [(n, f"v{63 + n}") for n in range(7)]
    assert query("SELECT id, name FROM latest ORDER BY id") == [(n, f"v{n}") for n in range(7)]
    for flow in flows:
        engine.stop(flow)


def test_tombstones_and_what_is_no_json_are_letters(
    engine: Engine, kafka: KafkaBroker, topic: Topics, url: str, query: Query
) -> None:
    orders = topic(partitions=1)
    name = f"bad-{orders}"
    kafka.produce(
        orders, [Sent(b'{"id": 1, "total": 1.0}'), Sent(None), Sent(b"\xff"), Sent(b'{"id": 2, "total": 1.0}')]
    )
    config = table(url, mode="upsert", keys=["id"])
    flow = engine.run(pipeline(name, kafka.bootstrap, [orders], action=config))
    until(lambda: kafka.lag(name, orders) == 0, 60, lambda: f"all is committed: {flow.state} {flow.reason}")
    assert [row[0] for row in query("SELECT id FROM orders ORDER BY id")] == [1, 2]
    assert {(each.offset, each.stage) for each in engine.dead_letters(name)} == {(1, "write"), (2, "decode")}
    engine.stop(flow)
