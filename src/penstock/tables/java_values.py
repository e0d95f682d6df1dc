"""Texts and numbers as Java makes and reads them: what WhereHows stored must come out the same."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from penstock.core.errors import PenstockError, Terminal

LONG: Final = 64
INT: Final = 32

# Python's own `int()` is too liberal: it takes blanks, underscores and the digits of every script.
_NUMBER: Final = re.compile(r"[+-]?[0-9]+")
_DIGITS: Final = 20
"""No number of 64 bits has more digits and a sign; leading zeros are taken off before they are counted."""

_SURE: Final = 10
"""Fewer digits than this fit into any range."""


class NotANumber(PenstockError, Terminal):
    """A text that had to be a number is none."""

    code = "not-a-number"


def number(text: str | None, bits: int = LONG) -> int | None:
    """Optional sign and ASCII digits within the range of `bits`; None: anything else."""
    if text is None:
        return None
    if len(text) < _SURE and text.isascii() and text.isdigit():
        return int(text)  # nearly all of them
    if not _NUMBER.fullmatch(text):
        return None
    sign = "-" if text[0] == "-" else ""
    digits = text.lstrip("+-").lstrip("0") or "0"
    if len(digits) > _DIGITS:  # a message of a megabyte of digits must not be worked out
        return None
    value = int(sign + digits)
    limit = 1 << (bits - 1)
    return value if -limit <= value < limit else None


def strict(text: str | None, what: str, bits: int = LONG) -> int:
    """The number, or `NotANumber` that names what it was to be."""
    value = number(text, bits)
    if value is None:
        raise NotANumber(f"`{what}` is not a whole number of {bits} bits", received=text)
    return value


def text(value: Any) -> str:
    """What Java's `String.valueOf` makes of a decoded value: `null`, `true`, `[a, b]`, `{a=b}`."""
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode("utf-8", "replace")
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{text(key)}={text(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(text, value)) + "]"
    return str(value)


def optional_text(value: Any) -> str | None:
    """As `text`, but null, and the word `null` that older events carry for it, is NULL."""
    made = None if value is None else text(value)
    return None if made == "null" else made
