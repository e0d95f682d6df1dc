"""A spec as the store keeps it: plain JSON, secrets masked, and the file it came from."""

from __future__ import annotations

import orjson

from penstock.config.spec import PipelineSpec
from penstock.core.errors import ConfigError
from penstock.core.secrets import MASK, Scrubber


def stored(spec: PipelineSpec) -> str:
    """The text to store. I8: no secret is in it, those read from files included."""
    text = orjson.dumps({"file": spec.origin, "spec": spec.shown()}, option=orjson.OPT_NON_STR_KEYS).decode()
    return Scrubber(spec.secrets).scrub(text)


def restored(name: str, text: str) -> PipelineSpec:
    """The spec again; one that has secrets cannot be used without its file."""
    try:
        kept = orjson.loads(text)
        file, content = kept["file"], kept["spec"]
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise _unusable(name, "cannot be read") from error
    if MASK in text:
        raise _unusable(name, f"has its secrets masked{f'; it came from {file}' if file else ''}")
    try:
        return PipelineSpec.model_validate(content).with_origin(file)
    except ValueError as error:
        raise _unusable(name, "is not one that this version accepts") from error


def _unusable(name: str, why: str) -> ConfigError:
    return ConfigError(f"the spec of {name} in the store {why}", received=name, hint="give its file with --config")
