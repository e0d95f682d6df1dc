"""Validation of a plug-in's own `config` against its model, with errors that name key, value and what is allowed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from penstock.core.errors import ConfigError
from penstock.core.loading import did_you_mean
from penstock.core.secrets import is_secret_key

M = TypeVar("M", bound=BaseModel)


def parse_config(model: type[M], config: Mapping[str, Any], what: str) -> M:
    """`config` as its model, or a `ConfigError` about its first mistake that counts them all."""
    try:
        return model.model_validate(dict(config))
    except ValidationError as error:
        raise _config_error(model, error, what) from None  # the cause would show the input, secrets included


def check_config(cls: type, config: Mapping[str, Any] | None) -> None:
    """Refuse what `create` would refuse, without creating anything; what has no `config_model` is not looked into."""
    model = getattr(cls, "config_model", None)
    if model is not None:
        parse_config(model, config or {}, getattr(cls, "type_name", cls.__name__))


def _config_error(model: type[BaseModel], error: ValidationError, what: str) -> ConfigError:
    # A mistyped key is the cause of the one that is missing: it comes first.
    problems = sorted(error.errors(include_url=False), key=lambda problem: problem["type"] != "extra_forbidden")
    first = problems[0]
    lines = [_sentence(problem) for problem in problems]
    received = None if _hidden(first) or first["type"] == "missing" else first["input"]
    allowed: object = None
    hint = None
    if first["type"] == "extra_forbidden":
        allowed = sorted(model.model_fields)
        hint = did_you_mean(str(first["loc"][-1]), sorted(model.model_fields)) or f"allowed are: {', '.join(allowed)}"
    elif "expected" in first.get("ctx", {}):
        allowed = first["ctx"]["expected"]
    return ConfigError(f"{what}: " + "; ".join(lines), received=received, allowed=allowed, hint=hint)


def _sentence(problem: Any) -> str:
    key = ".".join(str(part) for part in problem["loc"]) or "config"
    if problem["type"] == "missing":
        return f"`{key}` is required"
    if problem["type"] == "extra_forbidden":
        return f"`{key}` is not a key of this plug-in"
    if problem["type"] == "value_error":
        return f"`{key}`: {problem['msg'].removeprefix('Value error, ')}"
    message = problem["msg"]
    if _hidden(problem) or isinstance(problem["input"], (dict, list)):
        return f"`{key}`: {message}"
    return f"`{key}`: {message}, received {problem['input']!r}"


def _hidden(problem: Any) -> bool:
    """I8: headers and environments hold secrets under any name."""
    keys = [str(part) for part in problem["loc"]]
    return any(key in {"headers", "env", "config"} or is_secret_key(key) for key in keys)
