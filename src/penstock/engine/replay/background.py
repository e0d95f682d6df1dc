"""The store's part of a replay, beside the lanes: letters are claimed ahead of them and marked behind them, for the
store takes longer over a letter than a quick action does."""

from __future__ import annotations

import queue
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

import structlog

from penstock.core.backoff import Backoff
from penstock.core.errors import Unavailable
from penstock.store import ClaimedLetter, DeadLetters, LetterPlace, Which

log = structlog.get_logger("penstock.replay")

_PAGE = 2_000
_RENEW_EVERY = 10.0
_IDLE = 0.5
_MARKED_BEHIND = 2
"""Windows whose letters are not marked yet: so many are repeated after a kill, and the one under way."""

T = TypeVar("T")
Say = Callable[[str | None], None]


class _Beside(threading.Thread, ABC):
    """Works with the store until it is told to end; while the store is away, it says so and waits."""

    def __init__(self, name: str, say: Say) -> None:
        super().__init__(name=name, daemon=True)
        self._say = say
        self._ending = threading.Event()
        self._until: float | None = None
        self.error: Exception | None = None
        """What ended it, besides an outage."""

    def end(self, within: float | None = None) -> None:
        """Finish what there is to do, within so many seconds if the store is away, and end."""
        self._until = None if within is None else time.monotonic() + within
        self._ending.set()
        if self.ident is not None:
            self.join()

    def run(self) -> None:
        try:
            self._work()
        except Exception as error:
            log.exception("replay fails")
            self.error = error

    @abstractmethod
    def _work(self) -> None:
        """What the thread is for."""

    def _durably(self, act: Callable[[], T]) -> T | None:
        """None: given up."""
        away = Backoff()
        while True:
            try:
                done = act()
            except Unavailable as error:
                if self._until is not None and time.monotonic() >= self._until:
                    log.warning("the store was not reached; claims run out by themselves", reason=str(error))
                    return None
                self._say(f"the store does not answer: {error}")
                self._ending.wait(away.fail()) if not self._ending.is_set() else time.sleep(_IDLE)
            else:
                if away.failures:
                    self._say(None)
                return done


class Claiming(_Beside):
    """Claims the next letters whenever there is room for them, and keeps all claims alive."""

    def __init__(
        self,
        letters: DeadLetters,
        which: Which,
        by: str,
        *,
        wanted: Callable[[], bool],
        take_in: Callable[[list[ClaimedLetter]], None],
        say: Say,
    ) -> None:
        super().__init__("replay-claims", say)
        self._letters, self._which, self._by = letters, which, by
        self._wanted, self._take_in = wanted, take_in
        self._after: LetterPlace | None = None
        self._renew_at = time.monotonic() + _RENEW_EVERY
        self._room = threading.Event()
        self.complete = False
        """There are no further letters."""

    def claim(self) -> None:
        """One page; claims go forward only, so no letter comes twice."""
        page = self._letters.claim_records(self._which, by=self._by, limit=_PAGE, after=self._after)
        if page:
            self._after = page[-1].place
            self._take_in(page)
        else:
            self.complete = True

    def begin(self, stop: threading.Event) -> None:
        """The first page, once the store answers, or none when it is time to stop; then on a thread of its own."""
        away = Backoff()
        while not stop.is_set():
            try:
                self.claim()
            except Unavailable as error:
                self._say(f"the store does not answer: {error}")
                stop.wait(away.fail())
            else:
                break
        else:
            self.complete = True
        if away.failures:
            self._say(None)
        self.start()

    def look(self) -> None:
        """There may be room again."""
        self._room.set()

    def end(self, within: float | None = None) -> None:
        self._room.set()
        super().end(within)

    def _work(self) -> None:
        while not self._ending.is_set():
            if time.monotonic() >= self._renew_at:
                self._durably(lambda: self._letters.renew(self._by))
                self._renew_at = time.monotonic() + _RENEW_EVERY
            elif not self.complete and self._wanted():
                self._durably(self.claim)
            else:
                self._room.wait(_IDLE)
                self._room.clear()


class Marking(_Beside):
    """Marks what windows have done, in their order."""

    def __init__(self, say: Say) -> None:
        super().__init__("replay-marks", say)
        self._queue: queue.Queue[Callable[[], None]] = queue.Queue(_MARKED_BEHIND)

    def put(self, mark: Callable[[], None]) -> None:
        """Waits where the store cannot keep up."""
        while self.error is None:
            try:
                self._queue.put(mark, timeout=_IDLE)
            except queue.Full:
                continue
            return
        raise self.error

    def _work(self) -> None:
        while not (self._ending.is_set() and self._queue.empty()):
            try:
                mark = self._queue.get(timeout=0.05)
            except queue.Empty:
                continue
            self._durably(mark)
