"""Finding letters by a piece of text, also among millions.

PostgreSQL finds a piece of text within other text by an index only with an extension that not every server has, so the
store keeps an index of its own: the runs of three bytes that a letter's text is made of, as numbers. Who looks for a
text asks for all its numbers at once and then looks at the few texts that have them.
"""

from __future__ import annotations

import zlib
from typing import Any, Final

from penstock.core.dead_letter import DeadLetter, Failure
from penstock.store.tables import clean

ERROR_CHARACTERS: Final = 500
KEY_CHARACTERS: Final = 100
VALUE_BYTES: Final = 1000
"""How much of the error, the key and the value can be found: the index costs several times what it covers."""

_SHORTEST: Final = 3
"""Shorter texts have no run of three bytes: they are looked for in row after row."""
_ASKED: Final = 4


def searched_error(failure: Failure) -> str:
    """The code and the part of the message that can be found, as they are compared."""
    return clean(f"{failure.error_code}\n{failure.error[:ERROR_CHARACTERS]}").lower()


def searched_content(letter: DeadLetter) -> str:
    """The part of key and value that can be found; bytes that are no text are left out, so texts within Avro stay."""
    key = (letter.key or b"")[: 4 * KEY_CHARACTERS].decode("utf-8", "ignore")[:KEY_CHARACTERS]
    value = (letter.value or b"")[:VALUE_BYTES].decode("utf-8", "ignore")
    return clean(f"{key}\n{value}").lower()


def wanted(text: str) -> str:
    """What a person looks for, as it is compared."""
    return clean(text).lower()


def grams_of(text: str) -> list[int]:
    """What every text must have that contains this one; none where it is too short to say. Some of a long text are
    enough: each costs a walk through a part of the index, and the texts found are compared as a whole."""
    raw = text.encode()
    places = range(len(raw) - _SHORTEST + 1)
    step = max(1, -(-len(places) // _ASKED))
    return [number for at in places[::step] for number in _grams(raw[at : at + _SHORTEST])]


def tag(name: str, value: object) -> int:
    """A column's value as one of the numbers, so that one index answers for texts and columns together."""
    return zlib.crc32(f"{name}={value}".encode()) % 65_536 - 32_768


def indexed(where: Any, failure: Failure, error: str, content: str) -> list[int]:
    """All numbers of a letter; `where` has its pipeline, topic and partition."""
    return list(_grams(error.encode()) | _grams(content.encode()) | _tags(where, failure))


def _tags(where: Any, failure: Failure) -> set[int]:
    return {
        tag("pipeline", clean(where.pipeline)),
        tag("topic", clean(where.topic)),
        tag("partition", where.partition),
        tag("stage", failure.stage),
        tag("fingerprint", clean(failure.fingerprint)),
    }


def _grams(raw: bytes) -> set[int]:
    # Any function of three bytes will do; this one keeps apart what lower-case text is mostly made of.
    return {(a * 1601 + b * 41 + c) % 65_536 - 32_768 for a, b, c in zip(raw, raw[1:], raw[2:], strict=False)}
