"""Situations in which version 0.1 lost, repeated or withheld events, one test each (review of engine correctness)."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.config.spec import RetrySpec
from penstock.core.clock import Clock
from penstock.core.errors import DecodeError, Unavailable
from penstock.core.event import Event, Record, RecordLike
from penstock.core.plugin import Decoder, Dropped
from penstock.pipeline import chain as chain_module
from penstock.pipeline import in_flight_log
from penstock.pipeline.executors.serial import SerialExecutor
from penstock.pipeline.failures import failed_event
from penstock.pipeline.in_flight_log import InFlight, request_stop
from penstock.pipeline.messages import Assignment, Retry
from penstock.pipeline.retry import RetryPolicy
from penstock.pipeline.samples import Allowance, Sampler
from penstock.pipeline.unit_result import FailureLimits
from tests.unit.pipeline.rig import Rig, World, blocked_decode, failing_decode, offset_of, spec

DEADLINE = 20.0


def wait_for(what: Any, seconds: float = DEADLINE) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.002)


# -- L1 ------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", ["WorldAction", "WorldBatchAction"])
@pytest.mark.parametrize("others", [0, 70])
def test_f1_f2_a_dead_worker_teaches_nothing_but_suspects(
    world: World, tmp_path: Path, action: str, others: int
) -> None:
    """Event 1 has failed when the worker dies in a later batch: only what is in flight is in the log."""
    path, goes_on = str(tmp_path / "log"), threading.Event()
    world.fill(0, range(6))
    world.per_read = 3

    def act(event: Any) -> None:
        if offset_of(event) == 1:
            raise ValueError("bad")
        if offset_of(event) == 4:
            assert goes_on.wait(DEADLINE)

    world.act = act
    rig = Rig(spec(action))
    crowd = [replace(rig.request(0.1), pipeline=f"other{n}", blueprint=b"") for n in range(others)]
    request = rig.request(DEADLINE)
    window = threading.Thread(
        target=lambda: rig.window(*crowd, request, seconds=DEADLINE, in_flight_log=path), daemon=True
    )
    window.start()
    named = [InFlight(0, 3, 6)] if action == "WorldBatchAction" else [InFlight(0, 4, 5)]
    try:
        wait_for(lambda: in_flight_log.read(path).get(request.unit) == named)
    finally:
        goes_on.set()
        window.join(DEADLINE)


def test_f32_a_keyed_unit_reads_far_beyond_what_an_old_journal_held(world: World, tmp_path: Path) -> None:
    world.fill(0, range(3_000))
    rig = Rig(spec(concurrency=4, ordering="none"))
    outcome = rig.unit(DEADLINE, max_records=100_000, in_flight_log=str(tmp_path / "log"))
    assert (outcome.counts.acted, outcome.partitions[0].pending) == (3_000, ())


# -- counts --------------------------------------------------------------------------------


class Routes(Decoder):
    """Drops some records as DataHub's decoder does, and waits for a schema once."""

    def __init__(self) -> None:
        self.dropped = Dropped()
        self.waits = True

    create = None  # type: ignore[assignment]  # made by hand

    def decode(self, records: Any) -> list[Any]:
        results: list[Any] = []
        for record in records:
            if record.offset() == 3:
                self.dropped.unrouted += 1
                results.append(None)
            elif record.offset() == 5 and self.waits:
                results.append(Unavailable("the schema id is within its grace"))
            elif record.offset() == 6:
                results.append(DecodeError("a tombstone is no event"))
            else:
                results.append(Event(record, record.value(), "t"))
        return results


Routes.__abstractmethods__ = frozenset()


def test_records_without_an_event_are_never_more_than_the_filtered_ones(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DataHub's own file on a topic with an unknown schema id, a tombstone and an event of another name: the count of
    filtered events became negative, the metric raised, and the pipeline restarted for ever."""
    decoder = Routes()
    monkeypatch.setattr(chain_module, "decoder_for", lambda *_: decoder)
    world.fill(0, range(10))
    rig = Rig(spec())
    first = rig.unit()
    assert (first.counts.acted, first.counts.filtered, first.counts.unrouted) == (4, 1, 1)
    assert (first.partitions[0].next_offset, first.partitions[0].blocked_by) == (5, "the schema id is within its grace")
    again = rig.unit()
    assert (again.counts.read, again.counts.filtered, again.counts.unrouted) == (0, 0, 0)
    decoder.waits = False
    last = rig.unit()
    assert (last.counts.acted, last.counts.filtered, last.counts.failed) == (4, 0, 1)
    assert last.partitions[0].next_offset == 10


def test_what_lies_behind_an_unfinished_event_counts_for_the_unit_that_ends_it(world: World) -> None:
    away, seen = [True], []

    def act(event: Any) -> None:
        if away[0] and offset_of(event) == 1:
            raise Unavailable("the target is away")
        seen.append(offset_of(event))

    world.fill(0, range(6))
    world.matches = lambda event: offset_of(event) != 3
    world.act = act
    rig = Rig(spec())
    first = rig.unit().partitions[0]
    assert (first.next_offset, first.account.read, first.account.filtered, first.account.acted) == (1, 1, 0, 1)
    away[0] = False
    second = rig.unit()
    account = second.partitions[0].account
    assert (account.began_at, account.read, account.filtered, account.acted) == (1, 5, 1, 4)
    assert second.counts.read == 0, "prepared events of the last unit are not read again"
    assert seen == [0, 1, 2, 4, 5]


@pytest.mark.parametrize("options", [{}, {"ordering": "key", "concurrency": 2}])
def test_what_a_rate_limit_leaves_is_taken_over_by_the_next_unit(world: World, options: dict[str, Any]) -> None:
    seen: list[int] = []
    world.fill(0, range(30))
    world.act = lambda event: seen.append(offset_of(event))
    rig = Rig(spec(**options))
    assert rig.unit(0.05, rate=200.0).partitions[0].next_offset in (30, *range(1, 25))
    assert len(seen) < 30
    while rig.assignments[0].next_offset < 30 or rig.assignments[0].pending:
        rig.unit(0.05, rate=200.0)
    assert sorted(seen) == list(range(30))


# -- L3 ------------------------------------------------------------------------------------


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")

    @property
    def retry_after(self) -> float:
        raise RuntimeError("no time")


class Unshowable:
    def __repr__(self) -> str:
        raise RuntimeError("no picture")

    plain = property(lambda self: 1 / 0)


def test_an_error_and_a_value_that_cannot_be_described_make_a_dead_letter(world: World) -> None:
    world.fill(0, range(3))
    world.transform = lambda event: event.replaced(Unshowable())

    def act(event: Any) -> None:
        if offset_of(event) == 1:
            raise Unspeakable

    world.act = act
    outcome = Rig(spec(retry={"attempts": 1})).unit()
    (failed,) = outcome.failures
    assert (failed.record.offset(), failed.failure.error, failed.failure.value_seen) == (1, "Unspeakable", None)
    assert outcome.partitions[0].next_offset == 3


def test_a_tap_that_raises_ends_itself_and_not_the_unit(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("the tap is broken")

    for name in ("decoded", "stepped", "handed", "ended"):
        with monkeypatch.context() as patch:
            patch.setattr(Sampler, name, broken)
            world.fill(0, range(3))
            outcome = Rig(spec()).unit(tap={"act": Allowance(10, 10), "decode": Allowance(10, 10)})
            assert (outcome.halt, outcome.partitions[0].next_offset, outcome.counts.acted) == (None, 3, 3)


def test_a_decoder_that_raises_or_answers_too_little_ends_its_records_alone(world: World) -> None:
    def decode(record: RecordLike) -> Event:
        if record.offset() == 2:
            raise ZeroDivisionError("a bug of the decoder")
        return Event(record, record.value(), "t")

    world.fill(0, range(5))
    world.decode = decode
    outcome = Rig(spec()).unit()
    assert [(f.record.offset(), f.failure.stage) for f in outcome.failures] == [(2, "decode")]
    assert (outcome.counts.acted, outcome.partitions[0].next_offset) == (4, 5)


def test_a_transform_that_exchanges_the_record_fails_its_event(world: World) -> None:
    """The event would be accounted for under other coordinates."""
    world.fill(0, range(3))
    world.transform = lambda event: Event(Record("t", 0, event.record.offset() + 1, None, b""), 1, "t")
    outcome = Rig(spec()).unit()
    assert {f.failure.stage for f in outcome.failures} == {"transform"}
    assert outcome.partitions[0].next_offset == 3


# -- an outage of one record ---------------------------------------------------------------


def test_an_outage_of_one_record_holds_neither_what_lies_before_it_nor_other_partitions(world: World) -> None:
    world.fill(0, range(6))
    world.fill(1, range(6))
    seen: list[tuple[int, int]] = []
    world.act = lambda event: seen.append((event.record.partition(), offset_of(event)))
    world.decode = blocked_decode((0, 2))
    rig = Rig(spec(), partitions=2)
    outcome = rig.unit()
    assert sorted(seen) == [(0, 0), (0, 1), *((1, o) for o in range(6))]
    assert outcome.halt is None
    assert [part.next_offset for part in outcome.partitions] == [2, 6]
    waits, goes_on = outcome.partitions
    assert waits.blocked_by == "the registry does not answer for one subject"
    assert waits.blocked_for is not None
    assert (goes_on.blocked_by, goes_on.blocked_for) == (None, None)
    later = rig.unit()
    assert later.partitions[0].blocked_for is not None
    assert later.partitions[0].blocked_for > waits.blocked_for, "it is asked less and less often"
    world.decode = blocked_decode()
    rig.unit()
    assert sorted(seen) == [(p, o) for p in range(2) for o in range(6)]


@pytest.mark.parametrize("where", ["decoder raises", "filter", "transform"])
def test_any_step_before_the_action_may_wait_for_an_outage(world: World, where: str) -> None:
    away, seen = [True], []

    def check(event: Any) -> Any:
        if away[0] and event.record.offset() == 3:
            raise Unavailable("the catalogue is away")
        return event

    world.fill(0, range(6))
    world.act = lambda event: seen.append(offset_of(event))
    if where == "decoder raises":
        world.decode = lambda record: check(Event(record, record.value(), "t"))
    elif where == "filter":
        world.matches = check
    else:
        world.transform = check
    rig = Rig(spec())
    outcome = rig.unit()
    assert (seen, outcome.failures, outcome.partitions[0].blocked_by) == ([0, 1, 2], [], "the catalogue is away")
    away[0] = False
    rig.unit()
    assert seen == [0, 1, 2, 3, 4, 5]


def test_a_retry_that_waits_for_an_outage_lets_others_go_on_and_is_no_attempt(world: World) -> None:
    calls, seen = [], []

    def transform(event: Event) -> Event:
        if offset_of(event) == 1:
            calls.append(1)
            if len(calls) == 1:
                raise RuntimeError("again")
            if len(calls) < 4:
                raise Unavailable("the catalogue is away")
        return event

    world.fill(0, range(4))
    world.transform = transform
    world.act = lambda event: seen.append(offset_of(event))
    rig = Rig(spec(ordering="none", retry={"attempts": 2, "backoff": "1ms"}))
    outcome = rig.unit(DEADLINE)
    assert (outcome.failures, outcome.halt, sorted(seen)) == ([], None, [0, 1, 2, 3])


# -- the findings --------------------------------------------------------------------------


@pytest.mark.parametrize("max_records", [2, 1_000])
def test_a_step_that_failed_in_the_last_unit_is_repeated_by_the_next(world: World, max_records: int) -> None:
    """A leftover that is due has to be tried again, not to fail again by what is remembered of it."""
    calls: list[int] = []

    def transform(event: Event) -> Event:
        if offset_of(event) == 0:
            calls.append(1)
            if len(calls) == 1:
                raise RuntimeError("again")
        return event

    world.fill(0, range(5))
    world.transform = transform
    rig = Rig(spec(retry={"attempts": 2, "backoff": "60ms", "jitter": 0.0}))
    assert rig.unit(0.02).partitions[0].next_offset == 0
    time.sleep(0.06)
    outcomes = [rig.unit(0.2, max_records=max_records) for _ in range(4)]
    assert [failed for outcome in outcomes for failed in outcome.failures] == []
    assert (len(calls), rig.assignments[0].next_offset) == (2, 5)


@pytest.mark.parametrize("change", ["topic id", "epoch"])
def test_f11_leftovers_of_another_topic_or_epoch_are_read_again(world: World, change: str) -> None:
    fails, seen = [True], []

    def act(event: Any) -> None:
        if fails[0]:
            raise RuntimeError("bad")
        seen.append(event.value)

    world.fill(0, range(5))
    world.act = act
    rig = Rig(spec(retry={"attempts": 1_000, "backoff": "10s"}))
    first = rig.unit(0.05)
    assert first.partitions[0].next_offset == 0
    made = [Record("t", 0, o, b"k", b"new%d" % o, None, 1, 1) for o in range(8)]
    world.records["t", 0], world.ends["t", 0] = made, 8
    fails[0] = False
    new = {"topic_id": "NEW"} if change == "topic id" else {"epoch": 2}
    rig.assignments = [replace(Assignment("t", 0, 1, 0, topic_id="T"), **new)]  # type: ignore[arg-type]  # as they are
    outcome = rig.unit()
    assert seen == [b"new%d" % o for o in range(8)]
    assert (outcome.partitions[0].epoch, outcome.partitions[0].topic_id) in ((1, "NEW"), (2, "T"))


def test_f13_what_went_well_behind_a_partial_outage_is_not_sent_again(world: World) -> None:
    sent: list[int] = []

    def act_batch(events: Any) -> list[Any]:
        good = [offset_of(event) != 1 for event in events]
        sent.extend(offset_of(event) for event, ok in zip(events, good, strict=True) if ok)
        return [None if ok else Unavailable("no leader for one partition") for ok in good]

    world.fill(0, range(5))
    world.act_batch = act_batch
    rig = Rig(spec("WorldBatchAction"))
    for _ in range(3):
        outcome = rig.unit()
        assert outcome.halt is not None
        assert (outcome.halt.kind, outcome.partitions[0].pending) == ("outage", (1,))
    assert sent == [0, 2, 3, 4]


def test_f13_with_throw_what_was_done_behind_the_failing_event_is_not_repeated(world: World) -> None:
    world.fill(0, range(5))
    world.act_batch = lambda events: [ValueError("no") if offset_of(e) in (1, 3) else None for e in events]
    outcome = Rig(spec("WorldBatchAction", failure_mode="THROW")).unit()
    assert [f.record.offset() for f in outcome.failures] == [1]
    assert (outcome.partitions[0].pending, outcome.partitions[0].next_offset) == ((1, 3), 5)


def test_retries_of_a_batch_keep_the_order_of_their_partition(world: World) -> None:
    acted: list[list[int]] = []

    def act_batch(events: Any) -> list[Any]:
        acted.append([offset_of(event) for event in events])
        return [RuntimeError("no") if len(acted) == 1 and offset_of(e) in (1, 3) else None for e in events]

    world.fill(0, range(5))
    world.act_batch = act_batch
    Rig(spec("WorldBatchAction", retry={"attempts": 3, "backoff": "1ms"})).unit(1.0)
    assert [offset for batch in acted[1:] for offset in batch] == [1, 3]


def test_f20_deferred_events_are_bounded(world: World) -> None:
    world.fill(0, range(40_000))
    world.act = lambda event: False
    rig = Rig(spec())
    outcome = rig.unit(DEADLINE, max_records=100_000)
    assert 10_000 <= len(outcome.partitions[0].pending) <= 12_000
    assert rig.unit(DEADLINE, max_records=100_000).counts.read == 0


def test_f20_an_outage_in_decode_gives_no_deferred_event_to_the_action_again(world: World) -> None:
    seen: list[int] = []

    def act(event: Any) -> bool:
        seen.append(offset_of(event))
        return False

    world.fill(0, range(4))
    world.act = act
    world.decode = blocked_decode((0, 2))
    rig = Rig(spec())
    rig.unit()
    rig.unit()
    world.decode = blocked_decode()
    assert rig.unit().partitions[0].pending == (0, 1, 2, 3)
    assert seen == [0, 1, 2, 3]


def test_deferred_events_count_as_acted_when_they_are_acknowledged(world: World) -> None:
    events: list[Any] = []
    world.fill(0, range(3))
    world.act = lambda event: events.append(event) or False
    rig = Rig(spec())
    first = rig.unit()
    assert (first.counts.acted, first.partitions[0].pending) == (0, (0, 1, 2))
    rig.action.source.ack(events[1])
    second = rig.unit()
    assert (second.partitions[0].account.acted, second.partitions[0].pending) == (1, (0, 2))


def test_i10_a_unit_that_collects_reads_nothing_and_ends_with_the_last_acknowledgement(world: World) -> None:
    events: list[Any] = []
    world.fill(0, range(3))
    world.act = lambda event: events.append(event) or False
    rig = Rig(spec())
    assert rig.unit().partitions[0].deferred == 3
    world.fill(0, range(6))
    rig.action.source.ack(events[0])
    late = threading.Timer(0.1, lambda: [rig.action.source.ack(event) for event in events[1:]])
    late.start()
    [part] = rig.unit(DEADLINE, collect=True).partitions
    assert (part.deferred, part.pending, part.next_offset, part.account.acted) == (0, (), 3, 3)
    assert len(events) == 3
    assert rig.unit().partitions[0].next_offset == 6, "what arrived meanwhile comes afterwards"


def test_f22_a_clock_that_jumps_a_day_dead_letters_nothing() -> None:
    wall, now = [1_000_000.0], [50.0]
    clock = Clock(time=lambda: wall[0], monotonic=lambda: now[0], random=lambda: 0.5)
    made = RetrySpec.model_validate({"attempts": 5, "backoff": "200ms", "max_age": "1h"})
    policy = RetryPolicy(made, clock, timeout=30.0)
    first = policy.after(ConnectionResetError(), None)
    assert first is not None
    for jump in (26 * 3600, -52 * 3600):
        wall[0] += jump
        now[0] += 0.2
        assert policy.after(ConnectionResetError(), first) is not None, "200 ms later by a clock that does not jump"
        resumed = policy.resume(Retry(0, 1, 1_000_000_000, 0.1))
        assert policy.after(ConnectionResetError(), resumed) is not None, "in another process, too"
    now[0] += 3_601
    assert policy.after(ConnectionResetError(), first) is None, "it is as old as it may be"


def test_f24_a_unit_that_was_nearly_given_up_does_not_stop_the_next(world: World) -> None:
    world.fill(0, range(3))
    rig = Rig(spec())
    world.fill(0, range(1))
    rig.unit()
    executor = rig.lane._pipelines["p", 1].executor
    assert isinstance(executor, SerialExecutor)
    assert executor.give_up() is None
    world.fill(0, range(3))
    assert rig.unit().counts.acted == 2


def test_f31_the_failures_of_a_window_are_bounded_and_every_unit_may_have_some() -> None:
    assert FailureLimits().share(1) == FailureLimits()
    for units in (2, 50, 1_000):
        each = FailureLimits().share(units)
        assert each.count >= 50
        assert each.size >= 256 << 10
    assert 50 * FailureLimits().share(50).size <= 16 << 20


def test_f31_units_of_a_crowded_window_end_early(world: World) -> None:
    world.fill(0, range(2_000))
    world.decode = failing_decode(*range(2_000))
    rig = Rig(spec())
    crowd = [replace(rig.request(0.5), pipeline=f"other{n}", blueprint=b"") for n in range(79)]
    outcome = next(
        o for o in rig.window(*crowd, rig.request(5.0, max_records=10_000), seconds=5.0).units if o.pipeline == "p"
    )
    rig.check(outcome)
    assert len(outcome.failures) == 50
    assert outcome.partitions[0].next_offset == 50


# -- stop and give up ----------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"concurrency": 2, "ordering": "key"}])
def test_f16_a_unit_that_is_asked_to_stop_begins_no_further_act(
    world: World, tmp_path: Path, options: dict[str, Any]
) -> None:
    path, began, goes_on, acted = str(tmp_path / "log"), threading.Event(), threading.Event(), []

    def act(event: Any) -> None:
        acted.append(offset_of(event))
        began.set()
        assert goes_on.wait(DEADLINE)

    world.fill(0, range(100))
    world.act = act
    rig = Rig(spec(**options))
    request, outcomes = rig.request(DEADLINE), []
    window = threading.Thread(
        target=lambda: outcomes.extend(rig.window(request, seconds=DEADLINE, in_flight_log=path).units), daemon=True
    )
    window.start()
    assert began.wait(DEADLINE)
    assert request_stop(path, {request.unit})
    wait_for(lambda: rig.lane._runs and rig.lane._runs[0]._stopping)
    goes_on.set()
    window.join(DEADLINE)
    (outcome,) = outcomes
    rig.check(outcome)
    assert len(acted) <= 2
    assert outcome.counts.acted == len(acted)


def test_f16_a_unit_whose_request_comes_after_the_wish_to_stop_it_does_nothing(world: World, tmp_path: Path) -> None:
    path = str(tmp_path / "log")
    world.fill(0, range(3))
    rig = Rig(spec())
    rig.window(in_flight_log=path, seconds=0.0)
    request = rig.request(1.0)
    assert request_stop(path, {request.unit})
    rig.lane.stop_requested()
    (outcome,) = rig.window(request, in_flight_log=path, seconds=1.0).units
    rig.check(outcome)
    assert (outcome.counts.acted, outcome.partitions[0].next_offset) == (0, 0)


@pytest.mark.parametrize("partitions", [1, 2])
def test_an_action_that_hangs_is_given_up_and_its_unit_adds_up(world: World, partitions: int) -> None:
    """Events of the same run that were done before it are counted."""
    goes_on = threading.Event()

    def act(event: Any) -> None:
        if offset_of(event) == 7:
            goes_on.wait(DEADLINE)

    for partition in range(partitions):
        world.fill(partition, range(10))
    world.matches = lambda event: offset_of(event) != 8
    world.act = act
    rig = Rig(spec(timeout="1s"), partitions=partitions)
    outcome = rig.unit(5.0)
    goes_on.set()
    assert [(f.record.offset(), f.failure.stage) for f in outcome.failures] == [(7, "timeout")]
    assert outcome.partitions[0].next_offset in (8, 9)
    assert outcome.partitions[0].account.acted == 7
    assert rig.unit().partitions[0].next_offset == 10


def test_a_batch_that_hangs_forgets_no_event_that_failed_before(world: World) -> None:
    goes_on = threading.Event()
    world.fill(0, range(5))
    world.decode = failing_decode(0, 2)
    world.act_batch = lambda events: [goes_on.wait(DEADLINE) and None for _ in events]
    rig = Rig(spec("WorldBatchAction", timeout="1s"))
    outcome = rig.unit(5.0)
    goes_on.set()
    assert outcome.partitions[0].pending == (0, 1, 2, 3, 4)
    assert outcome.partitions[0].suspect_until == 5


def test_a_step_that_hangs_over_one_event_makes_a_dead_letter_of_it(world: World) -> None:
    goes_on = threading.Event()

    def transform(event: Event) -> Event:
        if offset_of(event) == 1:
            goes_on.wait(DEADLINE)
        return event

    world.fill(0, range(3))
    world.transform = transform
    rig = Rig(spec(timeout="1s"))
    together = rig.unit(5.0)
    assert (together.failures, together.partitions[0].suspect_until, together.partitions[0].next_offset) == ([], 3, 0)
    alone = rig.unit(5.0, careful=True)
    goes_on.set()
    assert [(f.record.offset(), f.failure.stage) for f in alone.failures] == [(1, "timeout")]
    assert alone.partitions[0].next_offset == 2


def test_f12_where_the_target_has_a_cursor_the_driver_is_told_which_event_hangs(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failure that the cursor never passes would be repeated for ever."""
    goes_on = threading.Event()

    def transform(event: Event) -> Event:
        if offset_of(event) == 1:
            goes_on.wait(DEADLINE)
        return event

    world.fill(0, range(3))
    world.transform = transform
    monkeypatch.setattr(SerialExecutor, "has_cursor", True)
    rig = Rig(spec(timeout="1s"))
    outcome = rig.unit(5.0, careful=True)
    goes_on.set()
    assert outcome.failures == []
    assert (outcome.partitions[0].hung_at, outcome.partitions[0].next_offset) == (1, 1)


def test_a_lane_without_room_for_its_log_works_all_the_same(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    world.fill(0, range(3))
    assert Rig(spec()).unit(in_flight_log=str(tmp_path / "log")).counts.acted == 3


def test_pending_events_that_are_no_longer_in_the_log_are_missing(world: World) -> None:
    world.fill(0, [0, 3, 9])
    rig = Rig(spec())
    rig.assignments = [Assignment("t", 0, 1, 8, (0, 1, 5), (), "T")]
    outcome = rig.unit()
    (part,) = outcome.partitions
    assert (part.account.missing, part.account.acted, part.account.read, part.pending) == (2, 2, 1, ())


def test_a_failed_event_is_described_by_the_clock_that_was_given() -> None:
    item = Event(Record("t", 0, 1, None, b"x"), "x", "t")
    made = failed_event(item, "act", ValueError("no"), str, clock=Clock(time=lambda: 12.5))
    assert made.failure.last_failed_at == 12_500


def test_units_wait_on_the_clock_that_was_given(world: World) -> None:
    """L8: an hour of a rate limit that lets nothing begin takes no time."""
    now = [100.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    world.fill(0, range(3))
    outcome = Rig(spec(), clock=Clock(monotonic=lambda: now[0], sleep=sleep)).unit(3_600.0, rate=0.0)
    assert (now[0], outcome.counts.acted) == (3_700.0, 0)
