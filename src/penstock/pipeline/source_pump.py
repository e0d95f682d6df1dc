"""Drives a source's `events` in a thread of its own, one event each time one is wanted, as DataHub's loop does."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True, frozen=True)
class Over:
    """`events` has come to its end, or has raised."""

    error: BaseException | None = None


class SourcePump(threading.Thread):
    """Code behind a source's `yield` runs only when the event before is finished: many sources count on that."""

    def __init__(self, source: Any, name: str) -> None:
        super().__init__(name=f"source-{name}", daemon=True)
        self._source = source
        self._orders: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._given: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._wanted = False
        self._stopping = False

    def run(self) -> None:
        try:
            events = iter(self._source.events())
            while self._orders.get():
                try:
                    envelope = next(events)
                except StopIteration:
                    break
                self._given.put(envelope)
            else:
                _run_out(events)
        except BaseException as error:  # noqa: BLE001 - whatever user code raises ends this pipeline alone
            self._given.put(Over(error))
        else:
            self._given.put(Over())

    def pull(self, timeout: float) -> Any:
        """The next envelope, or `Over`; None when nothing came in time: what comes later is given next."""
        if not self._wanted:
            self._wanted = True
            self._orders.put(True)
        try:
            given = self._given.get(timeout=max(0.0, timeout))
        except queue.Empty:
            return None
        # Once over it stays over: another order would never be answered.
        self._wanted = isinstance(given, Over)
        return given

    def stop(self) -> None:
        """Ask the source to end; its thread ends when it does."""
        if not self._stopping:
            self._stopping = True
            ask = getattr(self._source, "request_stop", None)
            if callable(ask):
                with contextlib.suppress(Exception):
                    ask()
            self._orders.put(False)


def _run_out(events: Iterator[Any]) -> None:
    """A source that stops runs what it has behind its loop; an event that it still gives comes again next time."""
    if next(events, None) is not None and callable(close := getattr(events, "close", None)):
        close()
