"""Finding letters by a piece of text, also among millions.

PostgreSQL finds a piece of text within other text by an index only with an extension that not every server has, so the
store keeps an index of its own: the runs of three bytes that a letter's text is made of, as numbers. Who looks for a
text asks for all its numbers at once and then looks at the few texts that have them. A number has each byte's kind in a
place of its own, so that a text of two bytes stands for all runs that begin with it.
"""

from __future__ import annotations

import string
import zlib
from typing import Any, Final, NamedTuple

from penstock.core.dead_letter import DeadLetter, Failure
from penstock.store.tables import clean

ERROR_CHARACTERS: Final = 500
KEY_CHARACTERS: Final = 100
VALUE_BYTES: Final = 1000
"""How much of the error, the key and the value can be found: the index costs several times what it covers."""

_RUN: Final = 3
_ASKED: Final = 4
_KINDS: Final = 40
"""Kinds of bytes: as many as three places in a small integer allow."""
_OTHER: Final = 36


def _kinds() -> bytes:
    """The kind of each byte: letters and digits each have one of their own, signs share four. Bytes of other scripts
    are spread over those of letters and digits: who writes in them looks for words too."""
    kinds = bytearray(_OTHER if byte < 128 else byte % _OTHER for byte in range(256))
    for kind, character in enumerate(string.ascii_lowercase + string.digits):
        kinds[ord(character)] = kind
    for kind, characters in enumerate(("\"'", "-_.", ":/"), start=_OTHER + 1):
        for character in characters:
            kinds[ord(character)] = kind
    return bytes(kinds)


_KIND_OF: Final = _kinds()
_END: Final = bytes([_OTHER] * (_RUN - 1))
"""Follows a text: its last bytes begin runs as well."""


class Asked(NamedTuple):
    """Numbers that every text has which contains the one that is looked for."""

    every: list[int]
    some: list[int]
    """At least one of them; empty: nothing is asked."""


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


def asked(text: str) -> Asked:
    """What to ask the index for. Some runs of a long text are enough: each costs a walk through a part of the index,
    and the texts found are compared as a whole."""
    kinds = text.encode().translate(_KIND_OF)
    if len(kinds) < _RUN:
        # One byte begins so many runs that asking for all of them takes far longer than looking at every text.
        return Asked([], _beginning(kinds) if len(kinds) > 1 else [])
    places = range(len(kinds) - _RUN + 1)
    step = max(1, -(-len(places) // _ASKED))
    return Asked([number for at in places[::step] for number in _runs(kinds[at : at + _RUN])], [])


def _beginning(kinds: bytes) -> list[int]:
    """All runs that begin with these kinds."""
    room = _KINDS ** (_RUN - len(kinds))
    first = 0
    for kind in kinds:
        first = first * _KINDS + kind
    return [number - 32_768 for number in range(first * room, (first + 1) * room)]


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
    return _runs(raw.translate(_KIND_OF) + _END)


def _runs(kinds: bytes) -> set[int]:
    return {(a * _KINDS + b) * _KINDS + c - 32_768 for a, b, c in zip(kinds, kinds[1:], kinds[2:], strict=False)}
