"""L2: whatever happens in a unit, its outcome accounts for every offset, and over successive units every event is acted
on, dropped or a failure, in order, with nothing forgotten."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from penstock.core.errors import DecodeError, Unavailable
from penstock.core.event import Event, RecordLike
from penstock.pipeline.accounting import check_account
from penstock.pipeline.messages import Account, Assignment, PartitionOutcome
from tests.unit.pipeline.rig import WORLD, Rig, rig_up, spec

KINDS = [
    "acts",
    "acts",
    "acts",
    "filtered",
    "dropped_by_transform",
    "dropped_by_decoder",
    "bad_bytes",
    "bad_transform",
    "fails_once",
    "fails_always",
    "wrong_result",
    "deferred",
    "transform_fails_once",
    "blocked_in_decode",
    "blocked_in_transform",
    "target_away_once",
]
TAKES_EFFECT = {"acts", "fails_once", "deferred", "transform_fails_once", "blocked_in_decode", "blocked_in_transform"}
TAKES_EFFECT |= {"target_away_once"}
FAILS = {"bad_bytes", "bad_transform", "fails_always", "wrong_result"}


@dataclass
class Script:
    """What happens to each event, and what was seen."""

    kinds: dict[tuple[int, int], str]
    calls: dict[tuple[str, int, int], int] = field(default_factory=dict)
    effects: list[tuple[int, int]] = field(default_factory=list)
    deferred: list[Any] = field(default_factory=list)
    lock: Any = field(default_factory=threading.Lock)
    healed: bool = False

    def first(self, what: str, record: RecordLike) -> bool:
        with self.lock:
            key = (what, record.partition(), record.offset())
            self.calls[key] = self.calls.get(key, 0) + 1
            return self.calls[key] == 1

    def kind(self, record: RecordLike) -> str:
        return self.kinds[record.partition(), record.offset()]

    def decode(self, record: RecordLike) -> Event | Exception | None:
        kind = self.kind(record)
        if kind == "bad_bytes" and not self.healed:
            return DecodeError("bad")
        if kind == "dropped_by_decoder":
            return None
        if kind == "blocked_in_decode" and self.first("decode", record):
            return Unavailable("registry")
        return Event(record, record.value(), "t")

    def matches(self, event: Event) -> bool:
        return self.kind(event.record) != "filtered"

    def transform(self, event: Event) -> Event | None:
        kind = self.kind(event.record)
        if kind == "dropped_by_transform":
            return None
        if kind == "bad_transform" and not self.healed:
            raise ValueError("no")
        if kind == "transform_fails_once" and self.first("transform", event.record):
            raise RuntimeError("again")
        if kind == "blocked_in_transform" and self.first("transform", event.record):
            raise Unavailable("lookup")
        return event.replaced(event.value)

    def act(self, event: Event) -> Any:
        record, kind = event.record, self.kind(event.record)
        if kind == "target_away_once" and self.first("act", record):
            raise Unavailable("target")
        if kind == "fails_once" and self.first("act", record):
            raise RuntimeError("again")
        if kind == "fails_always" and not self.healed:
            raise ValueError("never")
        if kind == "wrong_result" and not self.healed:
            return "nonsense"
        with self.lock:
            self.effects.append((record.partition(), record.offset()))
            if kind == "deferred":
                self.deferred.append(event)
                return False
        return None


@dataclass(frozen=True)
class Plan:
    action: str
    ordering: str
    concurrency: int
    failure_mode: str
    attempts: int
    rate: float | None
    max_records: int
    per_read: int
    chaos: list[str]


def plans() -> st.SearchStrategy[Plan]:
    return st.builds(
        Plan,
        st.sampled_from(["WorldAction", "WorldAction", "WorldBatchAction", "WorldAsyncAction"]),
        st.sampled_from(["partition", "key", "none"]),
        st.sampled_from([1, 4]),
        st.sampled_from(["CONTINUE", "CONTINUE", "THROW"]),
        st.sampled_from([1, 3]),
        st.sampled_from([None, None, 3_000.0]),
        st.sampled_from([3, 1_000]),
        st.sampled_from([1, 4, 1_000]),
        st.lists(
            st.sampled_from(["go on", "careful", "elsewhere", "dies", "acknowledge", "short", "compact"]), max_size=8
        ),
    )


def logs() -> st.SearchStrategy[list[list[tuple[int, str]]]]:
    """Per partition: gaps before records, and what happens to them."""
    return st.lists(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(KINDS)), max_size=14), min_size=1, max_size=3)


@given(logs(), plans())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_outcome_adds_up_and_nothing_is_forgotten(log: list[list[tuple[int, str]]], plan: Plan) -> None:
    with pytest.MonkeyPatch.context() as patch:
        rig_up(patch)
        note(f"{log} {plan}")
        _run(log, plan)


def _run(log: list[list[tuple[int, str]]], plan: Plan) -> None:
    kinds: dict[tuple[int, int], str] = {}
    for partition, entries in enumerate(log):
        offsets, at = [], 0
        for gap, kind in entries:
            at += gap
            offsets.append(at)
            kinds[partition, at] = kind
            at += 1
        WORLD.fill(partition, offsets)
        WORLD.ends["t", partition] = at
    script = Script(kinds)
    WORLD.decode, WORLD.matches, WORLD.transform, WORLD.act = (
        script.decode,
        script.matches,
        script.transform,
        script.act,
    )
    WORLD.per_read = plan.per_read
    options = {
        "ordering": plan.ordering,
        "concurrency": plan.concurrency,
        "failure_mode": plan.failure_mode,
        "retry": {"attempts": plan.attempts, "backoff": "1ms", "max_backoff": "1ms", "on": ["RuntimeError"]},
        "rate_limit": None,
    }
    rig = Rig(spec(plan.action, **options), partitions=len(log))
    failed: set[tuple[int, int]] = set()
    compacted: set[tuple[int, int]] = set()
    for step in [*plan.chaos, *["go on"] * 60]:
        failed |= _unit(rig, script, plan, step, compacted)
        if all(a.next_offset == WORLD.ends[a.key] and not a.pending for a in rig.assignments):
            break
    else:
        pytest.fail(f"it does not end: {rig.assignments}")
    _judge(script, plan, failed, compacted)


def _unit(rig: Rig, script: Script, plan: Plan, step: str, compacted: set[tuple[int, int]]) -> set[tuple[int, int]]:
    """One unit as the step says; the places of its failures."""
    if step == "elsewhere":
        rig.begin_elsewhere()
    if step == "compact":
        _compact(rig, compacted)
    if step in ("go on", "acknowledge"):
        for event in script.deferred:
            rig.action.source.ack(event)
    before = rig.assignments
    outcome = rig.unit(
        0.003 if step == "short" else 0.3, rate=plan.rate, max_records=plan.max_records, careful=step == "careful"
    )
    assert outcome.halt is None or outcome.halt.kind in ("outage", "throw"), outcome.halt
    if step == "dies":
        # L1: what was not returned is repeated; the process is gone with all that it knew.
        rig.assignments = before
        rig.begin_elsewhere()
        return set()
    if outcome.halt is not None and outcome.halt.kind == "throw":
        # The pipeline stops; it is resumed when what is wrong was mended.
        script.healed = True
        rig.begin_elsewhere()
        return set()
    return {(f.record.partition(), f.record.offset()) for f in outcome.failures}


def _compact(rig: Rig, compacted: set[tuple[int, int]]) -> None:
    """Records that are pending go away."""
    for a in rig.assignments:
        gone = set(a.pending[::2])
        WORLD.records[a.key] = [r for r in WORLD.records[a.key] if r.offset() not in gone]
        compacted |= {(a.partition, offset) for offset in gone}


def _judge(script: Script, plan: Plan, failed: set[tuple[int, int]], compacted: set[tuple[int, int]]) -> None:
    took_effect = set(script.effects)
    fails_without_retry = {"fails_once", "transform_fails_once"} if plan.attempts == 1 else set()
    for place, kind in script.kinds.items():
        if place in compacted:
            continue
        if kind in FAILS:
            assert place in failed or (script.healed and place in took_effect), (place, kind)
        elif kind in fails_without_retry:
            assert place in failed or place in took_effect, (place, kind)
        elif kind in TAKES_EFFECT:
            assert place in took_effect, (place, kind)
        else:
            assert place not in took_effect | failed, (place, kind)
    # Where a failure was lost with its process the event is tried again, behind effects of later ones.
    if plan.action != "WorldBatchAction" and plan.ordering != "none" and "dies" not in plan.chaos:
        _judge_order(script, plan)


def _judge_order(script: Script, plan: Plan) -> None:
    """I4: no event takes effect before one of its ordering key that comes before it and takes effect, too."""
    first_effect: dict[tuple[int, int], int] = {}
    for at, place in enumerate(script.effects):
        first_effect.setdefault(place, at)
    keys: dict[Any, list[tuple[int, int]]] = {}
    for partition, offset in sorted(first_effect):
        key = partition if plan.ordering == "partition" else (partition, offset % 3)
        keys.setdefault(key, []).append((partition, offset))
    for places in keys.values():
        order = [first_effect[place] for place in places]
        assert order == sorted(order), [(place, script.kinds[place]) for place in places]


def outcome(next_offset: int, pending: tuple[int, ...], account: Account) -> PartitionOutcome:
    return PartitionOutcome("t", 0, 1, next_offset, pending, (), "T", account)


ASSIGNED = Assignment("t", 0, 1, 10, (4, 7), (), "T")
GOOD = Account(10, 2, 5, 3, 1, 1, 1)


def test_an_account_that_adds_up() -> None:
    assert check_account(ASSIGNED, outcome(16, (14,), GOOD), [11]) is None


@pytest.mark.parametrize(
    ("part", "failures", "said"),
    [
        (outcome(16, (14,), replace(GOOD, acted=4)), [11], "2 taken over + 5 read is not 4 acted"),
        (outcome(16, (), GOOD), [11], "0 pending"),
        (outcome(16, (14,), replace(GOOD, filtered=-1, acted=5)), [11], "negative"),
        (outcome(16, (14,), replace(GOOD, taken_over=1)), [11], "took over 1"),
        (outcome(16, (14,), replace(GOOD, began_at=9)), [11], "began at 9"),
        (outcome(9, (4,), GOOD), [], "below 10"),
        (outcome(16, (16,), GOOD), [], "not ascending"),
        (outcome(16, (14, 14), GOOD), [], "not ascending"),
        (outcome(16, (14,), GOOD), [14], "14 counts as unfinished"),
        (outcome(16, (14,), GOOD), [16], "16 counts as unfinished"),
        (replace(outcome(16, (14,), GOOD), epoch=2), [], "epoch 2"),
        (replace(outcome(16, (14,), GOOD), topic_id="U"), [], "of U"),
    ],
)
def test_an_account_that_does_not_add_up(part: PartitionOutcome, failures: list[int], said: str) -> None:
    assert said in (check_account(ASSIGNED, part, failures) or "")


def test_a_cursor_decides_where_reading_began() -> None:
    part = outcome(16, (), Account(9, 0, 5, 5))
    assert check_account(ASSIGNED, part, []) is not None
    assert check_account(ASSIGNED, part, [], has_cursor=True) is None


def test_with_throw_the_failing_event_stays_unfinished() -> None:
    part = outcome(16, (14,), replace(GOOD, failed=0, acted=4))
    assert check_account(ASSIGNED, part, [14]) is not None
    assert check_account(ASSIGNED, part, [14], throws=True) is None
