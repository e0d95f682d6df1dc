"""Makes control characters of data visible, so that no terminal obeys what an event brought along."""

from __future__ import annotations

import re

# C0 without tab and newline, DEL, C1, and marks that turn the direction of text: each can forge what is shown.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# JSON escapes C0 by itself.
_JSON_CONTROL = re.compile("[\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def visible(value: object) -> str:
    """Text that a terminal shows and never obeys: `\\x1b` instead of the escape character."""
    return _CONTROL.sub(lambda m: ascii(m[0])[1:-1], str(value))


def one_line(value: object) -> str:
    """As `visible`, with line breaks and tabs shown too: for cells and log lines."""
    return visible(value).replace("\n", "\\n").replace("\t", "\\t")


def visible_json(text: str) -> str:
    """JSON text of the same value, with the characters escaped that JSON itself lets through."""
    return _JSON_CONTROL.sub(lambda m: f"\\u{ord(m[0]):04x}", text)
