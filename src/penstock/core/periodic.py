"""A loop that does one thing at a fixed interval until it is stopped."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from penstock.core.threads import THREADS, Thread, Threads

log = structlog.get_logger("penstock.periodic")


class Periodic:
    """Runs `step` every `every` seconds in a thread of its own. An exception is logged and the loop goes on."""

    def __init__(
        self,
        name: str,
        step: Callable[[], None],
        *,
        every: float,
        owner: str,
        last: Callable[[], None] | None = None,
        threads: Threads = THREADS,
    ) -> None:
        """`last` runs once in the loop's thread after it was stopped."""
        self._name, self._step, self._every, self._owner, self._last = name, step, every, owner, last
        self._threads = threads
        self._wake = threads.event()
        self._stopping = False
        self._thread: Thread | None = None

    def start(self) -> None:
        self._thread = self._threads.start(self._name, self._run, owner=self._owner, ends="at `stop`")

    def wake(self) -> None:
        """Run the next step now."""
        self._wake.set()

    def stop(self, timeout: float = 0.0) -> bool:
        """End the loop; True when it has ended within `timeout` seconds. A step that hangs is not waited for longer."""
        self._stopping = True
        self._wake.set()
        if self._thread is not None and timeout > 0:
            self._thread.join(timeout)
        return not self.is_alive

    @property
    def is_alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _run(self) -> None:
        while True:
            self._wake.wait(self._every)
            self._wake.clear()
            if self._stopping:
                break
            self._guarded(self._step)
        if self._last is not None:
            self._guarded(self._last)

    def _guarded(self, step: Callable[[], None]) -> None:
        try:
            step()
        except Exception:
            # L3: a fault of one step must not end the loop.
            log.exception("a periodic task failed; it goes on", task=self._name)
