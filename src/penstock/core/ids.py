"""Ids that grow with time: version 7 UUIDs, so that new rows lie together in an index and lists need no other order."""

from __future__ import annotations

import os
import re
import threading
import time
from typing import Final

_RESTS: Final = [f"7{rest:03x}-8" for rest in range(1_000)]
"""The version, the microseconds within a millisecond, and the variant with two bits that could be random."""
_FORM: Final = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_lock = threading.Lock()
_last = 0


def new_id() -> str:
    """Greater than every id that this process made before."""
    return new_ids(1)[0]


def new_ids(count: int) -> list[str]:
    """Ids in growing order: the time in microseconds, then random bits."""
    global _last  # noqa: PLW0603 - what makes them grow within a process
    with _lock:
        first = max(time.time_ns() // 1_000, _last + 1)
        _last = first + count - 1
    return ids_at(first, count)


def ids_at(micros: int, count: int) -> list[str]:
    """Ids of another time, in growing order: for rows that came from elsewhere."""
    # Put together from pieces, for intake makes three of each message: as numbers they take four times as long.
    noise = os.urandom(8 * count).hex()
    made: list[str] = []
    at, end = micros, micros + count
    while at < end:
        millis, rest = divmod(at, 1_000)
        some = min(1_000 - rest, end - at)
        text = f"{millis:012x}"
        start = f"{text[:8]}-{text[8:]}-"
        places = range(16 * (at - micros), 16 * (at - micros + some), 16)
        made += [
            f"{start}{said}{noise[i : i + 3]}-{noise[i + 3 : i + 15]}"
            for said, i in zip(_RESTS[rest : rest + some], places, strict=True)
        ]
        at += some
    return made


def first_id(micros: int) -> str:
    """Not greater than any id of that time or later, and greater than all before: where a range of ids begins."""
    return _id(max(0, micros), 0)


def time_of(identifier: str) -> int:
    """Epoch microseconds of an id."""
    number = int(identifier.replace("-", ""), 16)
    return (number >> 80) * 1_000 + (number >> 64 & 0xFFF)


def is_id(text: str) -> bool:
    """Whether a text may be an id at all; a database would refuse to compare others with one."""
    return _FORM.fullmatch(text) is not None


def _id(micros: int, noise: int) -> str:
    millis, rest = divmod(micros, 1_000)
    # 48 bits of milliseconds, the version, 12 bits of what is left of the time, the variant, 62 random bits.
    number = millis << 80 | 7 << 76 | rest << 64 | 2 << 62 | noise
    text = f"{number:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
