"""What the home page says: a line per pipeline, the most urgent first, and one sentence on all of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from penstock.console.rates import Pace
from penstock.console.words import share
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
    "paused": 5,
    "stopping": 6,
    "starting": 6,
    "running": 7,
    "idle": 8,
    "stopped": 9,
}
_AT_WORK: Final = ("running", "waiting", "idle")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A pipeline on the home page."""

    pipeline: str
    title: str
    """What people call it."""
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
    def fails(self) -> bool:
        """It goes on, but not all of its events of late went well."""
        return self.state in _AT_WORK and bool(self.pace.error_share)

    @property
    def urgency(self) -> int:
        return min(_URGENCY[self.state], 3 if self.behind else 4 if self.fails else 99)


class Complaint(NamedTuple):
    """A pipeline that the sentence names."""

    pipeline: str
    title: str
    wrong: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """How the pipelines are, in one sentence, and those it is about."""

    level: Level
    sentence: str
    pipelines: tuple[Complaint, ...] = ()
    letters: int = 0
    """Dead letters that nobody has dealt with."""
    orders: str = ""
    """How many work orders have failed within the hour; empty: none has."""


def line_of(status: PipelineStatus, pace: Pace, title: str | None = None) -> Line:
    lags = [place.lag for place in status.partitions if place.lag is not None]
    lag = sum(lags) if lags else None
    return Line(
        pipeline=status.pipeline,
        title=title or status.pipeline,
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
    return state in _AT_WORK and lag >= _BEHIND_EVENTS and lag > rate * _BEHIND_SECONDS


def most_urgent_first(lines: Iterable[Line]) -> list[Line]:
    return sorted(lines, key=lambda line: (line.urgency, -line.dead_letters, line.pipeline))


def verdict(lines: Sequence[Line], orders: str = "") -> Verdict:
    """What a person should know first."""
    if not lines:
        return Verdict("warn", "No pipeline has run yet.", orders=orders)
    letters = sum(line.dead_letters for line in lines)
    broken = [line for line in lines if line.state in ("failed", "invalid")]
    waiting = [line for line in lines if line.state == "waiting"]
    behind = [line for line in lines if line.behind and line.state != "waiting"]
    failing = [line for line in lines if line.fails and line.state != "waiting" and not line.behind]
    named = [*broken, *waiting, *behind, *failing]
    resting = [line for line in lines if line.state in ("paused", "stopped")]
    healthy = len(lines) - len(named) - len(resting)
    words = [_count(healthy, "pipeline") + " healthy" if healthy else "No pipeline is running"] if not named else []
    counted = ((broken, "failed"), (waiting, "waiting"), (behind, "behind"), (failing, "with failing events"))
    words += [f"{len(those)} {word}" for those, word in counted if those]
    if named:
        words[-1] += f" of {_count(len(lines), 'pipeline')}"
        words += [f"{healthy} healthy"] if healthy else []
    words += [f"{len(resting)} at rest"] if resting else []
    level: Level = "bad" if broken else "warn" if named or orders or not healthy else "ok"
    complaints = tuple(Complaint(line.pipeline, line.title, _wrong(line)) for line in named[:_NAMED])
    return Verdict(level, f"{', '.join(words)}.", complaints, letters, orders)


def _wrong(line: Line) -> str:
    if line.state in ("failed", "invalid", "waiting"):
        return line.state
    return f"{line.lag:,} events behind" if line.behind else f"{share(line.pace.error_share)} of recent events failed"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
