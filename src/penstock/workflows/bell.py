"""A bell between the processes of one machine: whoever makes runs rings, and the instance starts them at once."""

from __future__ import annotations

import contextlib
import select
import socket
from pathlib import Path

from penstock.core.clock import SYSTEM

VARIABLE = "PENSTOCK_BELL"
"""Environment variable of workers: where the bell of their instance is."""


class Bell:
    """The instance's end: a datagram socket at a path."""

    def __init__(self, path: str) -> None:
        Path(path).unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._socket.bind(path)
        self._path = path
        # Not `select`, which takes no descriptor above 1023: an instance with many triggers has more.
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)

    def wait(self, seconds: float) -> bool:
        """Whether it was rung, by then or before; however often, it counts once."""
        rung = bool(self._poll.poll(seconds * 1000))
        while rung:
            try:
                self._socket.recv(16)
            except BlockingIOError:
                break
        return rung

    def close(self) -> None:
        self._socket.close()
        Path(self._path).unlink(missing_ok=True)


def ring(path: str | None = None) -> None:
    """Tell the instance that there are runs; where nobody hears it, they are found a little later."""
    path = path or SYSTEM.environ.get(VARIABLE)
    if path:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as caller:
            caller.setblocking(False)
            caller.sendto(b"r", path)
