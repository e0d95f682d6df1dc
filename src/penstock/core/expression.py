"""CEL expressions over an event, or over the state of a run, compiled once.

Reading a field that the event does not have is an error, which fails the event; `has(event.a.b)` asks first, and
`has(event.a) ? event.a : 0` gives a default. A field whose value is null is there: `has` is true and it equals `null`.
"""

from __future__ import annotations

import datetime as dt
import re
import uuid
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final

import cel
from cel.stdlib import STDLIB_FUNCTIONS
from pydantic import AfterValidator

from penstock.core.errors import ConfigError, PenstockError, Terminal
from penstock.core.event import Body, Event
from penstock.core.fields import Tree, only, tree_of
from penstock.core.loading import did_you_mean

_NATIVE = frozenset(
    "all bytes contains double duration dyn endsWith exists exists_one filter getDate getDayOfMonth getDayOfWeek "  # noqa: SIM905 - a list literal takes a line per word
    "getDayOfYear getFullYear getHours getMilliseconds getMinutes getMonth getSeconds has hasValue int map matches "
    "none of optional orValue size startsWith string timestamp type uint value".split()
)
"""Functions of the evaluator itself; its library's run in Python and are handed in where a program names them."""
_NAMESPACES = frozenset(name.partition(".")[0] for name in STDLIB_FUNCTIONS if "." in name) | {"optional"}
MAX_LENGTH: Final = 10_000
MAX_OPERATORS: Final = 500
_OPERATOR = re.compile(r"[.\[({?+\-*/%!<>=&|]|\bin\b")
_BOUND = re.compile(r"\.\s*(?:all|exists|exists_one|map|filter)\s*\(\s*(\w+)\s*,")
_LITERAL = re.compile(r"""[rb]*("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')""", re.IGNORECASE)


_EVENT = re.compile(r"(?<![\w.])event((?:\s*\.\s*[A-Za-z_]\w*)*)")
_UNUSUAL = re.compile(r"""//|[rR]["']|\"\"\"|'''|\.\s+event\b""")
"""Comments and raw or triple-quoted texts: too much for the patterns here, so such programs get the whole event."""


class ExpressionError(PenstockError, Terminal):
    """An expression cannot be evaluated for this event."""

    code = "expression"


def _text(raw: bytes | None) -> str | bytes | None:
    if raw is None:
        return None
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def _headers(event: Event) -> dict[str, Any]:
    return {name: _text(value) for name, value in event.headers}


def _value(event: Event) -> Any:
    body = event.event
    if isinstance(body, Body):
        return event.value
    to_obj = getattr(body, "plain", None) or getattr(body, "to_obj", None)
    return to_obj() if to_obj else body


_VARIABLES: dict[str, Callable[[Event], Any]] = {
    "event": _value,
    "key": lambda event: _text(event.key),
    "headers": _headers,
    "topic": lambda event: event.record.topic(),
    "partition": lambda event: event.record.partition(),
    "offset": lambda event: event.record.offset(),
    "timestamp": lambda event: event.timestamp,
    "event_type": lambda event: event.event_type,
    "meta": lambda event: event.meta,
}


class Expression:
    """A compiled expression; call it with an event.

    Variables: `event` (the value), `key` and `headers` (text where they are UTF-8, else bytes; a repeated
    header has its last value), `topic`, `partition`, `offset`, `timestamp` (epoch milliseconds), `event_type`, `meta`.
    """

    __slots__ = ("_execute", "_fields", "_functions", "_getters", "source")

    def __init__(self, source: str) -> None:
        self.source = source
        program = _compiled(source)
        names = program.variables()
        _refuse_unknown(source, names, sorted(_VARIABLES), "an event's fields are read as event.{name}")
        self._functions = _functions(source, program.functions(), names)
        self._execute = program.execute
        self._getters = [(name, _VARIABLES[name]) for name in names if name in _VARIABLES]
        self._fields = _event_fields(source)

    def __call__(self, event: Event) -> Any:
        variables = {name: get(event) for name, get in self._getters} | self._functions
        whole = variables.get("event")
        # Handing a value over costs by its size: the evaluator gets the fields that the program reads, and no others.
        if self._fields is not None and type(whole) is dict:
            variables["event"] = only(whole, self._fields)
        try:
            return self._execute(variables)
        except Exception:  # noqa: BLE001 - whatever it was, the whole value decides
            return self._with_whole(variables, whole)

    def _with_whole(self, variables: dict[str, Any], whole: Any) -> Any:
        """Evaluate with all of the event, in types that the evaluator knows; its errors are the event's failure."""
        try:
            return self._execute({name: _known(each) for name, each in (variables | {"event": whole}).items()})
        except KeyError as error:
            raise ExpressionError(
                f"`{self.source}`: there is no field {error}",
                received=self.source,
                hint="has(…) asks whether a field is there",
            ) from None
        except Exception as error:  # noqa: BLE001 - the evaluator raises many types; each is this event's failure
            raise ExpressionError(f"`{self.source}`: {error}", received=self.source) from None


class StateExpression:
    """A compiled expression over `state`, the object that a workflow's steps hand on."""

    __slots__ = ("_execute", "_functions", "source")

    def __init__(self, source: str) -> None:
        self.source = source
        program = _compiled(source)
        names = program.variables()
        _refuse_unknown(source, names, ["state"], "fields of the state are read as state.{name}")
        self._functions = _functions(source, program.functions(), names)
        self._execute = program.execute

    def __call__(self, state: Mapping[str, Any]) -> Any:
        try:
            return self._execute({"state": _known(dict(state))} | self._functions)
        except Exception as error:  # noqa: BLE001 - the evaluator raises many types; each is a failure of this state
            reason = f"there is no field {error}" if isinstance(error, KeyError) else str(error)
            raise ExpressionError(
                f"`{self.source}`: {reason}", received=self.source, hint="has(…) asks whether a field is there"
            ) from None


def _compiled(source: str) -> Any:
    """The program; `ConfigError` where it is none. Every caller of the compiler goes through here.

    The compiler recurses in native code: a chain of some 10,000 operators overflows the stack and ends the process.
    Operators are counted in texts and comments too, because telling these apart takes the compiler itself."""
    operators = len(_OPERATOR.findall(source)) if len(source) <= MAX_LENGTH else 0
    if len(source) > MAX_LENGTH or operators > MAX_OPERATORS:
        raise ConfigError(
            f"the expression `{source[:40]}…` is too long",
            received=f"{len(source):,} characters" + (f", {operators:,} operators" if operators else ""),
            allowed=f"up to {MAX_LENGTH:,} characters and {MAX_OPERATORS} operators, dots and brackets",
            hint="split it into several steps, or use a `python` transform",
        )
    try:
        return cel.compile(source)
    except ValueError as error:
        raise ConfigError(f"`{source}` is not a CEL expression: {_reason(error)}", received=source) from None


def _event_fields(source: str) -> Tree | None:
    """The event's fields that an expression reads; None where it may read any."""
    if _UNUSUAL.search(source):
        return None
    code = _LITERAL.sub('""', source)
    paths = []
    for match in _EVENT.finditer(code):
        names = [name.strip() for name in match[1].split(".")[1:]]
        if code[match.end() :].lstrip().startswith("("):
            names = names[:-1]  # a method of the field before it
        if not names:
            return None
        paths.append(".".join(names))
    return tree_of(paths)


def _known(value: Any) -> Any:
    """The value with dates, times and UUIDs, which Avro has and the evaluator lacks, as their texts."""
    if isinstance(value, dict):
        return {name: _known(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_known(inner) for inner in value]
    if isinstance(value, (dt.time, uuid.UUID)) or type(value) is dt.date:
        return str(value)
    return value


def _refuse_unknown(source: str, names: list[str], known: list[str], advice: str) -> None:
    bound = set(_BOUND.findall(_LITERAL.sub('""', source)))
    unknown = [name for name in names if name not in known and name not in bound and name not in _NAMESPACES]
    if unknown:
        listed = f"known are: {', '.join(known)}"
        raise ConfigError(
            f"`{source}`: there is no variable `{unknown[0]}`",
            received=unknown[0],
            allowed=known,
            hint=did_you_mean(unknown[0], known) or f"{advice.format(name=unknown[0])}; {listed}",
        )


def _functions(source: str, names: list[str], variables: list[str]) -> dict[str, Callable[..., Any]]:
    """The library's functions that the program names, with or without a namespace."""
    wanted: dict[str, Callable[..., Any]] = {}
    for name in names:
        if not name[0].isalpha() or name in _NATIVE:
            continue
        spelled = [name, *(f"{space}.{name}" for space in _NAMESPACES.intersection(variables))]
        found = {spelling: STDLIB_FUNCTIONS[spelling] for spelling in spelled if spelling in STDLIB_FUNCTIONS}
        if not found:
            known = sorted(_NATIVE | STDLIB_FUNCTIONS.keys())
            hint = did_you_mean(name, known) or None
            raise ConfigError(f"`{source}`: there is no function `{name}`", received=name, allowed=known, hint=hint)
        wanted |= found
    return wanted


def _reason(error: Exception) -> str:
    """The parser's own words without its echo of the source."""
    return str(error).partition("ERROR: <input>:")[2].partition("\n")[0] or str(error)


def _checked(source: str) -> str:
    try:
        Expression(source)
    except ConfigError as error:
        raise ValueError(str(error)) from None
    return source


Cel = Annotated[str, AfterValidator(_checked)]
"""A text in a configuration model that must compile."""
