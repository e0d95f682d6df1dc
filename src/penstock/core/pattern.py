"""Regular expressions that users supply, matched in linear time (RE2)."""

from __future__ import annotations

from typing import Any, Final

import re2

MAX_LENGTH: Final = 1_000
_MEMORY: Final = 1 << 20
"""Bytes of a compiled pattern and its automaton; a larger one is refused."""


class Pattern:
    """A compiled pattern; `ValueError` says what is wrong with it.

    RE2 has no look-around, no back-references and no possessive quantifiers, which is why no text takes it more than
    linear time. Python's `re` needs exponential time for some patterns, during which no other thread runs.
    """

    __slots__ = ("_compiled",)

    def __init__(self, text: str) -> None:
        if len(text) > MAX_LENGTH:
            raise ValueError(f"a regular expression of at most {MAX_LENGTH} characters is wanted, not of {len(text):,}")
        self._compiled = _compiled(text)

    def matches(self, text: str) -> bool:
        """Whether the pattern matches at the beginning of the text."""
        return self._compiled.match(text) is not None


def _compiled(text: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    try:
        return re2.compile(text, options)  # type: ignore[no-untyped-call]  # it has no types
    except re2.error as error:
        said = error.args[0] if error.args else ""
        reason = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
        raise ValueError(
            f"{text!r} is no regular expression: {reason[:200]} (RE2 syntax: no look-around, no back-references)"
        ) from None
