"""The `work_order` action over a store: what a chunk writes, where limits cut it, what is never written twice."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.act.work_order import WorkOrder
from penstock.core.event import Event, Record
from penstock.core.ids import new_id
from penstock.core.plugin import PipelineContext
from penstock.engine.pipelines.crashed_cursors import CrashedCursors
from penstock.tables.action import Chunk, Opening, Written
from penstock.tables.cursor import Place
from penstock.tables.errors import Fenced, TargetUnavailable
from penstock.workflows.backlog import BacklogFull
from penstock.workflows.limits import LimitReached
from penstock.workflows.message import InvalidData
from tests.support.desk import Desk
from tests.support.postgres import PostgresServer, postgres_server

__all__ = ["postgres_server"]

PLACE = Place("trigger-x", "topic-id", 0, "lab_results")
Make = Callable[..., Desk]


@pytest.fixture(params=["sqlite", "postgresql"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    made: list[Desk] = []

    def one(**limits: Any) -> Desk:
        if request.param == "sqlite":
            url = f"sqlite:///{tmp_path / f'store{len(made)}.db'}"
        else:
            server: PostgresServer = request.getfixturevalue("postgres_server")
            url = server.create_database()
        made.append(Desk(url, limits=limits))
        return made[-1]

    yield one
    for each in made:
        each.close()


@pytest.fixture
def desk(make: Make) -> Desk:
    return make()


def action(desk: Desk, **more: Any) -> WorkOrder:
    return WorkOrder.create(desk.action(**more)["config"], PipelineContext("trigger-x"))


def event(offset: int, value: bytes | None = b'{"a": 1}', key: bytes | None = b"k", place: Place = PLACE) -> Event:
    record = Record(place.topic, place.partition, offset, key, value, [("h", b"v")], 1_700_000_000_000, 1)
    return Event(record, value, place.topic)


def put(action: WorkOrder, current: int, events: list[Event], place: Place = PLACE) -> Written:
    action.open(place, current)
    end = events[-1].record.offset() + 1
    return action.put(Chunk(place, current, end, events, encode=lambda _event, error: str(error).encode()))


def test_a_message_is_a_dataclip_a_work_order_and_a_run(desk: Desk) -> None:
    value = '{"name": "Zoë\\\\ \\"x\\"",\r\n\t"nul": "\\u0000", "configuration": 1}'.encode()
    act = action(desk, ordering="key")
    put(act, 5, [event(5, b'{"a":\t"\\n"}\r\n'), event(6, value, key=b"\xff\t\\"), event(7, key=None)])
    act.close()
    clips = desk.query(
        'SELECT type, body, raw, topic, topic_id, trigger_id, request FROM penstock_dataclips ORDER BY "offset"'
    )
    assert [row[1] for row in clips] == ['{"a":\t"\\n"}\r\n', '{"name":"Zoë\\\\ \\"x\\"","nul":"\\u0000"}', '{"a": 1}']
    assert [None if row[2] is None else bytes(row[2]) for row in clips] == [None, value, None]
    assert {(row[0], row[3], row[4], str(row[5])) for row in clips} == {
        ("kafka", "lab_results", "topic-id", desk.trigger)
    }
    assert json.loads(clips[1][6]) == {
        "topic": "lab_results", "partition": 0, "offset": 6, "key": "/wlc", "ts": 1_700_000_000_000,
        "headers": [["h", "v"]], "key_encoding": "base64",
    }  # fmt: skip
    rows = desk.query(
        "SELECT w.state, r.state, r.order_key, r.queue, r.priority, r.options FROM penstock_runs r"
        " JOIN penstock_work_orders w ON w.id = r.work_order_id JOIN penstock_dataclips d ON d.id = w.dataclip_id"
        " AND r.dataclip_id = d.id AND w.snapshot_id = r.snapshot_id ORDER BY r.id"
    )
    keys = [f"{desk.trigger}/{end}" for end in ("aw==", "/wlc", "lab_results/0")]
    assert rows == [("pending", "available", key, "default", 1, "{}") for key in keys]


def test_what_cannot_be_taken_in_is_noted_and_tombstones_may_be_skipped(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    act = action(desk, tombstones="skip")
    with caplog.at_level(logging.WARNING):
        written = put(act, 0, [event(0), event(1, b"[1]"), event(2, None), event(3)])
    assert [type(error) for _, error in written.refused] == [InvalidData]
    assert written.end == 4
    assert desk.offsets() == [0, 3]
    assert desk.count("failures") == 1
    at = f"Trigger_id `{desk.trigger}` Topic `lab_results` Partition `0` Offset `1`"
    line = f"Kafka Pipeline Error: Type `invalid_data` {at} Key `k`"
    assert [record.getMessage() for record in caplog.records] == [line]
    act.close()


def test_a_chunk_is_cut_exactly_at_the_limits(make: Make) -> None:
    desk = make(soft_limit=30, hard_limit=35)
    act = action(desk, limits={"soft": 3, "hard": 7, "per": "day"})
    events = [event(n, b"no JSON" if n in (1, 6) else b"{}") for n in range(20)]
    written = put(act, 0, events)
    # 0, 2, 3 have runs; 4, 5, 7, 8 are rejected; 9 is beyond the hard limit.
    assert written.end == 9
    assert isinstance(written.waits, LimitReached)
    assert "trigger" in str(written.waits)
    assert [each.record.offset() for each, _ in written.refused] == [1, 6]
    assert desk.offsets() == [0, 2, 3, 4, 5, 7, 8]
    assert desk.states() == {"pending": 3, "rejected": 4}
    assert desk.count("runs") == 3
    with pytest.raises(LimitReached):
        act.put(Chunk(PLACE, 9, 20, events[9:]))
    assert desk.query("SELECT next_offset FROM penstock_cursors") == [(9,)]
    assert sorted(desk.query("SELECT work_orders FROM penstock_usage")) == [(7,), (7,)]
    act.close()
    # The limit is raised: what waited is taken in, up to the project's own.
    act = action(desk)
    written = act.put(Chunk(PLACE, 9, 60, [event(n) for n in range(9, 60)]))
    assert isinstance(written.waits, LimitReached)
    assert "project" in str(written.waits)
    assert (len(desk.offsets()), desk.states()) == (35, {"pending": 26, "rejected": 9})
    act.close()


def test_a_new_period_begins_at_nothing_and_the_old_one_is_forgotten(desk: Desk) -> None:
    act = action(desk, limits={"hard": 2, "per": "hour"})
    written = put(act, 0, [event(n) for n in range(4)])
    assert (written.end, desk.count("usage")) == (2, 1)
    desk.execute("UPDATE penstock_usage SET period = '2020-02-29T23'")
    written = act.put(Chunk(PLACE, 2, 5, [event(n) for n in range(2, 5)]))
    assert (written.end, desk.count("usage")) == (4, 1)
    act.close()


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    soft=st.one_of(st.none(), st.integers(0, 12)),
    hard=st.one_of(st.none(), st.integers(0, 12)),
    sizes=st.lists(st.integers(1, 6), max_size=4),
)
def test_any_limits_and_chunks_add_up(desk: Desk, soft: int | None, hard: int | None, sizes: list[int]) -> None:
    trigger = new_id()
    place = PLACE._replace(pipeline=trigger)
    act = action(desk, trigger=trigger, limits={"soft": soft, "hard": hard, "per": "total"})
    at = 0
    for size in sizes:
        try:
            at = put(act, at, [event(n) for n in range(at, at + size)], place).end
        except LimitReached:
            continue
    act.close()
    taken = min(sum(sizes), hard if hard is not None else 99)
    with_run = min(taken, soft if soft is not None else 99)
    found = desk.query(
        "SELECT w.state, count(*), count(r.id) FROM penstock_work_orders w"  # noqa: S608 - an id of ours
        f" LEFT JOIN penstock_runs r ON r.work_order_id = w.id WHERE w.trigger_id = '{trigger}' GROUP BY 1 ORDER BY 1"
    )
    expected = [("pending", with_run, with_run), ("rejected", taken - with_run, 0)]
    assert found == [each for each in expected if each[1]]


def test_a_full_backlog_waits_for_runs_to_end(desk: Desk) -> None:
    act = action(desk, backlog=5)
    written = put(act, 0, [event(n) for n in range(8)])
    assert (written.end, desk.count("runs")) == (5, 5)
    assert isinstance(written.waits, BacklogFull)
    first = "SELECT id FROM penstock_runs ORDER BY id LIMIT 1"
    desk.execute(f"UPDATE penstock_runs SET state = 'success' WHERE id = ({first})")  # noqa: S608 - a text of ours
    written = act.put(Chunk(PLACE, 5, 8, [event(n) for n in range(5, 8)]))
    assert (written.end, desk.count("runs")) == (6, 6)
    act.close()


def test_what_recovery_took_in_is_a_duplicate_and_not_a_failure(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    act = action(desk, limits={"hard": 100})
    put(act, 0, [event(n) for n in range(3)])
    desk.execute("UPDATE penstock_cursors SET next_offset = 0")
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        written = act.put(Chunk(PLACE, 0, 5, [event(n) for n in range(5)]))
    assert (written.refused, written.end, desk.offsets()) == ([], 5, [0, 1, 2, 3, 4])
    assert desk.query("SELECT work_orders FROM penstock_usage") == [(5,)]
    lines = [record.getMessage() for record in caplog.records]
    at = f"Trigger_id `{desk.trigger}` Topic `lab_results` Partition `0` Offset"
    assert lines == [f"Kafka Pipeline Duplicate Message: {at} `{n}`" for n in range(3)]
    act.close()


def test_a_letter_is_a_work_order_once_however_often_it_is_replayed(desk: Desk) -> None:
    act = action(desk)
    assert len(put(act, 0, [event(0), event(1, b"[1]"), event(2)]).refused) == 1
    act.close()
    lenient = action(desk, accept="any")
    for _ in range(2):
        assert lenient.put_again(PLACE, [event(1, b"[1]")]) == []
    assert desk.offsets() == [0, 1, 2]
    assert desk.count("work_orders") == desk.count("runs") == 3
    lenient.close()


def test_what_the_database_refuses_is_a_letter_a_copy_and_gathers_for_the_admins(
    desk: Desk, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    if desk.url.startswith("sqlite"):
        desk.execute(
            "CREATE TRIGGER refuse BEFORE INSERT ON penstock_dataclips WHEN new.body LIKE '%poison%'"
            " BEGIN SELECT RAISE(ABORT, 'no poison here'); END"
        )
    else:
        desk.execute("ALTER TABLE penstock_dataclips ADD CONSTRAINT no_poison CHECK (body NOT LIKE '%poison%')")
    base = tmp_path / "copies"
    base.mkdir()
    act = action(desk, alternate_storage=str(base))
    events = [event(n, b'{"a": "poison"}' if n in (3, 40) else b"{}") for n in range(50)]
    with caplog.at_level(logging.WARNING):
        written = put(act, 0, events)
    assert [each.record.offset() for each, _ in written.refused] == [3, 40]
    assert len(desk.offsets()) == desk.count("runs") == 48
    copies = sorted(path.name for path in (base / desk.workflow).iterdir())
    assert copies == [f"{desk.trigger}_lab_results_0_{n}.json" for n in (3, 40)]
    assert "Kafka Pipeline Error: Type `persistence`" in caplog.text
    ((unreported,),) = desk.query("SELECT unreported FROM penstock_triggers")
    assert json.loads(unreported)["count"] == 2
    assert json.loads(unreported)["messages"] == ["lab_results/0@3", "lab_results/0@40"]
    act.close()


def test_a_store_that_is_away_pauses_and_what_is_in_hand_is_copied_once(desk: Desk, tmp_path: Path) -> None:
    base = tmp_path / "copies"
    base.mkdir()
    act = action(desk, alternate_storage=str(base))
    put(act, 0, [event(0)])
    desk.execute("ALTER TABLE penstock_runs RENAME TO elsewhere")
    with pytest.raises(TargetUnavailable):
        act.put(Chunk(PLACE, 1, 3, [event(1), event(2, b"\xff", key=b"\xfe")]))
    folder = base / desk.workflow
    assert len(list(folder.iterdir())) == 2
    (folder / f"{desk.trigger}_lab_results_0_1.json").unlink()
    with pytest.raises(TargetUnavailable):
        act.put(Chunk(PLACE, 1, 4, [event(1), event(2), event(3)]))
    assert sorted(path.name[-6:-5] for path in folder.iterdir()) == ["2", "3"]
    assert desk.query("SELECT next_offset FROM penstock_cursors") == [(1,)]
    desk.execute("ALTER TABLE elsewhere RENAME TO penstock_runs")
    assert act.put(Chunk(PLACE, 1, 4, [event(1), event(2), event(3)])).refused == []
    assert desk.offsets() == [0, 1, 2, 3]
    act.close()


def test_a_workflow_that_is_gone_is_waited_for_and_another_owner_fences(desk: Desk) -> None:
    act = action(desk)
    put(act, 0, [event(0)])
    desk.execute("UPDATE penstock_workflows SET deleted_at = 1")
    with pytest.raises(Exception, match="not in the store") as caught:
        act.put(Chunk(PLACE, 1, 2, [event(1)]))
    assert caught.value.code == "workflow-gone"  # type: ignore[attr-defined]  # one of our errors
    desk.execute("UPDATE penstock_workflows SET deleted_at = NULL")
    with pytest.raises(Fenced):
        act.put(Chunk(PLACE, 0, 2, [event(0), event(1)]))
    assert desk.offsets() == [0]
    act.close()


def test_a_message_that_kills_its_worker_is_passed_over_and_a_replay_takes_it_in_once(desk: Desk) -> None:
    act = action(desk)
    put(act, 0, [event(0), event(1, b"[1]")])
    cursors = CrashedCursors(act.target, PLACE.pipeline)
    place = cursors.place(PLACE.topic, PLACE.partition, PLACE.topic_id)
    assert place == PLACE
    for _ in range(2):
        cursors.pass_over(place, 2)
    states = desk.query('SELECT "offset", state FROM penstock_failures ORDER BY 1')
    assert states == [(1, "open"), (2, "settled")], "what the dead worker had not reported stays to be reported"
    assert (act.open(PLACE, 0)[0], desk.offsets()) == (3, [0])
    for _ in range(2):
        assert act.put_again(PLACE, [event(2)]) == []
    assert desk.offsets() == [0, 2]
    with pytest.raises(Fenced):
        cursors.pass_over(place, 9)
    act.close()


def test_a_cursor_below_the_logs_start_moves_there(desk: Desk) -> None:
    act = action(desk)
    put(act, 0, [event(0), event(1, b"[1]")])
    (opened,) = act.open_all([Opening(PLACE, 7, log_start=5)])
    assert (opened.cursor, opened.moved_from, len(opened.failures)) == (5, 2, 1)
    (again,) = act.open_all([Opening(PLACE, 7, log_start=5, settled=2)])
    assert (again.cursor, again.moved_from, again.failures) == (5, None, [])
    assert act.put(Chunk(PLACE, 5, 8, [event(n) for n in range(5, 8)])).end == 8
    assert desk.offsets() == [0, 5, 6, 7]
    act.close()
