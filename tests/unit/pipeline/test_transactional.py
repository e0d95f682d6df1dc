"""The executor of tables and work orders: where a unit begins, what it counts, and what it never writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.core.clock import Clock
from penstock.pipeline.messages import Assignment
from penstock.tables import action as action_module
from penstock.tables.errors import TargetUnavailable
from tests.unit.pipeline.table_unit import Worker, filtered, record, refused

A = Assignment("t", 0, 1, 0, topic_id="id-1")
Make = Callable[..., Worker]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[Worker] = []

    def one(**given: Any) -> Worker:
        made.append(Worker(f"sqlite:///{tmp_path}/target.db", **given))
        return made[-1]

    yield one
    for each in made:
        each.close()


@pytest.fixture
def worker(make: Make) -> Worker:
    return make()


class _At:
    """A failpoint that raises, once."""

    def __init__(self, name: str, error: BaseException) -> None:
        self.name = name
        self.error: BaseException | None = error

    def __call__(self, name: str) -> None:
        if name == self.name and self.error is not None:
            error, self.error = self.error, None
            raise error


# -- where a unit begins -------------------------------------------------------------------


def test_a_cursor_below_the_logs_start_moves_there_and_the_gap_is_reported(make: Make) -> None:
    assert make().run(A, map(record, range(3))).next_offset == 3
    worker = make()
    late = replace(A, epoch=2, next_offset=5, log_start=5)
    assert worker.begin(late) == [5]
    assert worker.executor.cursor_gaps == {("t", 0): (3, 5)}
    assert worker.cursors == {"id-1": 5}, "in the database before anything is read"
    worker.feed(map(record, range(5, 8)))
    outcome, _ = worker.finish()
    assert (outcome.next_offset, outcome.acted, outcome.halt) == (8, 3, None)
    assert worker.rows == [0, 1, 2, 5, 6, 7]
    worker.begin(replace(late, next_offset=8))
    assert worker.executor.cursor_gaps == {}, "reported once"


def test_a_new_cursor_is_never_below_the_logs_start(worker: Worker) -> None:
    assert worker.begin(replace(A, next_offset=2, log_start=5)) == [5]
    assert worker.executor.cursor_gaps == {}


def test_a_former_owner_does_not_move_the_cursor_of_its_successor_to_the_logs_start(make: Make) -> None:
    former, successor = make(), make()
    former.run(A, map(record, range(3)))
    former.begin(replace(A, next_offset=3))
    successor.begin(replace(A, epoch=2, next_offset=5, log_start=5))
    former.feed([record(3)])
    assert former.finish()[0].halt == "fenced"
    assert former.cursors == {"id-1": 5}


@pytest.mark.parametrize("group", [0, 2, 9])
def test_the_cursor_wins_over_the_groups_offset(make: Make, group: int) -> None:
    make().run(A, map(record, range(4)))
    outcome = make().run(replace(A, epoch=2, next_offset=group), map(record, range(7)))
    assert (outcome.began_at, outcome.next_offset, outcome.acted) == (4, 7, 3)
    assert make().rows == list(range(7))


def test_an_older_copy_of_the_database_gets_again_what_it_lacks(worker: Worker) -> None:
    worker.run(A, map(record, range(4)))
    worker.run(replace(A, next_offset=4), map(record, range(4, 8)))
    with worker.executor.action.target.transaction() as connection:  # as a restore of a copy of the first unit does
        connection.exec_driver_sql('DELETE FROM "rows" WHERE id >= 4')
        connection.exec_driver_sql("UPDATE penstock_cursors SET next_offset = 4")
    outcome = worker.run(replace(A, next_offset=8), map(record, range(10)))
    assert (outcome.began_at, outcome.next_offset) == (4, 10)
    assert worker.rows == list(range(10))


def test_a_pipeline_that_comes_back_to_a_lane_reads_its_cursor_again(make: Make) -> None:
    """The same epoch all the time: a dedicated pipeline moves between lanes."""
    one, two = make(), make()
    assert one.run(A, map(record, range(3))).halt is None
    assert two.run(replace(A, next_offset=3), map(record, range(6))).halt is None
    back = one.run(replace(A, next_offset=6), map(record, range(9)))
    assert (back.halt, back.next_offset) == (None, 9)
    assert one.rows == list(range(9))


def test_pending_offsets_of_another_kind_of_action_are_written(worker: Worker) -> None:
    assert worker.begin(replace(A, next_offset=5, pending=(2, 3))) == [2]
    assert worker.begin(replace(A, next_offset=5, pending=(2, 3))) == [2], "and from there on the cursor decides"


def test_all_cursors_of_a_unit_are_read_in_one_transaction(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    transactions = []
    transaction = worker.executor.action.target.transaction
    monkeypatch.setattr(
        worker.executor.action.target, "transaction", lambda: transactions.append(1) or transaction(), raising=True
    )
    many = [Assignment("t", n, 1, n, topic_id="id-1") for n in range(64)]
    assert worker.begin(*many) == list(range(64))
    assert len(transactions) == 1


# -- a cursor that another instance has moved ------------------------------------------------


@pytest.mark.parametrize("found_in", ["wake", "wait_idle", "finish"])
def test_a_fenced_partition_ends_the_unit_and_spares_the_others(make: Make, found_in: str) -> None:
    now = [0.0]
    clock = Clock(monotonic=lambda: now[0], time=lambda: now[0])
    former, successor = make(clock=clock), make()
    second = Assignment("t", 1, 1, 0, topic_id="id-1")
    former.begin(A, second)
    successor.run(replace(A, epoch=2), [record(0)])
    former.feed([record(0), record(1), record(7, partition=1)])
    now[0] += 1.0
    if found_in != "finish":
        getattr(former.executor, found_in)()
    outcome, rest = former.finish()
    assert outcome.halt == "fenced"
    assert (outcome.next_offset, outcome.acted) == (0, 0)
    assert sorted(item.record.offset() for item in rest) == [0, 1]
    assert former.executor.cursor(("t", 1)) == 8, "the other partition is written"
    assert former.rows == [0, 7]


# -- what is counted -------------------------------------------------------------------------


@pytest.mark.parametrize("carried_out", [True, False])
def test_a_commit_without_an_answer_is_counted_neither_twice_nor_lost(
    worker: Worker, monkeypatch: pytest.MonkeyPatch, *, carried_out: bool
) -> None:
    point = "after-transaction-commit" if carried_out else "before-transaction-commit"
    monkeypatch.setattr(action_module, "reach", _At(point, TargetUnavailable("the connection is lost")))
    worker.begin(A)
    log = [record(0), refused(1), record(2)]
    worker.feed(log)
    outcome, rest = worker.finish()
    assert (outcome.next_offset, outcome.acted, outcome.failed) == (0, 0, [])
    assert len(rest) == 3
    assert outcome.halt == "target-unavailable"
    again = worker.run(A, log)
    assert again.next_offset == 3
    assert again.failed == [1], "reported exactly once"
    assert (again.began_at, again.acted) == ((3, 0) if carried_out else (0, 2))
    assert worker.rows == [0, 2]


def test_events_that_are_not_written_are_not_counted_and_the_position_is_the_cursor(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Filtered events in front of the chunk count only when the cursor has passed them."""
    monkeypatch.setattr(action_module, "reach", _At("before-rows", TargetUnavailable("away")))
    worker.begin(A)
    worker.feed([filtered(0), filtered(1), record(2)])
    assert worker.finish()[0].next_offset == 0
    worker.begin(A)
    worker.feed([filtered(0), filtered(1), record(2), filtered(3)])
    outcome, _ = worker.finish()
    assert (outcome.began_at, outcome.next_offset, worker.counts(("t", 0))) == (0, 4, (1, 0))


def test_a_cut_chunk_counts_what_is_below_the_new_cursor(make: Make) -> None:
    worker = make(failure_mode="THROW")
    worker.begin(A)
    worker.feed([record(0), filtered(1), record(2), refused(3), record(4)])
    outcome, rest = worker.finish()
    assert (outcome.next_offset, worker.counts(("t", 0))) == (3, (2, 0))
    assert (outcome.halt, outcome.failed) == ("column", [3])
    assert [item.record.offset() for item in rest] == [3, 4]
    assert worker.rows == [0, 2]


def test_an_outage_elsewhere_does_not_keep_from_writing_what_was_read_before(worker: Worker) -> None:
    worker.begin(A)
    worker.feed([record(0), record(1)])
    worker.tally.outage(TargetUnavailable("the registry does not answer"))
    outcome, _ = worker.finish()
    assert (outcome.next_offset, outcome.acted) == (2, 2)


def test_the_cursor_does_not_pass_events_for_which_there_was_no_time(make: Make) -> None:
    ticks = iter(range(1_000))
    worker = make(clock=Clock(monotonic=lambda: float(next(ticks)), time=lambda: 0.0))
    worker.begin(A)
    worker.feed(map(record, range(100)))  # the clock goes on by a second with each look, and the unit has a minute
    outcome, rest = worker.finish()
    assert 0 < outcome.next_offset < 100
    assert [item.record.offset() for item in rest] == list(range(outcome.next_offset, 100))
    assert worker.rows == list(range(outcome.next_offset))


# -- failures --------------------------------------------------------------------------------


def test_a_failure_is_reported_once_and_noted_as_settled_when_the_driver_continues_behind_it(worker: Worker) -> None:
    assert worker.run(A, [record(0), refused(1)]).failed == [1]
    assert worker.failure_states == {1: "open"}
    accepted = replace(A, next_offset=2)
    assert worker.run(accepted, []).failed == []
    assert worker.run(accepted, [record(2)]).failed == []
    assert worker.failure_states == {1: "settled"}


def test_failures_of_an_outcome_that_was_not_used_are_reported_again(make: Make) -> None:
    worker = make()
    assert worker.run(A, [record(0), refused(1)]).failed == [1]
    # The driver did not accept it: it continues from where it was.
    assert worker.run(A, [record(2)]).failed == [1]
    assert worker.failure_states == {1: "open"}
    assert make().run(replace(A, epoch=2, next_offset=3), [record(3)]).failed == [1], "another process, the same"
    assert worker.failure_states == {1: "open"}


def test_failures_of_a_unit_that_raised_are_reported_again(worker: Worker) -> None:
    worker.begin(A)
    worker.feed([record(0), refused(1)])
    worker.executor.finish()  # and then something raises: no outcome has these failures
    assert worker.run(replace(A, next_offset=2), [record(2)]).failed == [1]


# -- a topic that was created again ----------------------------------------------------------


class Ids:
    """What the cluster says about topic ids; asked when a chunk begins, answered before its COMMIT."""

    def __init__(self, now: str) -> None:
        self.now = now

    def ask(self, _topic: str) -> Callable[[], str]:
        return lambda: self.now


def test_f36_records_of_a_topic_created_again_are_not_written_under_the_old_cursor(make: Make) -> None:
    worker, ids = make(), Ids("id-1")
    worker.executor._topics = ids
    assert worker.run(A, map(record, range(3))).next_offset == 3
    ids.now = "id-2"
    for _ in range(2):
        outcome = worker.run(replace(A, next_offset=3), map(record, (3, 4)))
        assert (outcome.halt, outcome.next_offset, outcome.acted) == ("topic-recreated", 3, 0)
        assert worker.executor.recreated == {("t", 0)}
    new = worker.run(replace(A, epoch=2, topic_id="id-2"), map(record, range(5)))
    assert (new.halt, new.began_at, new.next_offset) == (None, 0, 5)
    assert worker.executor.recreated == set()
    assert worker.cursors == {"id-1": 3, "id-2": 5}


def test_what_is_known_of_a_topic_does_not_hold_for_one_of_the_same_name(make: Make) -> None:
    worker = make()
    assert worker.run(A, [record(0), refused(1)]).failed == [1]
    new = worker.run(replace(A, epoch=2, topic_id="id-2", next_offset=0), [record(0), refused(1)])
    assert (new.began_at, new.failed) == (0, [1])
    assert worker.query('SELECT topic_id, "offset" FROM penstock_failures ORDER BY 1') == [("id-1", 1), ("id-2", 1)]
