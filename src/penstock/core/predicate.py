"""DataHub's matching rule, compiled once into closures; `specs/datahub-actions.md` section 6.1 is its table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from types import NoneType
from typing import Any

import orjson

from penstock.core.event import Body, Event, json_default

Test = Callable[[Any], bool]

_PLAIN = frozenset({str, int, float, bool, NoneType, dict, list})
_SCALARS = (str, int, float, bool, NoneType)


def compile_predicate(want: Any) -> Test:
    """A test of a value against `want`: a map (all keys), a list (any of these texts), or a scalar (equal)."""
    if isinstance(want, Mapping):
        return _map_test(want)
    if isinstance(want, list):
        texts = frozenset(item for item in want if isinstance(item, str))
        return lambda have: isinstance(have := _plain(have), str) and have in texts
    if not isinstance(want, _SCALARS):
        return lambda _have: False  # YAML dates and the like: JSON holds none
    return lambda have: bool(_plain(have) == want)


def body_of(event: Event) -> Any:
    """What predicates look at: the event's JSON text, parsed; the decoded value itself where that is the same."""
    body = event.event
    if isinstance(body, Body):
        return event.value
    return body if hasattr(body, "as_map") else json.loads(body.as_json())


def never_matching(want: Any, path: str = "event") -> Iterator[str]:
    """A sentence for each part of a predicate that no event can match."""
    if isinstance(want, Mapping):
        for key, inner in want.items():
            yield from never_matching(inner, f"{path}.{key}")
    elif isinstance(want, list):
        others = [item for item in want if not isinstance(item, str)]
        if others and len(others) == len(want):
            yield f"`{path}`: a list matches texts only, so {want!r} matches nothing"
        elif others:
            yield f"`{path}`: a list matches texts only; {others!r} match nothing"
        elif not want:
            yield f"`{path}`: an empty list matches nothing"
    elif not isinstance(want, _SCALARS):
        yield f"`{path}`: a {type(want).__name__} is never equal to what JSON holds; quote it"


def _map_test(want: Mapping[str, Any]) -> Test:
    tests = [(key, compile_predicate(inner)) for key, inner in want.items()]

    def matches(have: Any) -> bool:
        found = have if type(have) is dict else _as_map(have)
        if found is None:
            return False
        get = found.get
        return all(test(get(key)) for key, test in tests)

    return matches


def _as_map(have: Any) -> Any:
    """A map, or a text that parses as a JSON map; of DataHub's records, what stands for the map that JSON has."""
    as_map = getattr(have, "as_map", None)
    if as_map is not None:
        return as_map()
    have = _plain(have)
    if isinstance(have, dict):
        return have
    if isinstance(have, str) and have.lstrip()[:1] == "{":  # spares most texts a failed parse
        try:
            parsed = json.loads(have)
        except (ValueError, RecursionError):
            return None
        return parsed if isinstance(parsed, dict) else None
    return None


def _plain(have: Any) -> Any:
    """`have` as its JSON text would give it back (bytes as text, tuples as lists)."""
    if type(have) in _PLAIN:
        return have
    if type(have) is bytes:
        return json_default(have)
    return orjson.loads(orjson.dumps(have, default=json_default, option=orjson.OPT_NON_STR_KEYS))
