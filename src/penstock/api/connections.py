"""What a server holds at once: so many connections and no more, so that a flood leaves files to the pipelines."""

from __future__ import annotations

import asyncio
import contextlib
import resource
from typing import Any, Final

MOST: Final = 2_000
"""L7: connections of one server, sockets of the console included."""
_FILES: Final = 65_536
"""Open files that a process asks for; consumers, workers and databases need hundreds of them."""


def most_connections() -> int:
    """How many connections a server may hold; the process is allowed more open files where the system lets it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return MOST if soft == resource.RLIM_INFINITY else min(MOST, max(64, soft // 4))


def bounded(protocol: type[asyncio.Protocol], most: int) -> type[asyncio.Protocol]:
    """The HTTP protocol, for at most so many connections. One too many ends the one that has waited longest without a
    whole request, so that those who do ask are answered."""
    waiting: dict[Any, None] = {}

    class Bounded(protocol):  # type: ignore[misc, valid-type]  # whichever parser is installed
        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            waiting[self] = None
            if len(self.connections) > most:
                next(iter(waiting)).transport.abort()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.cycle is not None:
                waiting.pop(self, None)

        def connection_lost(self, exc: Exception | None) -> None:
            waiting.pop(self, None)
            super().connection_lost(exc)

    return Bounded
