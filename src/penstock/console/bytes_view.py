"""Bytes as operations give them, as bytes again and as text to show."""

from __future__ import annotations

import base64

from penstock.console import words
from penstock.service.operations.letter_models import Bytes


def raw(given: Bytes | None) -> bytes | None:
    if given is None:
        return None
    return given.text.encode() if given.text is not None else base64.b64decode(given.base64 or "")


def shown(given: Bytes | None) -> str:
    """Text where it is text, else hex."""
    value = raw(given)
    if value is None:
        return "null"
    as_text = words.text_of(value)
    return as_text if as_text is not None else f"{value.hex(' ')} (bytes)"
