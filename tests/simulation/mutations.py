"""Mutation proof: mistakes put into the driver on purpose. A simulation that does not find them proves nothing.

Each mutation replaces one method of the driver (the seam that it names) for as long as the context is open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from penstock.engine.pipelines.group import _Callbacks
from penstock.engine.pipelines.outcomes import OutcomeHandler
from penstock.engine.pipelines.partitions import PartitionState
from penstock.kafka.group_consumer import GroupConsumer
from tests.simulation.campaign import campaign, run
from tests.simulation.instance import MakeDriver
from tests.simulation.judge import Finding
from tests.simulation.schedule import Scene, Schedule, contended_target, late_commits, lost_and_recreated
from tests.simulation.world import World


@dataclass(frozen=True, slots=True)
class Mutation:
    name: str
    seam: str
    apply: Callable[[], Any]
    """A context manager."""
    scene: Scene | None = None
    """Where it shows; None: anywhere."""
    change: Callable[[Schedule], Schedule] = lambda schedule: schedule
    tweak: Callable[[World], None] | None = None


@contextmanager
def _commit_before_settle() -> Iterator[None]:
    settle, commit = OutcomeHandler._settle, OutcomeHandler.commit

    def postponed(self: Any, *args: Any) -> bool:
        self.__dict__.setdefault("postponed", []).append(args)
        return True

    def committed(self: Any) -> None:
        commit(self)
        for args in self.__dict__.pop("postponed", []):
            settle(self, *args)

    with patch.object(OutcomeHandler, "_settle", postponed), patch.object(OutcomeHandler, "commit", committed):
        yield


@contextmanager
def _no_epoch_check() -> Iterator[None]:
    def everything(self: Any, unit: Any, outcome: Any) -> list[Any]:
        return [(state, part) for part in outcome.partitions if (state := self._partitions.get(part.key)) is not None]

    with patch.object(OutcomeHandler, "_current", everything):
        yield


@contextmanager
def _advance_with(change: Callable[[Any], Any]) -> Iterator[None]:
    advance = PartitionState.advance
    with patch.object(PartitionState, "advance", lambda self, part: advance(self, change(part))):
        yield


@contextmanager
def _late_callback_accepted() -> Iterator[None]:
    @contextmanager
    def listener(self: Any) -> Iterator[Any]:
        yield self._listener

    with patch.object(_Callbacks, "detach", lambda self: None), patch.object(GroupConsumer, "_callback", listener):
        yield


@contextmanager
def _in_flight_trusted_as_done() -> Iterator[None]:
    def trusting(self: Any, unit: Any, named: Any, *args: Any, **kwargs: Any) -> None:
        for at in named or ():
            given = unit.assignments[unit.order[at.index]]
            state = self._partitions.current(given.key, given.epoch, given.topic_id)
            if state is not None and at.end > state.next_offset:
                state.next_offset = at.end

    with patch.object(OutcomeHandler, "_suspect", trusting):
        yield


@contextmanager
def _no_account_check() -> Iterator[None]:
    with patch.object(OutcomeHandler, "_account", lambda *_: None):
        yield


@contextmanager
def _nothing() -> Iterator[None]:
    yield


def _with_skips(schedule: Schedule) -> Schedule:
    return replace(schedule, rates=replace(schedule.rates, skips_event=0.1))


def _compares_nothing(world: World) -> None:
    world.target.compares = False


MUTATIONS = (
    Mutation("commit before settle", "OutcomeHandler._settle", _commit_before_settle),
    Mutation("no epoch check", "OutcomeHandler._current", _no_epoch_check, scene=lost_and_recreated),
    Mutation(
        "no cursor comparison",
        "the target's compare-and-set",
        _nothing,
        scene=contended_target,
        tweak=_compares_nothing,
    ),
    Mutation(
        "next offset off by one",
        "PartitionState.advance",
        lambda: _advance_with(lambda part: replace(part, next_offset=part.next_offset + 1)),
    ),
    Mutation(
        "pending offset dropped",
        "PartitionState.advance",
        lambda: _advance_with(lambda part: replace(part, pending=())),
    ),
    Mutation(
        "late callback accepted",
        "_Callbacks.detach, GroupConsumer._callback",
        _late_callback_accepted,
        scene=late_commits,
    ),
    Mutation("in-flight log trusted as done", "OutcomeHandler._suspect", _in_flight_trusted_as_done),
    Mutation("accounting check removed", "OutcomeHandler._account", _no_account_check, change=_with_skips),
)


@dataclass(frozen=True, slots=True)
class Proof:
    mutation: Mutation
    schedules: int
    seconds: float
    finding: str | None
    """None: the mutation was not found."""


def prove(mutation: Mutation, make: MakeDriver, *, seed: int, seconds: float) -> Proof:
    """Look for the mutation. A finding counts where the same schedule without the mutation has none."""
    unmutated = _Unmutated(make)
    with mutation.apply():
        summary = campaign(
            make,
            seed=seed,
            seconds=seconds,
            stop_at=1,
            scene=mutation.scene,
            change=mutation.change,
            tweak=mutation.tweak,
            accept=unmutated,
        )
    found = str(summary.failures[0].findings[0]) if summary.failures else None
    return Proof(mutation, summary.schedules, summary.seconds, found)


class _Unmutated:
    """Runs a schedule once more, with the code as it is."""

    def __init__(self, make: MakeDriver) -> None:
        self._make = make
        self._seams = [(owner, name, getattr(owner, name)) for owner, name in _SEAMS]

    def __call__(self, schedule: Schedule, findings: list[Finding]) -> bool:
        with ExitStack() as stack:
            for owner, name, original in self._seams:
                stack.enter_context(patch.object(owner, name, original))
            return not run(schedule, self._make).judge.findings


_SEAMS: tuple[tuple[type, str], ...] = (
    (OutcomeHandler, "_settle"),
    (OutcomeHandler, "commit"),
    (OutcomeHandler, "_current"),
    (OutcomeHandler, "_suspect"),
    (OutcomeHandler, "_account"),
    (PartitionState, "advance"),
    (_Callbacks, "detach"),
    (GroupConsumer, "_callback"),
)
