"""Server-sent events: changes as they happen, and records as they come."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, Protocol, TypeVar

import orjson
from pydantic import BaseModel
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from penstock.core.errors import PenstockError, Unavailable
from penstock.service.access import Actor

T = TypeVar("T")

STREAM: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "Server-sent events.", "content": {"text/event-stream": {"schema": {"type": "string"}}}}
}
_HEADERS: Final = {"cache-control": "no-store", "x-accel-buffering": "no"}
_MOST: Final = 100
"""Streams at once: each holds a connection, and tails a consumer."""
_MOST_EACH: Final = 20
"""Streams of one user or token: nobody keeps the others out."""
_KEEP_ALIVE: Final = 15.0
"""Seconds after which a quiet stream says that it lives: proxies end silent connections."""

_ASKED_EVERY: Final = 1.0
"""Seconds after which whoever listens must still be allowed to."""


_PATIENCE: Final = 30.0
"""Seconds for which a reader may take nothing while there is something: it would hold its stream for ever."""


class TooManyStreams(Unavailable):
    """No more streams are begun now."""

    code = "too_many_streams"


class Following(Protocol):
    """A bounded series that waits for what comes next."""

    def some(self) -> Sequence[Mapping[str, Any]]:
        """The next ones; none where nothing came for a moment."""

    @property
    def over(self) -> bool:
        """Whether nothing more comes."""

    def close(self) -> None:
        """Let go."""


class _Slots:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken: Counter[str] = Counter()

    def take(self, who: str) -> None:
        with self._lock:
            if self._taken[who] >= _MOST_EACH or self._taken.total() >= _MOST:
                raise TooManyStreams(
                    "too many streams are open", allowed=f"{_MOST_EACH} for one user or token", hint="close some"
                )
            self._taken[who] += 1

    def free(self, who: str) -> None:
        with self._lock:
            self._taken[who] -= 1
            self._taken += Counter()  # without those that have none


_slots: Final = _Slots()


def event(name: str, data: object) -> bytes:
    """One event; JSON has no line breaks of its own."""
    body = data.model_dump_json().encode() if isinstance(data, BaseModel) else _json(data)
    return b"event: " + name.encode() + b"\ndata: " + body + b"\n\n"


def _json(data: object) -> bytes:
    try:
        return orjson.dumps(data)
    except TypeError:
        # Texts of events and errors may have half a surrogate in them, which JSON can only name.
        return json.dumps(data).encode()


class _Thread:
    """One of a stream's own: it waits for news most of the time, and a hundred of those would leave none of the threads
    that all requests share."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="stream")

    async def run(self, function: Callable[[], T]) -> T:
        """One after the other, also where nobody waits any more for the one before."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, function)

    def end(self) -> None:
        self._pool.shutdown(wait=False)


class _Stream(StreamingResponse):
    """Events, for which a slot and a thread are held.

    However it ends, all of that is let go of, also where whoever asked has gone before the first event: the series
    itself is not told then, or where it may not wait any more."""

    def __init__(
        self, actor: Actor, series: Callable[[_Thread], AsyncIterator[bytes]], let_go: Callable[[], None] = lambda: None
    ) -> None:
        self._who = actor.user_id or actor.token_id or actor.name
        try:
            _slots.take(self._who)
        except TooManyStreams:
            let_go()
            raise
        self._let_go, self._thread = let_go, _Thread()
        super().__init__(series(self._thread), media_type="text/event-stream", headers=_HEADERS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def patiently(message: Message) -> None:
            async with asyncio.timeout(_PATIENCE):
                await send(message)

        try:
            with contextlib.suppress(TimeoutError):
                await super().__call__(scope, receive, patiently)
        finally:
            _slots.free(self._who)
            try:
                await self._thread.run(self._let_go)
            finally:
                self._thread.end()


def streamed(actor: Actor, following: Following, name: str, may_see: Callable[[], object]) -> StreamingResponse:
    """A series as events, until it ends, nobody listens, or `may_see` raises: asked again and again, for a token may be
    revoked and a role changed meanwhile."""
    return _Stream(actor, partial(_series, following, name, may_see), following.close)


async def _series(
    following: Following, name: str, may_see: Callable[[], object], thread: _Thread
) -> AsyncIterator[bytes]:
    quiet = asked = asyncio.get_running_loop().time()
    try:
        while not following.over:
            found = await thread.run(following.some)
            now = asyncio.get_running_loop().time()
            if now - asked >= _ASKED_EVERY:
                asked = now
                await thread.run(may_see)
            if found:
                quiet = now
                yield b"".join(event(name, each) for each in found)
            elif now - quiet >= _KEEP_ALIVE:
                quiet = now
                yield b": still here\n\n"
        yield event("end", {})
    except PenstockError as error:
        yield event("problem", error.as_dict())


def watched(actor: Actor, look: Callable[[], Mapping[str, object]], every: float, seconds: float) -> StreamingResponse:
    """What `look` says, whenever it says something else than before; each key is an event of its own."""
    return _Stream(actor, partial(_changes, look, every, seconds))


async def _changes(
    look: Callable[[], Mapping[str, object]], every: float, seconds: float, thread: _Thread
) -> AsyncIterator[bytes]:
    said: dict[str, bytes] = {}
    loop = asyncio.get_running_loop()
    quiet, end = loop.time(), loop.time() + seconds
    try:
        while loop.time() < end:
            for name, data in (await thread.run(look)).items():
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
