"""How a process is told to stop. It imports next to nothing, for it stands before everything that takes time."""

from __future__ import annotations

import signal
import threading
from typing import Any, Self


class Stop:
    """Set by SIGTERM, SIGINT or a caller; signals are taken only in the main thread."""

    def __init__(self, asked: threading.Event | None = None) -> None:
        """`asked`: of whoever calls, and perhaps took signals before; one event for both, so that none is missed."""
        self.asked = asked or threading.Event()
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        self.listen()
        return self

    def listen(self) -> None:
        """Take the signals; again after Spark has started, which puts a handler of its own in place."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                before = signal.signal(number, lambda *_: self.asked.set())
                self._before.setdefault(number, before)

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
