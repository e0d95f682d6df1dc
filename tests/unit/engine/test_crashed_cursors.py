"""Moving a target's cursor behind an event that hangs or kills: nothing before it is lost, nothing is done twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.engine.pipelines.crashed_cursors import CrashedCursors
from penstock.pipeline.messages import Assignment
from penstock.tables.cursor import Place
from penstock.tables.errors import Fenced
from tests.unit.pipeline.table_unit import Worker, filtered, record, refused, table_spec

A = Assignment("t", 0, 1, 0, topic_id="ID")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/t.db"


@pytest.fixture
def worker(url: str) -> Iterator[Worker]:
    made = Worker(url)
    yield made
    made.close()


@pytest.fixture
def cursors(worker: Worker) -> CrashedCursors:
    return CrashedCursors(worker.executor.action.target, "p")


@pytest.fixture
def place(cursors: CrashedCursors) -> Place:
    return cursors.place("t", 0, "ID")


def test_the_cursor_passes_the_event_and_a_replay_may_write_it(
    worker: Worker, cursors: CrashedCursors, place: Place
) -> None:
    worker.run(A, [record(0), filtered(1)])
    assert not cursors.was_written(place, 2)
    for _ in range(2):
        cursors.pass_over(place, 2)
        assert cursors.was_written(place, 2)
        assert (cursors.read(place), worker.failure_states) == (3, {2: "settled"})
    outcome = worker.run(Assignment("t", 0, 1, 2, topic_id="ID"), [record(2), record(3)])
    assert (outcome.began_at, outcome.failed, worker.rows) == (3, [], [0, 3])
    worker.begin(Assignment("t", 0, 9, 2, topic_id="ID"), replays=True)
    worker.feed([record(2)])
    worker.executor.finish()
    assert worker.rows == [0, 2, 3]
    cursors.pass_over(place, 2)
    assert worker.failure_states == {2: "applied"}, "once it is written, passing it again changes nothing"


def test_failures_that_only_the_dead_worker_knew_are_still_reported(
    worker: Worker, cursors: CrashedCursors, place: Place, url: str
) -> None:
    worker.run(A, [record(0), refused(1), record(2)])  # and the worker dies at the next event, before it could report
    cursors.pass_over(place, 3)
    assert worker.failure_states == {1: "open", 3: "settled"}
    successor = Worker(url)
    assert successor.run(Assignment("t", 0, 1, 4, topic_id="ID"), []).failed == [1]
    successor.close()


def test_a_gap_of_the_log_before_the_event_is_passed_with_it(
    worker: Worker, cursors: CrashedCursors, place: Place
) -> None:
    worker.run(A, [record(0)])
    cursors.pass_over(place, 7, current=1)
    assert cursors.read(place) == 8


def test_events_before_it_that_were_never_written_are_not_passed(
    worker: Worker, cursors: CrashedCursors, place: Place
) -> None:
    """An older copy of the database was restored, or events before it were collected and not written."""
    worker.run(A, [record(0)])
    with pytest.raises(Fenced):
        cursors.pass_over(place, 7)
    with pytest.raises(Fenced):
        cursors.pass_over(place, 7, current=3)
    assert (cursors.read(place), worker.failure_states) == (1, {})


def test_a_partition_without_a_cursor_begins_behind_the_event(
    worker: Worker, cursors: CrashedCursors, place: Place
) -> None:
    cursors.pass_over(place, 0)
    outcome = worker.run(A, [record(0), record(1)])
    assert (outcome.began_at, worker.rows, worker.failure_states) == (1, [1], {0: "settled"})


def test_another_topic_of_the_same_name_has_another_cursor(worker: Worker, cursors: CrashedCursors) -> None:
    worker.run(A, [record(0)])
    cursors.pass_over(cursors.place("t", 0, "NEW"), 0)
    assert worker.cursors == {"ID": 1, "NEW": 1}


def test_the_target_is_the_one_that_the_action_names(worker: Worker, url: str) -> None:
    worker.run(A, [record(0)])
    with CrashedCursors.opened(table_spec(url)) as cursors:
        assert cursors.read(cursors.place("t", 0, "ID")) == 1
