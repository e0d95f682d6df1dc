"""The `file` action: appends one JSON line per event, safely from several processes."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import orjson
from pydantic import Field

from penstock.act.appending import Appender
from penstock.config.spec import Model
from penstock.core.declarations import FILE
from penstock.core.errors import ConfigError, PenstockError, Terminal
from penstock.core.event import Body, Event, json_bytes
from penstock.core.plugin import BatchAction, PipelineContext
from penstock.core.plugin_config import parse_config
from penstock.core.sizes import Size


class LineError(PenstockError, Terminal):
    """The event has no form as a JSON line."""

    code = "file-line"


class FileConfig(Model):
    """Keys of the `file` action."""

    path: Annotated[str, FILE]
    """File to append to; a relative path starts at the pipeline file's folder. Missing folders are made."""
    rotate: Size | None = None
    """A file that would grow beyond this is renamed to `path.1`, `path.2`, … (the highest is the newest)."""
    mode: str = Field(default="0600", pattern=r"^0?[0-6][0-6][0-4]$")
    """Rights of new files, in octal: events may be private, so only the owner reads them unless this says otherwise
    (`"0640"`: also the group). Files that exist keep theirs."""
    fsync: bool = False
    """True: each batch waits until the disk has it, so that a power cut loses nothing either."""


class File(BatchAction):
    """Appends `{event_type, event, meta: {kafka: {topic, partition, offset, key, timestamp, headers}}}` per event.

    Key and header values (and a value that is raw bytes) are text where they are UTF-8, else `{"base64": "…"}`;
    headers are `[name, value]` pairs, so that repeats and order stay.
    """

    parallel_safe: ClassVar[bool] = True
    config_model: ClassVar[type[FileConfig]] = FileConfig
    type_name: ClassVar[str] = "file"

    def __init__(self, appender: Appender) -> None:
        self._appender = appender

    @classmethod
    def create(cls, config: dict[str, Any], ctx: PipelineContext) -> Self:
        parsed = parse_config(FileConfig, config, "file")
        path = (Path(ctx.folder or ".") / Path(parsed.path).expanduser()).absolute()
        try:
            return cls(Appender(path, parsed.rotate, fsync=parsed.fsync, mode=int(parsed.mode, 8)))
        except OSError as error:
            raise ConfigError(f"file: `path` cannot be written to: {error}", received=parsed.path) from error

    def act_batch(self, events: Sequence[Event]) -> list[Exception | None]:
        results: list[Exception | None] = []
        lines: list[bytes] = []
        for event in events:
            try:
                lines.append(_line(event))
                results.append(None)
            except (TypeError, ValueError) as error:
                results.append(LineError(f"the event cannot be written as JSON: {error}"))
        if lines:
            self._appender.append(b"".join(lines))
        return results

    def close(self) -> None:
        self._appender.close()


def _line(event: Event) -> bytes:
    record = event.record
    kafka = {
        "topic": record.topic(),
        "partition": record.partition(),
        "offset": record.offset(),
        "key": _readable(record.key()),
        "timestamp": event.timestamp,
        "headers": [(name, _readable(value)) for name, value in event.headers],
    }
    body = event.event
    value: Any = _readable(event.value) if isinstance(body, Body) else orjson.Fragment(body.as_json())
    line = {"event_type": event.event_type, "event": value, "meta": {**event.meta, "kafka": kafka}}
    return json_bytes(line) + b"\n"


def _readable(value: Any) -> Any:
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}
