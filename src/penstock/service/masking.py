"""Hides fields of events that a rule names from whoever looks at them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

import orjson

from penstock.config.http_settings import MaskRule
from penstock.core.secrets import MASK, Scrubber

Raw = bytes | None
Words = Callable[[str], str]
"""What a text about an event, its error for instance, may say of it."""
UNTOLD: Final = "not shown: rules mask fields of this topic, and nobody can tell where they are in this value"


class Masking:
    """The rules of an installation."""

    def __init__(self, rules: Sequence[MaskRule] = ()) -> None:
        self._rules = rules

    @property
    def has_rules(self) -> bool:
        return bool(self._rules)

    def applies(self, topic: str) -> bool:
        return any(fnmatchcase(topic, rule.topic) for rule in self._rules)

    def bytes(self, topic: str, raw: bytes | None) -> bytes | None:
        """The value with its fields masked; one that is no JSON is not shown at all."""
        if raw is None or not self.applies(topic):
            return raw
        try:
            value = orjson.loads(raw)
        except orjson.JSONDecodeError:
            return MASK.encode()
        return orjson.dumps(self.value(topic, value))

    def value(self, topic: str, value: Any) -> Any:
        """The same for a value that is decoded already."""
        if isinstance(value, str) and self.applies(topic):
            return MASK
        for path in self._paths(topic):
            value = _changed(value, path, lambda hidden: None if hidden is None else MASK)
        return value

    def words(self, topic: str, *raws: Raw) -> Words:
        """For texts about an event of which these are values: without what rules mask in any of them."""
        given = [raw for raw in raws if raw is not None]
        if not given or not self.applies(topic):
            return lambda text: text
        values = [value for raw in given if (value := _container(raw)) is not None]
        if not values:
            return lambda text: UNTOLD if text else text
        hidden: list[Any] = []
        for value in values:
            for path in self._paths(topic):
                _changed(value, path, hidden.append)
        return Scrubber(_texts(hidden)).scrub

    def _paths(self, topic: str) -> Iterator[list[str]]:
        for rule in self._rules:
            if fnmatchcase(topic, rule.topic):
                yield from (path.split(".") for path in rule.fields)


def _container(raw: bytes) -> Any:
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, (dict, list)) else None


def _texts(value: Any) -> Iterator[str]:
    """All that a value is made of; true and false tell nothing."""
    if isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


def _changed(value: Any, path: Sequence[str], change: Callable[[Any], Any]) -> Any:
    """The value with everything that a path names changed."""
    if not path:
        return change(value)
    head, rest = path[0], path[1:]
    if isinstance(value, dict):
        return {key: _changed(item, rest, change) if head in ("*", str(key)) else item for key, item in value.items()}
    if isinstance(value, list):
        # A list is seen through: `items.price` names the price of every item.
        if head == "*" or head.isdecimal():
            return [_changed(item, rest, change) if head in ("*", str(n)) else item for n, item in enumerate(value)]
        return [_changed(item, path, change) for item in value]
    return value
