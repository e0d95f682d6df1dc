"""Reads DataHub's `failed_events.log`: one envelope text per line, without the record's own bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from penstock.core.errors import ConfigError

_WANTED = '{ "event_type": …, "event": …, "meta": … }'


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedEnvelope:
    """An event as DataHub kept it."""

    line: int
    event_type: str
    event: Any
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None


def read_failed_events(path: Path) -> Iterator[FailedEnvelope]:
    """The envelopes of a file, in order; a line that is none raises `ConfigError` with its number. Empty lines do not
    count."""
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, 1):
                if raw.strip():
                    yield _envelope(path, number, raw)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}", received=str(path)) from error


def _envelope(path: Path, number: int, raw: bytes) -> FailedEnvelope:
    try:
        data = msgspec.json.decode(raw)
        # `meta` may be null where it had no form as JSON, and be missing altogether.
        kafka = ((data.get("meta") or {}).get("kafka")) or {}
        return FailedEnvelope(
            line=number,
            event_type=data["event_type"],
            event=data["event"],
            topic=kafka.get("topic"),
            partition=kafka.get("partition"),
            offset=kafka.get("offset"),
        )
    except (msgspec.DecodeError, UnicodeDecodeError, AttributeError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{path}, line {number}: this is no envelope of a failed event",
            allowed=_WANTED,
            hint="DataHub appends whole lines; the last one may have been cut off when its process died",
        ) from error
