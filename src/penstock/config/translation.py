"""Turns the models' validation errors into problems in plain words, at the right line, with secrets masked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from penstock.config.documents import Document
from penstock.config.model import ProblemAt
from penstock.config.problems import Path, Problem, did_you_mean, dotted
from penstock.core.declarations import model_in
from penstock.core.secrets import MASK, Scrubber, is_secret_key, masked

_WANTED = {
    "bool": "true or false",
    "date": "a date",
    "dict": "a map",
    "float": "a number",
    "int": "a whole number",
    "list": "a list",
    "model": "a map",
    "string": "a text",
}
_LIMITS = {
    "greater_than": ("above", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("below", "lt"),
    "less_than_equal": ("at most", "le"),
}


def problems_of(
    error: ValidationError, model: type[BaseModel], document: Document, secrets: Iterable[str] = (), under: Path = ()
) -> list[Problem]:
    """One problem per mistake that the models found in a document, or in the part of it `under` a path."""
    scrub = Scrubber(secrets).scrub
    return [_problem(details, model, document, scrub, under) for details in error.errors(include_url=False)]


def _problem(
    details: Mapping[str, Any], model: type[BaseModel], document: Document, scrub: Callable[[str], str], under: Path
) -> Problem:
    cause = details.get("ctx", {}).get("error")
    path: Path = details["loc"]
    received: object = None if details["type"] == "missing" else details["input"]
    if isinstance(cause, ProblemAt):
        path = (*path, *cause.path)
        received = cause.received
    message, allowed, hint = _words(details, model, path)
    secret = any(is_secret_key(str(part)) for part in path)
    shown = masked(received, secret=secret)
    if secret and isinstance(received, str) and received:
        message = message.replace(repr(received), MASK)
    return document.problem(
        (*under, *path),
        scrub(message),
        received=_scrubbed(shown, scrub),
        allowed=tuple(allowed) if allowed else None,
        hint=hint,
    )


def _scrubbed(value: Any, scrub: Callable[[str], str]) -> Any:
    if isinstance(value, dict):
        return {key: _scrubbed(item, scrub) for key, item in value.items()}
    if isinstance(value, list):
        return [_scrubbed(item, scrub) for item in value]
    return scrub(value) if isinstance(value, str) else value


def _words(
    details: Mapping[str, Any], model: type[BaseModel], path: Path
) -> tuple[str, Iterable[str] | None, str | None]:
    kind, context, received = details["type"], details.get("ctx", {}), details["input"]
    cause = context.get("error")
    if isinstance(cause, ProblemAt):
        near = did_you_mean(path[-1], cause.allowed) if cause.allowed and "key" in str(cause) else None
        return str(cause), cause.allowed, cause.hint or near or _listed(cause.allowed)
    if kind == "extra_forbidden":
        known = list(model_at(model, path[:-1]).model_fields)
        return "unknown key", known, _unknown_hint(str(path[-1]), known, model)
    if kind == "missing":
        return "required", None, None
    if kind == "literal_error":
        allowed = _literals(context["expected"])
        return f"{received!r} is none of {', '.join(allowed)}", allowed, did_you_mean(received, allowed)
    if kind == "value_error":
        return str(cause), None, None
    hint = "write it in quotes" if kind == "string_type" and isinstance(received, (int, float)) else None
    return _plain_words(kind, context, received, details["msg"]), None, hint


def _plain_words(kind: str, context: dict[str, Any], received: object, message: str) -> str:
    if kind in _LIMITS:
        word, name = _LIMITS[kind]
        return f"a number {word} {context[name]:g} is wanted, not {received!r}"
    if kind in ("string_too_short", "too_short"):
        return "must not be empty"
    wanted = _WANTED.get(kind.partition("_")[0])
    if wanted is None:
        return message[:1].lower() + message[1:]
    return f"{wanted} is wanted, not {_described(received)}"


def _described(value: object) -> str:
    if isinstance(value, dict):
        return "a map"
    if isinstance(value, (list, tuple)):
        return "a list"
    return "nothing" if value is None else repr(masked(value))


def _listed(allowed: Iterable[str] | None) -> str | None:
    return f"allowed: {', '.join(allowed)}" if allowed else None


def _literals(expected: str) -> list[str]:
    # pydantic writes 'a', 'b' or 'c'
    return [word.strip().strip("'") for word in expected.replace(" or ", ", ").split(",")]


def _unknown_hint(key: str, known: list[str], model: type[BaseModel]) -> str | None:
    # A key that is right elsewhere is more likely misplaced than misspelt; of several places the upper one is meant.
    homes = {path[:-1] for path in key_paths(model) if path[-1] == key}
    upper = [path for path in homes if len(path) == min(map(len, homes))]
    if len(upper) == 1:
        home = dotted(upper[0])
        return f"it belongs {'under ' + home if home else 'at the top'}"
    return did_you_mean(key, known) or _listed(known)


def key_paths(model: type[BaseModel], above: Path = ()) -> Iterator[Path]:
    """The path of every key of a model and the models in it."""
    for name, info in model.model_fields.items():
        yield (*above, name)
        inner = model_in(info.annotation)
        if inner is not None:
            yield from key_paths(inner, (*above, name))


def model_at(model: type[BaseModel], path: Path) -> type[BaseModel]:
    """The model of the map at a path."""
    for part in path:
        info = model.model_fields.get(part) if isinstance(part, str) else None
        model = (model_in(info.annotation) if info else None) or model
    return model
