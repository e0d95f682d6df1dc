"""What a commit remembers beside its offset: the topic's id, finished ranges above the offset, open retries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

METADATA_LIMIT = 3_000
"""Bytes of commit metadata that we use; brokers refuse 4,096."""
_VERSION = "p1"
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True)
class OpenRetry:
    """An event that failed and is to be tried again, as a commit remembers it."""

    offset: int
    attempts: int
    first_failed_at: int
    """Epoch milliseconds, to the second."""
    due_at: int
    """Epoch milliseconds, to the second."""


@dataclass(frozen=True, slots=True)
class Note:
    """A commit's metadata, read."""

    topic_id: str | None
    """None where the commit is not Penstock's."""
    next_offset: int
    pending: tuple[int, ...] = ()
    retries: tuple[OpenRetry, ...] = ()


def encode(
    topic_id: str, position: int, next_offset: int, pending: Sequence[int], retries: Iterable[OpenRetry] = ()
) -> str:
    """`p1;topic id;gap.length…;gap.attempts.first.wait…`, numbers in base 36. What does not fit is left out: the ranges
    furthest from the position, then retries, which begin anew after a restart."""
    text = f"{_VERSION};{topic_id};"
    room = METADATA_LIMIT - len(text) - 1
    ranges, last = [], position
    for start, end in _finished(next_offset, pending):
        pair = f"{_base36(start - last)}.{_base36(end - start)}."
        if len(pair) > room:
            break
        room -= len(pair)
        ranges.append(pair)
        last = end
    tries, last = [], position
    for retry in sorted(retries, key=lambda retry: retry.offset):
        first = retry.first_failed_at // 1000
        numbers = (retry.offset - last, retry.attempts, first, max(0, retry.due_at // 1000 - first))
        entry = "".join(f"{_base36(number)}." for number in numbers)
        if len(entry) > room:
            break
        room -= len(entry)
        tries.append(entry)
        last = retry.offset
    return f"{text}{''.join(ranges).rstrip('.')};{''.join(tries).rstrip('.')}"


def fits(position: int, next_offset: int, pending: Sequence[int]) -> bool:
    """Whether all finished ranges find room, with a good part left for another batch and for retries."""
    size = sum(len(_base36(end - start)) + 4 for start, end in _finished(next_offset, pending))
    return size + len(_base36(next_offset - position)) < METADATA_LIMIT * 2 // 3


def decode(position: int, metadata: str) -> Note:
    parts = metadata.split(";")
    if len(parts) != 4 or parts[0] != _VERSION:
        return Note(None, position)
    try:
        ranges, tries = ([int(n, 36) for n in part.split(".") if n] for part in parts[2:])
    except ValueError:
        return Note(None, position)
    pending: list[int] = []
    at = position
    for gap, length in zip(ranges[::2], ranges[1::2], strict=False):
        pending.extend(range(at, at + gap))
        at += gap + length
    retries, last = [], position
    for gap, attempts, first, wait in zip(tries[::4], tries[1::4], tries[2::4], tries[3::4], strict=False):
        last += gap
        retries.append(OpenRetry(last, attempts, first * 1000, (first + wait) * 1000))
    return Note(parts[1], at, tuple(pending), tuple(retries))


def _finished(next_offset: int, pending: Sequence[int]) -> list[tuple[int, int]]:
    """Ranges between the pending, up to the next_offset."""
    return [(hole + 1, following) for hole, following in pairwise((*pending, next_offset)) if following > hole + 1]


def _base36(number: int) -> str:
    digits = ""
    while True:
        number, rest = divmod(number, 36)
        digits = _DIGITS[rest] + digits
        if not number:
            return digits
