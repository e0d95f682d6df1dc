"""Columns read without a detour: most values have the type of their column already.

What is anything else goes the long way, which converts it or says what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any, Final

from penstock.core.event import Event

Reader = Callable[[Event], Any]

INTEGERS: Final = {"integer": (-(2**31), 2**31 - 1), "bigint": (-(2**63), 2**63 - 1)}
_AS_THEY_ARE: Final = {"float": float, "boolean": bool}
_ELSEWHERE: Final = (KeyError, TypeError)
"""The event has no such field, or nothing that has fields."""


def quick_reader(path: str, kind: str | None, slow: Reader) -> Reader:
    """Reads as `slow` does."""
    get = _getter(path.split("."))
    if kind == "text":
        return _text(get, slow)
    if kind in INTEGERS:
        return _integer(get, slow, *INTEGERS[kind])
    if kind in _AS_THEY_ARE:
        return _as_it_is(get, slow, _AS_THEY_ARE[kind])
    return slow


def _getter(names: list[str]) -> Callable[[Any], Any]:
    if len(names) == 1:
        return itemgetter(names[0])
    if len(names) == 2:
        first, second = names
        return lambda value: value[first][second]

    def get(value: Any) -> Any:
        for name in names:
            value = value[name]
        return value

    return get


def _text(get: Callable[[Any], Any], slow: Reader) -> Reader:
    def read(event: Event) -> Any:
        try:
            value = get(event.value)
        except _ELSEWHERE:
            return slow(event)
        return value if type(value) is str and "\0" not in value else slow(event)

    return read


def _integer(get: Callable[[Any], Any], slow: Reader, low: int, high: int) -> Reader:
    def read(event: Event) -> Any:
        try:
            value = get(event.value)
        except _ELSEWHERE:
            return slow(event)
        return value if type(value) is int and low <= value <= high else slow(event)

    return read


def _as_it_is(get: Callable[[Any], Any], slow: Reader, wanted: type) -> Reader:
    def read(event: Event) -> Any:
        try:
            value = get(event.value)
        except _ELSEWHERE:
            return slow(event)
        return value if type(value) is wanted else slow(event)

    return read
