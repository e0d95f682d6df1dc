"""Mutation proof: mistakes put into the driver on purpose. A simulation that does not find them proves nothing.

Each mutation replaces one method of the driver (the seam that it names) for as long as the context is open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from penstock.engine.pipelines.group import _Callbacks
from penstock.engine.pipelines.outcomes import OutcomeHandler
from penstock.engine.pipelines.partitions import PartitionState
from penstock.kafka.group_consumer import GroupConsumer
from tests.simulation.schedule import Schedule
from tests.simulation.world import World


@dataclass(frozen=True, slots=True)
class Mutation:
    name: str
    seam: str
    apply: Callable[[], Any]
    """A context manager."""
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
    Mutation("no epoch check", "OutcomeHandler._current", _no_epoch_check),
    Mutation("no cursor comparison", "the target's compare-and-set", _nothing, tweak=_compares_nothing),
    Mutation(
        "next offset off by one",
        "PartitionState.advance",
        lambda: _advance_with(lambda part: replace(part, next_offset=part.next_offset + 1)),
    ),
    Mutation(
        "pending offset dropped", "PartitionState.advance", lambda: _advance_with(lambda part: replace(part, pending=()))
    ),
    Mutation("late callback accepted", "_Callbacks.detach, GroupConsumer._callback", _late_callback_accepted),
    Mutation("in-flight log trusted as done", "OutcomeHandler._suspect", _in_flight_trusted_as_done),
    Mutation("accounting check removed", "OutcomeHandler._account", _no_account_check, change=_with_skips),
)
