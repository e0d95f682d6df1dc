"""Log lines of runs: what steps print and log, scrubbed of secrets and bounded, each with its place in time."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, Final, Literal, TextIO

from penstock.core.clock import SYSTEM, Clock
from penstock.core.ids import new_id
from penstock.core.secrets import Scrubber
from penstock.store.work.results import LogLine

Level = Literal["success", "always", "info", "warn", "error", "debug"]

JOB: Final = "JOB"
"""Source of lines that a step wrote,"""
RUNTIME: Final = "R/T"
"""and of those that tell about it."""

_LINE: Final = 10_000
"""Characters of a line that are kept."""
_LINES: Final = 10_000
"""Lines of a run that are kept: one that prints without end must not fill the store."""
_CUT: Final = " … (cut)"

_current: ContextVar[StepLog | None] = ContextVar("penstock_step_log", default=None)
_lock = threading.Lock()
_installed: list[Any] = []


class RunLog:
    """The lines of one run; handed on as they come."""

    def __init__(
        self,
        run: str,
        scrubber: Scrubber,
        keep: Callable[[LogLine], None],
        *,
        of_steps: bool = True,
        clock: Clock = SYSTEM,
    ) -> None:
        """`of_steps`: whether what steps write is kept; what is said about them always is."""
        self._run, self._scrubber, self._keep = run, scrubber, keep
        self._of_steps, self._clock = of_steps, clock
        self._count = 0
        self._last = 0

    def write(self, step: str | None, source: str, level: Level, text: str) -> None:
        """Add a text, line by line."""
        if source == JOB and not self._of_steps:
            return
        for line in text.splitlines() or [""]:
            if self._count < _LINES:
                self._add(step, source, level, line)
            elif self._count == _LINES:
                self._add(step, RUNTIME, "warn", f"further lines are dropped: a run may write {_LINES}")

    def _add(self, step: str | None, source: str, level: Level, line: str) -> None:
        self._count += 1
        # I8: before it is cut, or half of a secret could remain.
        said = self._scrubber.scrub(line)
        # Two lines never have the same time, so that they stay in order.
        self._last = max(self._clock.now_us(), self._last + 1)
        message = said if len(said) <= _LINE else said[:_LINE] + _CUT
        self._keep(
            LogLine(
                id=new_id(),
                run_id=self._run,
                step_id=step,
                source=source,
                level=level,
                message=message,
                timestamp=self._last,
            )
        )


class StepLog:
    """The lines that one step writes, by `print` and by `logging`."""

    def __init__(self, log: RunLog, step: str) -> None:
        self._log, self._step = log, step
        self._begun = ""

    def add(self, level: Level, text: str) -> None:
        self._log.write(self._step, JOB, level, text)

    def printed(self, text: str) -> None:
        """A piece of text; lines are complete at their line feed."""
        whole, feed, rest = (self._begun + text).rpartition("\n")
        self._begun = rest
        if feed:
            self.add("info", whole)
        elif len(rest) > _LINE:
            self.close()

    def close(self) -> None:
        """The last line may lack its line feed."""
        if self._begun:
            self.add("info", self._begun)
            self._begun = ""


@contextlib.contextmanager
def captured(log: StepLog) -> Iterator[None]:
    """While this is entered, what the calling thread prints and logs are lines of the step."""
    _install()
    token = _current.set(log)
    try:
        yield
    finally:
        _current.reset(token)
        log.close()


def _install() -> None:
    """Once per process: threads outside of steps print and log as before."""
    with _lock:
        if _installed and sys.stdout is _installed[0]:
            return
        streams = _Divided(sys.stdout), _Divided(sys.stderr)
        sys.stdout, sys.stderr = streams
        if not _installed:
            root = logging.getLogger()
            root.addHandler(_Handler())
            # Without this `logging.info` of a step would say nothing.
            root.setLevel(min(root.level or logging.INFO, logging.INFO))
        _installed[:] = streams


class _Divided:
    """A stream whose text goes to the step that the writing thread is in, or to where it went before."""

    def __init__(self, plain: TextIO) -> None:
        self._plain = plain

    def write(self, text: str) -> int:
        log = _current.get()
        if log is None:
            return self._plain.write(text)
        log.printed(text)
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plain, name)


class _Handler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        log = _current.get()
        if log is None:
            return
        try:
            log.add(_level(record.levelno), self.format(record))
        except Exception:  # noqa: BLE001 - a line that cannot be formatted must not fail the step, as with `logging` itself
            self.handleError(record)


def _level(number: int) -> Level:
    if number >= logging.ERROR:
        return "error"
    if number >= logging.WARNING:
        return "warn"
    return "info" if number >= logging.INFO else "debug"
