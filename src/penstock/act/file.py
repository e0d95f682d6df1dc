"""The `file` action: appends one JSON line per event, safely from several processes."""

from __future__ import annotations

import base64
import fcntl
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import orjson

from penstock.config.spec import Model
from penstock.core.errors import ConfigError, PenstockError, Terminal, Unavailable
from penstock.core.event import Body, Event, json_bytes
from penstock.core.plugin import BatchAction, PipelineContext
from penstock.core.plugin_config import parse_config
from penstock.core.sizes import Size


class LineError(PenstockError, Terminal):
    """The event has no form as a JSON line."""

    code = "file-line"


class FileConfig(Model):
    """Keys of the `file` action."""

    path: str
    """File to append to; a relative path starts at the pipeline file's folder. Missing folders are made."""
    rotate: Size | None = None
    """A file that would grow beyond this is renamed to `path.1`, `path.2`, … (the highest is the newest)."""
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

    def __init__(self, path: Path, rotate: int | None, *, fsync: bool) -> None:
        self._path = path
        self._rotate = rotate
        self._fsync = fsync
        self._fd = self._open()

    @classmethod
    def create(cls, config: dict[str, Any], ctx: PipelineContext) -> Self:
        parsed = parse_config(FileConfig, config, "file")
        path = (Path(ctx.folder or ".") / Path(parsed.path).expanduser()).absolute()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            return cls(path, parsed.rotate, fsync=parsed.fsync)
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
            try:
                self._append(b"".join(lines))
            except OSError as error:
                raise Unavailable(f"{self._path} cannot be written to: {error}", received=str(self._path)) from error
        return results

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _open(self) -> int:
        return os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def _append(self, data: bytes) -> None:
        size = self._lock()
        try:
            if self._rotate and size and size + len(data) > self._rotate:
                self._path.rename(self._next_name())
                size = self._lock()
            if size and os.pread(self._fd, 1, size - 1) != b"\n":
                data = b"\n" + data  # a writer died in the middle of its line
            self._write(data, size)
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def _lock(self) -> int:
        """Lock the file that has the path now (another process may have rotated it away) and say how long it is."""
        while True:
            fcntl.flock(self._fd, fcntl.LOCK_EX)
            mine = os.fstat(self._fd)
            try:
                current = self._path.stat()
            except FileNotFoundError:
                current = None
            if current and (mine.st_ino, mine.st_dev) == (current.st_ino, current.st_dev):
                return mine.st_size
            fd = self._open()
            os.close(self._fd)
            self._fd = fd

    def _next_name(self) -> Path:
        prefix = f"{self._path.name}."
        names = (entry.name.removeprefix(prefix) for entry in self._path.parent.glob(f"{self._path.name}.*"))
        return self._path.with_name(prefix + str(max((int(name) for name in names if name.isdecimal()), default=0) + 1))

    def _write(self, data: bytes, size: int) -> None:
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(self._fd, view) :]
            if self._fsync:
                os.fsync(self._fd)
        except OSError:
            os.ftruncate(self._fd, size)  # the batch is written again as a whole; half of it must not stay
            raise


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
