"""What a worker answers: every outcome arrives as it was, and nothing else is made of its bytes."""

from __future__ import annotations

import os
import pickle
import zlib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock.core.dead_letter import Failure
from penstock.core.event import Record
from penstock.core.latency import Latencies, Times
from penstock.pipeline.messages import (
    Account,
    Counts,
    FailedEvent,
    Halt,
    PartitionOutcome,
    Retry,
    StepCounts,
    UnitOutcome,
)
from penstock.pipeline.samples import Sample
from penstock.worker import protocol
from penstock.worker.protocol import RunsOutcome, UnreadableAnswer, WindowOutcome, packed, unpacked


def failed(text: str = "no such customer", count: int = 1) -> list[FailedEvent]:
    record = Record("orders", 0, 7, b"k\xff", b"\x00\x01", [("h", b"v"), ("h", None)], 1_700_000_000_000, 1)
    failure = Failure(
        stage="act",
        error_code="ValueError",
        error_class="builtins.ValueError",
        error=text,
        traceback="",
        fingerprint="f" * 16,
        attempts=3,
        first_failed_at=1,
        last_failed_at=2,
        value_seen=b"{}",
        schema_id=4,
    )
    return [FailedEvent(record, failure, "order")] * count


def outcome(failures: list[FailedEvent]) -> WindowOutcome:
    times = Times()
    times.add(0.25, 3)
    part = PartitionOutcome(
        "orders",
        0,
        2,
        11,
        (8, 9),
        (Retry(8, 1, 5, 0.5),),
        "id",
        Account(3, 0, 8),
        (1, 2),
        blocked_by="registry",
    )
    unit = UnitOutcome(
        3,
        "p",
        1,
        "done",
        [part],
        Counts(8, 6, early={"skipped": 2}),
        [StepCounts(8, 1)],
        {"act": times},
        Latencies(),
        failures,
        Halt("outage", "broker", "no answer", 2.5),
        samples=[Sample("act", 0, "orders", 0, 7, -1, None, value="{}")],
    )
    runs = RunsOutcome("t", 2, {"success": 2}, 0, more=False)
    return WindowOutcome("shared-0", 7, [unit], [4], 1.5, held=1, registry_calls={"found": times}, runs=runs)


@pytest.mark.parametrize("failures", [0, 1, 1_000])
def test_an_outcome_arrives_as_it_was_sent(failures: int) -> None:
    sent = outcome(failed(count=failures))
    received = unpacked(packed(sent))
    assert received == sent
    assert [type(f.record) for f in received.units[0].failures] == [Record] * failures


def test_text_that_is_no_utf_8_is_made_visible_instead_of_losing_the_window() -> None:
    received = unpacked(packed(outcome(failed("half a pair: \ud83d"))))
    assert received.units[0].failures[0].failure.error == "half a pair: \\ud83d"
    assert received.units[0].failures[0].record.value() == b"\x00\x01", "I3: bytes stay as they are"


class OwnText(str):
    __slots__ = ()


def test_text_of_a_class_of_the_users_own_arrives_as_text() -> None:
    received = unpacked(packed(outcome(failed(OwnText("own")))))
    assert type(received.units[0].failures[0].failure.error) is str


class Payload:
    """Makes a folder where it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.folder),)


def test_a_pickle_is_refused_and_nothing_of_it_runs(tmp_path: Path) -> None:
    harm = tmp_path / "harm"
    answer = pickle.dumps(Payload(harm))
    disguised = [answer, pickle.dumps([answer]), b"m" + answer, b"z" + zlib.compress(answer), zlib.compress(answer)]
    for given in disguised:
        with pytest.raises(UnreadableAnswer):
            unpacked(given)
    assert not harm.exists()


def test_a_truncated_answer_is_refused_at_every_length() -> None:
    whole = packed(outcome(failed()))
    for length in range(len(whole)):
        with pytest.raises(UnreadableAnswer):
            unpacked(whole[:length])
    large = packed(outcome(failed(count=1_000)))
    for length in range(0, len(large), 97):
        with pytest.raises(UnreadableAnswer):
            unpacked(large[:length])


def _places(plain: Any, path: tuple[int, ...] = ()) -> list[tuple[int, ...]]:
    found = [path]
    if isinstance(plain, list | tuple):
        for index, item in enumerate(plain):
            found += _places(item, (*path, index))
    return found


def _with(plain: Any, path: tuple[int, ...], value: Any) -> Any:
    if not path:
        return value
    made = list(plain)
    made[path[0]] = _with(made[path[0]], path[1:], value)
    return made


def test_a_value_of_another_type_is_refused_at_every_place() -> None:
    plain = msgspec.to_builtins(outcome(failed()), builtin_types=(bytes,))
    places = _places(plain)
    assert len(places) > 100
    for place in places:
        with pytest.raises(UnreadableAnswer):
            unpacked(b"m" + msgspec.msgpack.encode(_with(plain, place, msgspec.msgpack.Ext(1, b"x"))))


@pytest.mark.parametrize(
    "plain",
    [
        None,
        7,
        [],
        {},
        ["shared-0", "7", [], [], 0.0],
        ["shared-0", 7, [], [], 0.0, False, 0, {}, None, "one more"],
        ["shared-0", 7, [], [], 0.0, False, 0, {"found": [0.1, [[1, 2]]]}],
        ["shared-0", 7, [], [], 0.0, False, 0, {"found": [0.1, [[-1] * 90]]}],
    ],
)
def test_plain_data_of_another_shape_is_refused(plain: Any) -> None:
    with pytest.raises(UnreadableAnswer):
        unpacked(b"m" + msgspec.msgpack.encode(plain))


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(UnreadableAnswer):
        unpacked(b"m" + b"\x91" * 1_000_000)


def test_l07_an_answer_that_grows_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "_AT_MOST", 1_000_000)
    with pytest.raises(UnreadableAnswer, match="longer than"):
        unpacked(b"z" + zlib.compress(b"\x00" * 2_000_000))
