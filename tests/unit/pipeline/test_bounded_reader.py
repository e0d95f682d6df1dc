"""Readers of replays: they give what lies within their bounds, in order, and say when that is all."""

from __future__ import annotations

from penstock.core.event import Record
from penstock.pipeline.bounded_reader import LetterReader
from penstock.pipeline.messages import Bounds

A, B = ("t", 0), ("t", 1)


def records(*places: tuple[int, int]) -> tuple[Record, ...]:
    return tuple(Record("t", partition, offset) for partition, offset in places)


def offsets(reader: LetterReader, limit: int = 100) -> list[tuple[int, int]]:
    batch = reader.read(limit, 0.0)
    return [] if batch is None else [(r.partition(), r.offset()) for r in batch.records]


def test_letters_come_in_the_order_of_each_partition_from_where_they_are_placed() -> None:
    reader = LetterReader(Bounds({A: 31, B: 8}, records((0, 10), (0, 20), (0, 30), (1, 7))))
    reader.place({A: 11, B: 7})
    assert not reader.exhausted
    assert sorted(offsets(reader)) == [(0, 20), (0, 30), (1, 7)]
    assert (reader.position(A), reader.position(B)) == (31, 8)
    assert reader.exhausted
    assert reader.at_end(A)
    assert reader.read(100, 0.0) is None


def test_letters_are_given_up_to_the_limit_and_not_from_what_is_held() -> None:
    reader = LetterReader(Bounds({A: 4, B: 2}, records((0, 1), (0, 2), (0, 3), (1, 1))))
    reader.place({A: 1, B: 1})
    reader.hold({B})
    assert offsets(reader, 2) == [(0, 1), (0, 2)]
    assert offsets(reader, 2) == [(0, 3)]
    assert not reader.exhausted
    reader.hold(set())
    assert offsets(reader) == [(1, 1)]


def test_the_next_unit_brings_other_letters() -> None:
    reader = LetterReader(Bounds({A: 3}, records((0, 1), (0, 2))))
    reader.place({A: 1})
    offsets(reader)
    reader.bound(Bounds({A: 9}, records((0, 2), (0, 8))))
    reader.place({A: reader.position(A)})
    assert offsets(reader) == [(0, 8)]


def test_a_batch_says_from_where_to_where_it_goes() -> None:
    reader = LetterReader(Bounds({A: 21}, records((0, 10), (0, 20))))
    reader.place({A: 5})
    batch = reader.read(1, 0.0)
    assert batch is not None
    assert (batch.starts, batch.ends) == ({A: 5}, {A: 11})
