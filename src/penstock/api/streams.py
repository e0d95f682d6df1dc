"""Server-sent events: changes as they happen, and records as they come."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Final, Protocol

import orjson
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from penstock.core.errors import PenstockError, Unavailable

STREAM: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "Server-sent events.", "content": {"text/event-stream": {"schema": {"type": "string"}}}}
}
_HEADERS: Final = {"cache-control": "no-store", "x-accel-buffering": "no"}
_MOST: Final = 100
"""Streams at once: each holds a connection, and tails a consumer."""
_KEEP_ALIVE: Final = 15.0
"""Seconds after which a quiet stream says that it lives: proxies end silent connections."""


class TooManyStreams(Unavailable):
    """No more streams are begun now."""

    code = "too_many_streams"


class Following(Protocol):
    """A bounded series that waits for what comes next."""

    def some(self) -> Sequence[BaseModel]:
        """The next ones; none where nothing came for a moment."""

    @property
    def over(self) -> bool:
        """Whether nothing more comes."""

    def close(self) -> None:
        """Let go."""


class _Slots:
    def __init__(self) -> None:
        self._lock, self._taken = threading.Lock(), 0

    def take(self) -> None:
        with self._lock:
            if self._taken >= _MOST:
                raise TooManyStreams("too many streams are open", hint="close some")
            self._taken += 1

    def free(self) -> None:
        with self._lock:
            self._taken -= 1


_slots: Final = _Slots()


def event(name: str, data: object) -> bytes:
    """One event; JSON has no line breaks of its own."""
    body = data.model_dump_json().encode() if isinstance(data, BaseModel) else orjson.dumps(data)
    return b"event: " + name.encode() + b"\ndata: " + body + b"\n\n"


def streamed(following: Following, name: str) -> StreamingResponse:
    """A series as events, until it ends or nobody listens."""
    _slots.take()
    return StreamingResponse(_series(following, name), media_type="text/event-stream", headers=_HEADERS)


async def _series(following: Following, name: str) -> AsyncIterator[bytes]:
    quiet = asyncio.get_running_loop().time()
    try:
        while not following.over:
            found = await run_in_threadpool(following.some)
            now = asyncio.get_running_loop().time()
            if found:
                quiet = now
                yield b"".join(event(name, each) for each in found)
            elif now - quiet >= _KEEP_ALIVE:
                quiet = now
                yield b": still here\n\n"
        yield event("end", {})
    except PenstockError as error:
        yield event("problem", error.as_dict())
    finally:
        _slots.free()
        await run_in_threadpool(following.close)


def watched(look: Callable[[], Mapping[str, object]], every: float, seconds: float) -> StreamingResponse:
    """What `look` says, whenever it says something else than before; each key is an event of its own."""
    _slots.take()
    return StreamingResponse(_changes(look, every, seconds), media_type="text/event-stream", headers=_HEADERS)


async def _changes(look: Callable[[], Mapping[str, object]], every: float, seconds: float) -> AsyncIterator[bytes]:
    said: dict[str, bytes] = {}
    loop = asyncio.get_running_loop()
    quiet, end = loop.time(), loop.time() + seconds
    try:
        while loop.time() < end:
            for name, data in (await run_in_threadpool(look)).items():
                written = event(name, data)
                if said.get(name) != written:
                    said[name], quiet = written, loop.time()
                    yield written
            if loop.time() - quiet >= _KEEP_ALIVE:
                quiet = loop.time()
                yield b": still here\n\n"
            await asyncio.sleep(min(every, max(0.0, end - loop.time())))
        yield event("end", {})
    except PenstockError as error:
        yield event("problem", error.as_dict())
    finally:
        _slots.free()
