"""The store's part of a replay, beside the lanes: dead letters are claimed ahead of them and marked behind them:
the store takes longer over a dead letter than a quick action does."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import TypeVar

import structlog

from penstock.core.backoff import Backoff
from penstock.core.clock import SYSTEM, Clock
from penstock.core.errors import Unavailable
from penstock.core.threads import THREADS, Event, Thread, Threads
from penstock.store import ClaimedLetter, DeadLetters, LetterPlace, Which

log = structlog.get_logger("penstock.replay")

_PAGE = 2_000
_RENEW_EVERY = 10.0
_IDLE = 0.5
_MARKED_BEHIND = 2
"""Windows whose dead letters are not marked yet: so many are repeated after a kill, and the one in flight."""

T = TypeVar("T")
Say = Callable[[str | None], None]


class _StoreThread(ABC):
    """Works with the store until `end`; while the store does not answer, it reports that and waits."""

    def __init__(self, name: str, say: Say, clock: Clock, threads: Threads) -> None:
        self._name, self._say, self._clock, self._threads = name, say, clock, threads
        self._ending = threads.event()
        self._until: float | None = None
        self._thread: Thread | None = None
        self.error: Exception | None = None
        """What ended it, besides an outage."""

    def start(self) -> None:
        self._thread = self._threads.start(self._name, self._run, owner=type(self).__name__, ends="at `end`")

    def end(self, within: float | None = None) -> None:
        """Finish what there is to do, within this many seconds if the store does not answer, and wait for it."""
        self._until = None if within is None else self._clock.monotonic() + within
        self._ending.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
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
        away = Backoff(clock=self._clock)
        while True:
            try:
                done = act()
            except Unavailable as error:
                if self._until is not None and self._clock.monotonic() >= self._until:
                    log.warning("the store was not reached; claims run out by themselves", reason=str(error))
                    return None
                self._say(f"the store does not answer: {error}")
                if self._ending.is_set():
                    self._clock.sleep(_IDLE)
                else:
                    self._ending.wait(away.fail())
            else:
                if away.failures:
                    self._say(None)
                return done


class Claiming(_StoreThread):
    """Claims the next dead letters whenever there is room for them, and keeps all claims alive."""

    def __init__(
        self,
        letters: DeadLetters,
        which: Which,
        by: str,
        *,
        wanted: Callable[[], bool],
        take_in: Callable[[list[ClaimedLetter]], None],
        say: Say,
        clock: Clock = SYSTEM,
        threads: Threads = THREADS,
    ) -> None:
        super().__init__("replay-claims", say, clock, threads)
        self._letters, self._which, self._by = letters, which, by
        self._wanted, self._take_in = wanted, take_in
        self._after: LetterPlace | None = None
        self._renew_at = clock.monotonic() + _RENEW_EVERY
        self._room = threads.event()
        self.complete = False
        """There are no further dead letters."""

    def claim(self) -> None:
        """One page; claims go forward only, so no dead letter comes twice."""
        page = self._letters.claim_records(self._which, by=self._by, limit=_PAGE, after=self._after)
        if page:
            self._after = page[-1].place
            self._take_in(page)
        else:
            self.complete = True

    def begin(self, stop: Event) -> None:
        """The first page, once the store answers, or none when `stop` is set; then on a thread of its own."""
        away = Backoff(clock=self._clock)
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
        # Set first: the thread may wait for room.
        self._ending.set()
        self._room.set()
        super().end(within)

    def _work(self) -> None:
        while not self._ending.is_set():
            if self._clock.monotonic() >= self._renew_at:
                self._durably(lambda: self._letters.renew(self._by))
                self._renew_at = self._clock.monotonic() + _RENEW_EVERY
            elif not self.complete and self._wanted():
                self._durably(self.claim)
            else:
                self._room.wait(_IDLE)
                self._room.clear()


class Marking(_StoreThread):
    """Marks what windows have done, in their order."""

    def __init__(self, say: Say, *, clock: Clock = SYSTEM, threads: Threads = THREADS) -> None:
        super().__init__("replay-marks", say, clock, threads)
        self._changed = threads.condition()
        self._marks: deque[Callable[[], None]] = deque()

    def put(self, mark: Callable[[], None]) -> None:
        """Blocks where the store cannot keep up. L7: at most a few windows are not marked."""
        with self._changed:
            while len(self._marks) >= _MARKED_BEHIND and self.error is None:
                self._changed.wait(_IDLE)
            if self.error is not None:
                raise self.error
            self._marks.append(mark)
            self._changed.notify_all()

    def end(self, within: float | None = None) -> None:
        self._ending.set()
        with self._changed:
            self._changed.notify_all()
        super().end(within)

    def _work(self) -> None:
        while (mark := self._next()) is not None:
            self._durably(mark)

    def _next(self) -> Callable[[], None] | None:
        """The next mark; None: it is to end, and there is no more."""
        with self._changed:
            while not self._marks:
                if self._ending.is_set():
                    return None
                self._changed.wait(_IDLE)
            mark = self._marks.popleft()
            self._changed.notify_all()
            return mark
