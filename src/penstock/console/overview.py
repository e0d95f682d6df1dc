"""What the home page says: a line per pipeline, the most urgent first, and one sentence on all of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from penstock.console.rates import Pace
from penstock.core.status import PipelineStatus, State

Level = Literal["ok", "warn", "bad"]

_BEHIND_EVENTS: Final = 1_000
_BEHIND_SECONDS: Final = 60.0
"""A pipeline is behind when it would need longer than this for what waits, and that is not just a handful."""
_NAMED: Final = 3
"""Pipelines that the sentence names; the table shows the others."""
_URGENCY: Final[dict[State, int]] = {
    "failed": 0,
    "invalid": 1,
    "waiting": 2,
    "paused": 4,
    "stopping": 5,
    "starting": 5,
    "running": 6,
    "idle": 7,
    "stopped": 8,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A pipeline on the home page."""

    pipeline: str
    state: State
    reason: str | None
    lag: int | None
    behind: bool
    pace: Pace = field(default_factory=Pace)
    dead_letters: int = 0
    events: int = 0
    failures: int = 0
    status: PipelineStatus

    @property
    def urgency(self) -> int:
        return min(_URGENCY[self.state], 3 if self.behind else 99)


@dataclass(frozen=True, slots=True)
class Verdict:
    """How the pipelines are, in one sentence, and those it is about."""

    level: Level
    sentence: str
    pipelines: tuple[tuple[str, str], ...] = ()
    """Name, and what is wrong with it."""


def line_of(status: PipelineStatus, pace: Pace) -> Line:
    lags = [place.lag for place in status.partitions if place.lag is not None]
    lag = sum(lags) if lags else None
    return Line(
        pipeline=status.pipeline,
        state=status.state,
        reason=status.reason,
        lag=lag,
        behind=_behind(status.state, lag or 0, pace.rate),
        pace=pace,
        dead_letters=status.dead_letters,
        events=status.events,
        failures=status.failures,
        status=status,
    )


def _behind(state: State, lag: int, rate: float) -> bool:
    return state in ("running", "waiting", "idle") and lag >= _BEHIND_EVENTS and lag > rate * _BEHIND_SECONDS


def most_urgent_first(lines: Iterable[Line]) -> list[Line]:
    return sorted(lines, key=lambda line: (line.urgency, -line.dead_letters, line.pipeline))


def verdict(lines: Sequence[Line]) -> Verdict:
    """What a person should know first."""
    if not lines:
        return Verdict("warn", "No pipeline has run yet.")
    broken = [line for line in lines if line.state in ("failed", "invalid")]
    troubled = [line for line in lines if line.state == "waiting" or (line.behind and line not in broken)]
    resting = [line for line in lines if line.state in ("paused", "stopped")]
    level: Level = "bad" if broken else "warn" if troubled else "ok"
    if level == "ok":
        at_work = len(lines) - len(resting)
        said = f"{_count(at_work, 'pipeline')} healthy" if at_work else "No pipeline is running"
        if resting:
            said += f", {len(resting)} at rest"
        return Verdict("ok" if at_work else "warn", f"{said}.")
    words = [f"{len(broken)} failed"] if broken else []
    waiting = [line for line in troubled if line.state == "waiting"]
    behind = [line for line in troubled if line.state != "waiting"]
    words += [f"{len(waiting)} waiting"] if waiting else []
    words += [f"{len(behind)} behind"] if behind else []
    named = tuple((line.pipeline, _wrong(line)) for line in (*broken, *troubled)[:_NAMED])
    return Verdict(level, f"{', '.join(words)} of {_count(len(lines), 'pipeline')}.", named)


def _wrong(line: Line) -> str:
    if line.state in ("failed", "invalid", "waiting"):
        return line.state
    return f"{line.lag:,} events behind"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
