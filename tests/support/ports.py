"""Free loopback ports for servers that tests start."""

from __future__ import annotations

import random
import socket

_given: set[int] = set()


def free_port() -> int:
    """A port nobody listens on, never given twice.

    Below the range of ephemeral ports: a restarted server must find its port again, and a client could take one there.
    """
    while True:
        port = random.randrange(15_000, 32_000)
        if port in _given:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        _given.add(port)
        return port


def accepts(port: int) -> bool:
    """Whether something listens on this loopback port."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0
