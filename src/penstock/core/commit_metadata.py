"""The metadata of a commit: topic id, finished ranges above the committed offset, and events that wait for a retry."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

METADATA_LIMIT = 3_000
"""L7: bytes of commit metadata that are used; brokers refuse more than 4,096."""
PENDING_LIMIT = 100_000
"""L7: unfinished offsets that metadata may imply. A pipeline stops reading at a tenth of it."""

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_NUMBERS = re.compile(r"([0-9a-z]+(\.[0-9a-z]+)*)?")
_CHECKSUM_DIGITS = 7
"""Base 36 digits of a CRC-32: all of it, so that any change of up to four adjacent bytes is found with certainty."""


@dataclass(frozen=True, slots=True)
class OpenRetry:
    """An event that failed and waits for its next attempt."""

    offset: int
    attempts: int
    first_failed_at: int
    """Epoch milliseconds, to the second."""
    due_at: int
    """Epoch milliseconds, to the second."""


@dataclass(frozen=True, slots=True)
class Note:
    """Commit metadata, decoded."""

    topic_id: str | None
    """None where the commit is not Penstock's, or its metadata is damaged."""
    next_offset: int
    pending: tuple[int, ...] = ()
    retries: tuple[OpenRetry, ...] = ()
    damaged: str | None = None
    """Why metadata that looks like Penstock's cannot be used. Processing then repeats from the committed offset."""


class _Unreadable(ValueError):
    """The text looks like ours and cannot be used; the message says why."""


def encode(
    topic_id: str, position: int, next_offset: int, pending: Sequence[int], retries: Iterable[OpenRetry] = ()
) -> str:
    """`p2|checksum|topic id|gap.length…|gap.attempts.first.wait…`, numbers in base 36.

    What does not fit is left out: the ranges furthest from the position, then retries. Events of ranges that are left
    out are repeated after a restart; retries that are left out begin with their first attempt.
    """
    room = METADATA_LIMIT - len(f"p2||{topic_id}||") - _CHECKSUM_DIGITS
    ranges, room = _that_fit(_range_entries(position, next_offset, pending), room)
    tries, _ = _that_fit(_retry_entries(position, retries), room)
    body = f"{topic_id}|{ranges}|{tries}"
    return f"p2|{_checksum(position, body)}|{body}"


def fits(position: int, next_offset: int, pending: Sequence[int]) -> bool:
    """Whether all finished ranges fit, with a third of the room left for another batch and for retries."""
    size = sum(len(_base36(end - start)) + 4 for start, end in _finished(next_offset, pending))
    return size + len(_base36(next_offset - position)) < METADATA_LIMIT * 2 // 3


def decode(position: int, metadata: str) -> Note:
    """Read the metadata of a commit at `position`.

    I1: a text that is damaged, belongs to another offset or has an unknown version never moves the next offset beyond
    the committed one. Version p1 has no checksum and is still read.
    """
    if not metadata.startswith("p"):
        return Note(None, position)
    try:
        topic_id, ranges, tries = _parts(position, metadata)
        next_offset, pending = _decoded_ranges(position, _numbers(ranges))
        return Note(topic_id, next_offset, pending, _decoded_retries(position, _numbers(tries)))
    except _Unreadable as error:
        return Note(None, position, damaged=str(error))


def _parts(position: int, metadata: str) -> tuple[str, str, str]:
    """Topic id, ranges and retries of a text of either version."""
    if metadata.startswith("p2|"):
        checksum, _, body = metadata[3:].partition("|")
        if checksum != _checksum(position, body):
            raise _Unreadable("the checksum does not match the metadata and its offset")
        parts = body.split("|")
    elif metadata.startswith("p1;"):
        parts = metadata[3:].split(";")
    else:
        raise _Unreadable(f"{metadata[:12]!r} begins with no known version")
    if len(parts) != 3:
        raise _Unreadable(f"{len(parts)} fields instead of 3")
    return parts[0], parts[1], parts[2]


def _numbers(text: str) -> list[int]:
    # int() alone would also take signs, spaces, underscores and capital letters.
    if not _NUMBERS.fullmatch(text):
        raise _Unreadable("a number is not base 36")
    return [int(digits, 36) for digits in text.split(".") if digits]


def _decoded_ranges(position: int, numbers: Sequence[int]) -> tuple[int, tuple[int, ...]]:
    """The next offset and the pending offsets below it."""
    pending: list[int] = []
    at = position
    for gap, length in zip(numbers[::2], numbers[1::2], strict=False):
        if len(pending) + gap > PENDING_LIMIT:
            raise _Unreadable(f"more than {PENDING_LIMIT} unfinished offsets")
        pending.extend(range(at, at + gap))
        at += gap + length
    return at, tuple(pending)


def _decoded_retries(position: int, numbers: Sequence[int]) -> tuple[OpenRetry, ...]:
    retries, offset = [], position
    columns = (numbers[column::4] for column in range(4))
    for gap, attempts, first, wait in zip(*columns, strict=False):
        offset += gap
        retries.append(OpenRetry(offset, attempts, first * 1000, (first + wait) * 1000))
    return tuple(retries)


def _range_entries(position: int, next_offset: int, pending: Sequence[int]) -> Iterator[str]:
    last, implied = position, 0
    for start, end in _finished(next_offset, pending):
        implied += start - last
        if implied > PENDING_LIMIT:
            return
        yield f"{_base36(start - last)}.{_base36(end - start)}."
        last = end


def _retry_entries(position: int, retries: Iterable[OpenRetry]) -> Iterator[str]:
    last = position
    for retry in sorted(retries, key=lambda retry: retry.offset):
        if retry.offset < position:
            continue  # finished: there is nothing to remember
        first = max(0, retry.first_failed_at // 1000)
        numbers = (retry.offset - last, retry.attempts, first, max(0, retry.due_at // 1000 - first))
        yield "".join(f"{_base36(number)}." for number in numbers)
        last = retry.offset


def _that_fit(entries: Iterable[str], room: int) -> tuple[str, int]:
    """The first entries that fit, as one text, and the room that is left."""
    taken = []
    for entry in entries:
        if len(entry) > room:
            break
        room -= len(entry)
        taken.append(entry)
    return "".join(taken).rstrip("."), room


def _finished(next_offset: int, pending: Sequence[int]) -> list[tuple[int, int]]:
    """The finished ranges between pending offsets, up to the next offset."""
    return [(hole + 1, following) for hole, following in pairwise((*pending, next_offset)) if following > hole + 1]


def _checksum(position: int, body: str) -> str:
    # The offset is part of it: ranges are relative to it, and a tool may move the offset and keep the metadata.
    return _base36(zlib.crc32(f"{position}|{body}".encode())).rjust(_CHECKSUM_DIGITS, "0")


def _base36(number: int) -> str:
    if number < 0:
        raise ValueError(f"{number} is no offset, count or time that a commit could carry")
    digits = ""
    while True:
        number, rest = divmod(number, 36)
        digits = _DIGITS[rest] + digits
        if not number:
            return digits
