"""The store: dead letters, mirrored offsets, first starts, desired states and history; and its outages.

Rules modelled: a dead letter is unique by (pipeline, topic id, partition, offset) and durable when `record` returns;
first starts are inserted if absent, so that the first writer decides; while the store is away every call fails.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from penstock.core.dead_letter import DeadLetter
from penstock.kafka.group_consumer import Commit
from penstock.store.errors import StoreUnavailable
from tests.simulation.scheduler import Process

if TYPE_CHECKING:
    from tests.simulation.world import World

Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the operator wants of a pipeline."""

    state: Literal["running", "paused", "stopped", "failed"] = "running"
    held: bool = False
    """True: offsets are being reset; every instance stays out of the group."""
    restarts: int = 0
    revision: int = 0


@dataclass(frozen=True, slots=True)
class FirstStartRow:
    """What a group's first start found: the number of partitions by topic id."""

    time: float
    at_ms: int
    topics: dict[str, int]
    by: str


@dataclass(slots=True)
class SimStore:
    """The database itself; instances use it through `StoreView`."""

    world: World
    away: bool = False
    letters: dict[tuple[str, str, int, int], DeadLetter] = field(default_factory=dict)
    mirror: dict[tuple[str, Place], tuple[str, Commit]] = field(default_factory=dict)
    """By group and partition: topic id and commit."""
    first_starts: dict[str, FirstStartRow] = field(default_factory=dict)
    """By group."""
    desired: dict[str, Wanted] = field(default_factory=dict)
    notes: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)

    def wanted(self, pipeline: str) -> Wanted:
        return self.desired.get(pipeline, Wanted())

    def want(self, pipeline: str, **changes: Any) -> None:
        now = self.wanted(pipeline)
        self.desired[pipeline] = replace(now, revision=now.revision + 1, **changes)

    def has_letters_above(self, pipeline: str, place: Place, committed: Mapping[Place, Commit]) -> bool:
        """Whether dead letters are stored for offsets that are not committed yet."""
        topic = self.world.log.topics.get(place[0])
        start = committed[place].offset if place in committed else 0
        return topic is not None and any(
            key[:3] == (pipeline, topic.id, place[1]) and key[3] >= start for key in self.letters
        )


class StoreView:
    """The store as one instance reaches it."""

    def __init__(self, world: World, process: Process) -> None:
        self._world, self._process = world, process

    def ask(self) -> SimStore:
        world = self._world
        world.network.call(self._process)
        if world.store.away:
            if world.rng.random() < 0.3:
                world.network.wait_out(1.0)
            raise StoreUnavailable("the store does not answer")
        return world.store

    def record(self, letters: Sequence[DeadLetter]) -> None:
        """Insert dead letters; what is there already stays as it is."""
        store = self.ask()
        for letter in letters:
            key = (letter.pipeline, letter.topic_id, letter.partition, letter.offset)
            if key not in store.letters:
                store.letters[key] = letter
                self._world.judge.dead_letter(letter, str(self._process))
        self._world.hook("after settle", self._process)

    def mirrored(self, group: str) -> dict[Place, tuple[str, Commit]]:
        return {place: row for (name, place), row in self.ask().mirror.items() if name == group}

    def mirror(self, group: str, rows: Mapping[Place, tuple[str, Commit]]) -> None:
        store = self.ask()
        for place, (topic_id, commit) in rows.items():
            before = store.mirror.get((group, place))
            if before is None or before[0] != topic_id or before[1].offset <= commit.offset:
                store.mirror[group, place] = (topic_id, commit)

    def first_start(self, group: str, topics: Mapping[str, int], at_ms: int) -> FirstStartRow:
        """The group's first start; the first caller decides what it was."""
        store, me, now = self.ask(), str(self._process), self._world.now
        row = store.first_starts.setdefault(group, FirstStartRow(now, at_ms, dict(topics), me))
        if row.by != me and now - row.time < 5.0:
            self._world.situations.reach("first start of two instances together")
        return row

    def wanted(self) -> dict[str, Wanted]:
        return dict(self.ask().desired)

    def note(self, pipeline: str, kind: str, data: dict[str, Any]) -> None:
        self.ask().notes.append((pipeline, kind, data))
        if kind == "gap":
            self._world.situations.reach("gap")
