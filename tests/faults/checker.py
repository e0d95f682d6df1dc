"""The checker: reads what was produced, what took effect, what was committed and what became a dead letter, and finds
every breach of a promise. After Jepsen's Kafka checkers.

A run is judged by its history alone; the checker knows nothing of how Penstock works inside. Times are of the machine's
monotonic clock, which all processes of a run share.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, NamedTuple

Place = tuple[str, int]
Kind = Literal[
    "lost",
    "phantom",
    "changed",
    "twofold",
    "duplicated",
    "reordered",
    "overlapping",
    "skipped",
    "backwards",
    "unfinished",
]
_EXAMPLES = 5


class At(NamedTuple):
    """Coordinates of a record."""

    topic: str
    partition: int
    offset: int

    @property
    def place(self) -> Place:
        return self.topic, self.partition


@dataclass(frozen=True, slots=True)
class Produced:
    """A record the broker acknowledged."""

    at: At
    key: str | None
    seq: int


@dataclass(frozen=True, slots=True)
class Effect:
    """One line of the action's log: this event took effect, then and there."""

    at: At
    key: str | None
    seq: int
    time: float
    """When the act ended."""
    pid: int
    began: float | None = None
    """When the act began; None: not known."""
    instance: str = ""
    """The instance that acted."""


@dataclass(frozen=True, slots=True)
class Committed:
    """A committed offset as it was seen at a time, with the pending and next_offset its metadata tells of."""

    place: Place
    offset: int
    time: float
    """When the answer had arrived: what it speaks of had happened by then."""
    next_offset: int | None = None
    pending: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Allowance:
    """What the faults of a run may cause, per partition. A graceful stop or rebalance allows nothing."""

    repeats: int = 0
    """Events that may take effect again, in all."""
    rewinds: int = 0
    """Times that the order may go back to an event that had taken effect before."""

    def __add__(self, other: Allowance) -> Allowance:
        return Allowance(self.repeats + other.repeats, self.rewinds + other.rewinds)

    @classmethod
    def kill(cls, window: int) -> Allowance:
        """I10: kill -9 repeats at most one window per partition."""
        return cls(repeats=window, rewinds=1)

    @classmethod
    def lost_session(cls, window: int, in_flight: int = 1) -> Allowance:
        """As a kill, and what was being acted on when the session was lost may end after its repetition (I4)."""
        return cls(repeats=window + in_flight, rewinds=1 + in_flight)


NOTHING = Allowance()


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault, from its beginning until everything was seen to go on again, and what it may cause per partition."""

    name: str
    began: float
    ended: float
    allowed: Allowance = NOTHING


@dataclass(slots=True)
class History:
    """Everything known about a run."""

    produced: list[Produced] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    """In the order in which they happened."""
    commits: list[Committed] = field(default_factory=list)
    """In the order in which they were seen."""
    dead_letters: set[At] = field(default_factory=set)
    filtered: Callable[[Produced], bool] = lambda _: False
    """Whether the pipeline drops a record."""
    begin: Mapping[Place, int] = field(default_factory=dict)
    """Where the pipeline began; absent: at 0."""


@dataclass(frozen=True, slots=True)
class Breach:
    """One broken promise."""

    kind: Kind
    where: str
    text: str


@dataclass(slots=True)
class Report:
    """The verdict on a run."""

    breaches: list[Breach]
    produced: int
    took_effect: int
    repeats: int
    dead_letters: int
    commits: int

    @property
    def clean(self) -> bool:
        return not self.breaches

    def summary(self) -> str:
        return (
            f"{self.produced} produced, {self.took_effect} took effect, {self.repeats} repeated, "
            f"{self.dead_letters} dead letters, {self.commits} commits seen"
        )

    def __str__(self) -> str:
        lines = [self.summary()]
        by_kind: dict[str, list[Breach]] = defaultdict(list)
        for breach in self.breaches:
            by_kind[breach.kind].append(breach)
        for kind, found in by_kind.items():
            lines.append(f"{kind}: {len(found)}")
            lines += [f"  {breach.where}: {breach.text}" for breach in found[:_EXAMPLES]]
            if len(found) > _EXAMPLES:
                lines.append(f"  and {len(found) - _EXAMPLES} more")
        return "\n".join(lines)


def check(
    history: History,
    *,
    allowed: Allowance = NOTHING,
    faults: Sequence[Fault] | None = None,
    ordering: Literal["partition", "key", "none"] = "partition",
    turns: int | None = None,
    late: int = 0,
    complete: bool = True,
) -> Report:
    """Judge a run. `complete`: the pipeline has caught up, so the last commit must be the end of each partition.

    `faults`: instead of one allowance for the whole run, each repetition must be the consequence of a fault between the
    event's two effects, within what that fault allows. `turns`: how often a partition may pass from one instance to
    another; acts of two instances in it must not overlap, but for `late` acts that were in flight when a session was
    lost.
    """
    breaches = [
        *_lost(history),
        *_false_effects(history),
        *(_repeats(history, allowed) if faults is None else _unexplained_repeats(history, faults)),
        *(_reordered(history, allowed, ordering) if ordering != "none" and faults is None else ()),
        *(_unexplained_order(history, faults or (), ordering) if ordering != "none" and faults is not None else ()),
        *(_overlapping(history, turns, late) if turns is not None else ()),
        *_commits(history),
        *(_unfinished(history) if complete else ()),
    ]
    seen = Counter(effect.at for effect in history.effects)
    return Report(
        breaches,
        produced=len(history.produced),
        took_effect=len(seen),
        repeats=sum(seen.values()) - len(seen),
        dead_letters=len(history.dead_letters),
        commits=len(history.commits),
    )


def assert_kept(
    history: History,
    *,
    allowed: Allowance = NOTHING,
    faults: Sequence[Fault] | None = None,
    ordering: Literal["partition", "key", "none"] = "partition",
    turns: int | None = None,
    late: int = 0,
) -> Report:
    """Fail with a readable report unless everything was kept."""
    report = check(history, allowed=allowed, faults=faults, ordering=ordering, turns=turns, late=late)
    assert report.clean, f"promises broken\n{report}"
    return report


def _wanted(history: History) -> Iterator[Produced]:
    """Records that must have taken effect or become dead letters."""
    for record in history.produced:
        if record.at.offset >= history.begin.get(record.at.place, 0) and not history.filtered(record):
            yield record


def _lost(history: History) -> Iterator[Breach]:
    """I1: every event is done, filtered or a durable dead letter."""
    done = {effect.at for effect in history.effects} | history.dead_letters
    missing: dict[Place, list[int]] = defaultdict(list)
    for record in _wanted(history):
        if record.at not in done:
            missing[record.at.place].append(record.at.offset)
    for place, offsets in missing.items():
        yield Breach("lost", _name(place), f"{len(offsets)} events: {_ranges(offsets)}")


def _false_effects(history: History) -> Iterator[Breach]:
    """Effects of records that nobody produced, or that say something else; events both done and failed."""
    known = {record.at: record for record in history.produced}
    for effect in history.effects:
        record = known.get(effect.at)
        if record is None or history.filtered(record):
            yield Breach(
                "phantom", _name(effect.at.place), f"offset {effect.at.offset} took effect; it should not have"
            )
        elif (record.key, record.seq) != (effect.key, effect.seq):
            told, seen = f"{record.key} {record.seq}", f"{effect.key} {effect.seq}"
            yield Breach(
                "changed", _name(effect.at.place), f"offset {effect.at.offset} was {told}, acted on was {seen}"
            )
    for at in sorted({effect.at for effect in history.effects} & history.dead_letters):
        yield Breach("twofold", _name(at.place), f"offset {at.offset} took effect and is a dead letter too")


def _repeats(history: History, allowed: Allowance) -> Iterator[Breach]:
    """I10: nothing takes effect again, unless a fault allows it, and then no more than that."""
    repeated: dict[Place, list[int]] = defaultdict(list)
    for at, count in Counter(effect.at for effect in history.effects).items():
        repeated[at.place] += [at.offset] * (count - 1)
    for place, offsets in repeated.items():
        if len(offsets) > allowed.repeats:
            yield Breach(
                "duplicated",
                _name(place),
                f"{len(offsets)} events again, {allowed.repeats} are allowed: {_ranges(sorted(set(offsets)))}",
            )


def _reordered(history: History, allowed: Allowance, ordering: str) -> Iterator[Breach]:
    """I4: within a partition (or key) offsets rise; they go back only to what had taken effect before, and only as
    often as the faults allow."""
    for where, effects in _in_order(history, ordering):
        yield from _passed(where, effects)
        rewinds = [(a, b) for a, b in pairwise(effects) if b.at.offset <= a.at.offset]
        if len(rewinds) > allowed.rewinds:
            told = ", ".join(
                f"{a.at.offset} (pid {a.pid}) then {b.at.offset} (pid {b.pid})" for a, b in rewinds[:_EXAMPLES]
            )
            yield Breach("reordered", where, f"went back {len(rewinds)} times, {allowed.rewinds} are allowed: {told}")


def _in_order(history: History, ordering: str) -> Iterator[tuple[str, list[Effect]]]:
    """Effects that must be in order among themselves, and what to call them."""
    found: dict[tuple[Place, str | None], list[Effect]] = defaultdict(list)
    for effect in history.effects:
        found[effect.at.place, effect.key if ordering == "key" else None].append(effect)
    for (place, key), effects in found.items():
        yield _name(place) + (f" key {key}" if ordering == "key" else ""), effects


def _passed(where: str, effects: Iterable[Effect]) -> Iterator[Breach]:
    """Events that took effect for the first time after a later one."""
    highest, seen = -1, set[int]()
    for effect in effects:
        offset = effect.at.offset
        if offset < highest and offset not in seen:
            yield Breach("reordered", where, f"offset {offset} took effect after {highest} (pid {effect.pid})")
        seen.add(offset)
        highest = max(highest, offset)


class _Again(NamedTuple):
    """An event took effect at `first`, and again at `second`."""

    first: float
    second: float
    offset: int


def _unexplained(
    repeats: Iterable[_Again], faults: Sequence[Fault], limit: Callable[[Allowance], int]
) -> Iterator[tuple[_Again, str]]:
    """Repetitions that no fault between the two effects explains, or that are more than it allows."""
    left = sorted(repeats, key=lambda again: again.second)
    for fault in sorted(faults, key=lambda each: each.ended):
        room = limit(fault.allowed)
        rest: list[_Again] = []
        for again in left:
            if room and again.first <= fault.ended and again.second >= fault.began:
                room -= 1
            else:
                rest.append(again)
        left = rest
    for again in left:
        between = [f.name for f in faults if again.first <= f.ended and again.second >= f.began]
        yield again, f"more than {', '.join(between)} allows" if between else "without a fault"


def _unexplained_repeats(history: History, faults: Sequence[Fault]) -> Iterator[Breach]:
    """I10, fault by fault."""
    last: dict[At, float] = {}
    repeats: dict[Place, list[_Again]] = defaultdict(list)
    for effect in history.effects:
        if effect.at in last:
            repeats[effect.at.place].append(_Again(last[effect.at], effect.time, effect.at.offset))
        last[effect.at] = effect.time
    for place, found in repeats.items():
        for again, why in _unexplained(found, faults, lambda allowed: allowed.repeats):
            span = f"at {again.first:.3f} and {again.second:.3f}"
            yield Breach("duplicated", _name(place), f"offset {again.offset} took effect {span}, {why}")


def _unexplained_order(history: History, faults: Sequence[Fault], ordering: str) -> Iterator[Breach]:
    """I4, fault by fault."""
    for where, effects in _in_order(history, ordering):
        yield from _passed(where, effects)
        last: dict[int, float] = {}
        rewinds = []
        for before, effect in pairwise([None, *effects]):
            assert effect is not None
            if before is not None and effect.at.offset <= before.at.offset and effect.at.offset in last:
                rewinds.append(_Again(last[effect.at.offset], effect.time, effect.at.offset))
            last[effect.at.offset] = effect.time
        for again, why in _unexplained(rewinds, faults, lambda allowed: allowed.rewinds):
            yield Breach("reordered", where, f"went back to {again.offset} at {again.second:.3f}, {why}")


def _overlapping(history: History, turns: int, late: int) -> Iterator[Breach]:
    """I4: no act of a former owner begins after the first act of the new one, or ends after it began."""
    places: dict[Place, list[Effect]] = defaultdict(list)
    for effect in history.effects:
        places[effect.at.place].append(effect)
    for place, effects in places.items():
        effects.sort(key=lambda effect: effect.began or effect.time)
        changes = [(a, b) for a, b in pairwise(effects) if a.instance != b.instance]
        if len(changes) > turns:
            told = ", ".join(f"{a.at.offset} by {a.instance}, {b.at.offset} by {b.instance}" for a, b in changes)
            yield Breach("overlapping", _name(place), f"changed hands {len(changes)} times, {turns} are right: {told}")
        for a, b in [(a, b) for a, b in changes if a.time > (b.began or b.time)][late:]:
            text = f"{b.instance} began {b.at.offset} while {a.instance} acted on {a.at.offset}"
            yield Breach("overlapping", _name(place), text)


def _commits(history: History) -> Iterator[Breach]:
    """I1 and I2: commits never go back, and nothing below one (or called finished by it) was open when it was seen."""
    done_at = _done_at(history)
    latest: dict[Place, Committed] = {}
    checked: dict[Place, int] = dict(history.begin)
    for commit in history.commits:
        before = latest.get(commit.place)
        if before and commit.offset < before.offset:
            yield Breach("backwards", _name(commit.place), f"committed {before.offset}, then {commit.offset}")
        latest[commit.place] = commit
        start, pending = checked.get(commit.place, 0), set(commit.pending)
        open_ = [
            o
            for o in range(start, max(commit.offset, commit.next_offset or 0))
            if o not in pending and done_at.get(At(*commit.place, o), -1.0) > commit.time
        ]
        if open_:
            yield Breach(
                "skipped",
                _name(commit.place),
                f"committed {commit.offset} (next_offset {commit.next_offset}) while these were open: {_ranges(open_)}",
            )
        checked[commit.place] = max(start, commit.offset)


def _done_at(history: History) -> dict[At, float]:
    """When each record was finished first; for ever open ones are at infinity. Offsets that hold no record of ours
    (transaction markers, compacted ones) are not in it."""
    done = {record.at: float("inf") for record in _wanted(history)}
    for effect in reversed(history.effects):
        done[effect.at] = effect.time
    # Durable before the commit is all that counts; that they are there at all is seen at the end.
    done |= dict.fromkeys(history.dead_letters, -1.0)
    return done


def _unfinished(history: History) -> Iterator[Breach]:
    ends: dict[Place, int] = {}
    for record in history.produced:
        ends[record.at.place] = max(ends.get(record.at.place, 0), record.at.offset + 1)
    last = {commit.place: commit for commit in history.commits}
    for place, end in ends.items():
        if place not in last or last[place].offset < end:
            at = last[place].offset if place in last else "nothing"
            yield Breach("unfinished", _name(place), f"the end is {end}, committed is {at}")


def _name(place: Place) -> str:
    return f"{place[0]}/{place[1]}"


def _ranges(offsets: Iterable[int]) -> str:
    """Runs of offsets, the first few."""
    runs: list[list[int]] = []
    for offset in offsets:
        if runs and offset == runs[-1][1] + 1:
            runs[-1][1] = offset
        else:
            runs.append([offset, offset])
    told = [str(first) if first == last else f"{first}\u2013{last}" for first, last in runs[:_EXAMPLES]]
    return ", ".join(told) + (", …" if len(runs) > _EXAMPLES else "")
