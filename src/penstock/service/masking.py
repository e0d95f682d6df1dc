"""Hides fields of events that a rule names from whoever looks at them."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

import orjson

from penstock.config.http_settings import MaskRule
from penstock.core.secrets import MASK


class Masking:
    """The rules of an installation."""

    def __init__(self, rules: Sequence[MaskRule] = ()) -> None:
        self._rules = rules

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
        for rule in self._rules:
            if fnmatchcase(topic, rule.topic):
                for path in rule.fields:
                    value = _masked(value, path.split("."))
        return value


def _masked(value: Any, path: Sequence[str]) -> Any:
    if not path:
        return MASK if value is not None else None
    head, rest = path[0], path[1:]
    if isinstance(value, dict):
        return {key: _masked(item, rest) if head in ("*", str(key)) else item for key, item in value.items()}
    if isinstance(value, list):
        # A list is seen through: `items.price` names the price of every item.
        if head == "*" or head.isdecimal():
            return [_masked(item, rest) if head in ("*", str(n)) else item for n, item in enumerate(value)]
        return [_masked(item, path) for item in value]
    return value
