"""The partition reader's positions, with a consumer that answers as the test says."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError

from penstock.kafka import partition_reader
from penstock.kafka.partition_reader import PartitionReader

TP = ("t", 0)


class Answer:
    """A message of the client: a record, or an event with an error."""

    def __init__(self, offset: int, error: int | None = None, partition: int = 0) -> None:
        self._offset, self._partition = offset, partition
        self._error = KafkaError(error) if error is not None else None

    def error(self) -> KafkaError | None:
        return self._error

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self._offset


def eof(offset: int, partition: int = 0) -> Answer:
    return Answer(offset, KafkaError._PARTITION_EOF, partition)


class FakeConsumer:
    def __init__(self, *answers: list[Answer]) -> None:
        self._answers = list(answers)

    def consume(self, _limit: int, _timeout: float) -> list[Answer]:
        return self._answers.pop(0) if self._answers else []

    def incremental_assign(self, _partitions: object) -> None: ...

    def get_watermark_offsets(self, *_: object, **__: object) -> None: ...


def reader(monkeypatch: pytest.MonkeyPatch, *answers: list[Answer], **placed: int) -> PartitionReader:
    class Client:
        def consumer(self, settings: dict[str, Any]) -> dict[str, Any]:
            return settings

    monkeypatch.setattr(partition_reader, "Consumer", lambda _settings: FakeConsumer(*answers))
    monkeypatch.setattr(partition_reader, "Message", Answer)
    made = PartitionReader(Client(), name="g")  # type: ignore[arg-type]  # settings are all that is asked of it
    made.place({("t", int(name[1:])): offset for name, offset in (placed or {"p0": 3}).items()})
    return made


def test_records_and_the_end_behind_a_transaction_marker_in_one_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    log = reader(monkeypatch, [Answer(3), Answer(4), eof(12)])
    batch = log.read(2000, 0)
    assert batch is not None
    assert [record.offset() for record in batch.records] == [3, 4]
    assert (batch.starts, batch.ends) == ({TP: 3}, {TP: 12})
    assert (log.position(TP), log.at_end(TP)) == (12, True)


def test_an_end_alone_moves_the_position_and_is_part_of_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    log = reader(monkeypatch, [Answer(3)], [eof(7)])
    assert log.read(2000, 0) is not None
    batch = log.read(2000, 0)
    assert batch is not None
    assert (batch.records, batch.starts, batch.ends) == ([], {TP: 4}, {TP: 7})
    assert (log.position(TP), log.at_end(TP)) == (7, True)


def test_an_end_at_the_position_is_no_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    log = reader(monkeypatch, [eof(3)])
    assert log.read(2000, 0) is None
    assert (log.position(TP), log.at_end(TP)) == (3, True)


def test_records_behind_an_end_in_one_answer_are_read_on_from(monkeypatch: pytest.MonkeyPatch) -> None:
    log = reader(monkeypatch, [Answer(3), eof(5), Answer(5), Answer(6)])
    batch = log.read(2000, 0)
    assert batch is not None
    assert (batch.starts, batch.ends) == ({TP: 3}, {TP: 7})
    assert not log.at_end(TP), "the end was at 5, and what came since may not be all"


def test_each_partition_has_its_own_end(monkeypatch: pytest.MonkeyPatch) -> None:
    log = reader(
        monkeypatch, [Answer(3), Answer(0, partition=1), eof(9, 1), eof(4, 2), eof(8, 3)], p0=3, p1=0, p2=2, p3=8
    )
    batch = log.read(2000, 0)
    assert batch is not None
    assert batch.starts == {("t", 0): 3, ("t", 1): 0, ("t", 2): 2}
    assert batch.ends == {("t", 0): 4, ("t", 1): 9, ("t", 2): 4}
    assert [log.at_end(("t", p)) for p in range(4)] == [False, True, True, True]


def test_an_end_of_a_partition_that_is_not_read_any_more_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    log = reader(monkeypatch, [Answer(3), eof(9, 5)])
    batch = log.read(2000, 0)
    assert batch is not None
    assert batch.ends == {TP: 4}


@pytest.mark.parametrize("code", [KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE])
def test_errors_beside_records_are_noted(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    log = reader(monkeypatch, [Answer(3), Answer(-1, code, 1)], p0=3, p1=0)
    batch = log.read(2000, 0)
    assert batch is not None
    assert (batch.starts, batch.ends) == ({TP: 3}, {TP: 4})
    assert log.trouble.out_of_range == {("t", 1)}
