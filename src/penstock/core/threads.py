"""Threads and everything they block on, made in one place.

Driver code takes a `Threads` as an argument. The real one starts operating-system threads; the simulation has one that
runs the same code as coroutines of one thread, on simulated time, in an order that a seed decides. For that to work,
driver code blocks only in what is made here and in `Clock.sleep`, and never while it holds a lock made here (other
than the one of the condition it waits on).
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")


class Lock(Protocol):
    """A reentrant lock."""

    def __enter__(self) -> object: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None, /
    ) -> object: ...


class Condition(Lock, Protocol):
    def wait(self, timeout: float | None = None) -> bool: ...
    def notify_all(self) -> None: ...


class Event(Protocol):
    def is_set(self) -> bool: ...
    def set(self) -> None: ...
    def clear(self) -> None: ...
    def wait(self, timeout: float | None = None) -> bool: ...


class Mailbox(Generic[T]):
    """An unbounded queue with one reader. L7: what writes into it is bounded by the units in flight."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[T] = queue.SimpleQueue()

    def put(self, item: T) -> None:
        self._queue.put(item)

    def get(self, timeout: float = 0.0) -> T | None:
        """The next item; None when there is none within `timeout` seconds."""
        try:
            return self._queue.get(timeout=timeout) if timeout > 0 else self._queue.get_nowait()
        except queue.Empty:
            return None


class Thread(Protocol):
    @property
    def name(self) -> str: ...
    def is_alive(self) -> bool: ...
    def join(self, timeout: float | None = None) -> None: ...


@dataclass(frozen=True, slots=True)
class ThreadEntry:
    """One thread of the process, for the architecture page and for debugging."""

    name: str
    owner: str
    ends: str


class Threads:
    """The registry of this process's threads."""

    def __init__(self) -> None:
        self._entries: list[tuple[threading.Thread, ThreadEntry]] = []
        self._guard = threading.Lock()

    def start(self, name: str, target: Callable[[], None], *, owner: str, ends: str) -> Thread:
        """Run `target` in a daemon thread. `owner` is the class that has started it, `ends` says when it ends."""
        thread = threading.Thread(target=target, name=name, daemon=True)
        with self._guard:
            self._entries = [entry for entry in self._entries if entry[0].is_alive()]
            self._entries.append((thread, ThreadEntry(name, owner, ends)))
            thread.start()
        return thread

    def alive(self) -> list[ThreadEntry]:
        with self._guard:
            return [entry for thread, entry in self._entries if thread.is_alive()]

    def lock(self) -> Lock:
        return threading.RLock()

    def condition(self) -> Condition:
        return threading.Condition()

    def event(self) -> Event:
        return threading.Event()

    def mailbox(self) -> Mailbox[T]:
        return Mailbox()


THREADS = Threads()
