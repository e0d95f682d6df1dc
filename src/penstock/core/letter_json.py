"""A dead letter as JSON, bit for bit: what files of letters hold."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import msgspec

from penstock.core.dead_letter import DeadLetter, Failure

JsonBytes = dict[str, str] | None

_FAILURE = Failure.__struct_fields__


def bytes_as_json(raw: bytes | None) -> JsonBytes:
    """Bytes as they are: text where they are UTF-8, else base64, never ambiguous."""
    if raw is None:
        return None
    try:
        return {"text": raw.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(raw).decode()}


def bytes_from_json(written: Any) -> bytes | None:
    """The same bytes; `ValueError` where it is something else."""
    if written is None:
        return None
    match written:
        case {"text": str(text), **rest} if not rest:
            return text.encode()
        case {"base64": str(text), **rest} if not rest:
            return base64.b64decode(text, validate=True)
    raise ValueError('null, {"text": …} or {"base64": …} is wanted for bytes')


def letter_as_json(letter: DeadLetter) -> dict[str, Any]:
    """All that a letter says, as plain data."""
    failure = {name: getattr(letter.failure, name) for name in _FAILURE}
    return {
        "pipeline": letter.pipeline,
        "spec_version": letter.spec_version,
        "group": letter.group,
        "topic": letter.topic,
        "topic_id": letter.topic_id,
        "partition": letter.partition,
        "offset": letter.offset,
        "timestamp": letter.timestamp,
        "timestamp_type": letter.timestamp_type,
        "key": bytes_as_json(letter.key),
        "value": bytes_as_json(letter.value),
        "headers": [[name, bytes_as_json(value)] for name, value in letter.headers],
        "failure": failure | {"value_seen": bytes_as_json(letter.failure.value_seen)},
    }


def letter_from_json(data: Mapping[str, Any]) -> DeadLetter:
    """The same letter; `KeyError`, `TypeError` or `ValueError` where the data is not one."""
    given = dict(data) | {
        "key": bytes_from_json(data["key"]),
        "value": bytes_from_json(data["value"]),
        "headers": [(name, bytes_from_json(value)) for name, value in data["headers"]],
        "failure": dict(data["failure"]) | {"value_seen": bytes_from_json(data["failure"]["value_seen"])},
    }
    return msgspec.convert(given, DeadLetter, builtin_types=(bytes,))
