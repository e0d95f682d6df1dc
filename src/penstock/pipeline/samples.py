"""Samples of the events that pass a stage, taken only while a tap is open."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec

from penstock.core.clock import SYSTEM, Clock
from penstock.core.event import Body, Event, RecordLike, json_bytes
from penstock.pipeline.items import Item

TapStage = Literal["decode", "filter", "transform", "act"]
Became = Literal["passed", "dropped", "failed", "acted", "waiting"]
Place = tuple[str, int, int]

_SHOWN: Final = 16_000
"""Characters of a value that are shown; its end is cut off."""
_UNIT_BYTES: Final = 2_000_000
"""Characters that a unit's samples may have together: they travel with its outcome. A thousand change logs of DataHub
fit in."""
_LARGE: Final = 200_000
"""Bytes of a record above which its value is not written out: that would take longer than the action."""
_KEY: Final = 200
_WHY: Final = 1_000


@dataclass(slots=True, frozen=True)
class Allowance:
    """Samples of one stage that a unit may take."""

    at_once: float
    per_second: float
    """More, for as long as the unit runs: units last from a moment to seconds, and none may outdo the others."""


TapWish = Mapping[TapStage, Allowance]
"""What a unit hands over; nothing of other stages."""


class Sample(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """An event as a stage left it."""

    stage: TapStage
    step: int
    """Place among the filters, or among the transforms."""
    topic: str
    partition: int
    offset: int
    timestamp: int
    """Epoch milliseconds; -1: the record has none."""
    key: str | None
    event_type: str = ""
    became: Became = "passed"
    value: str | None = None
    """JSON; None: it cannot be shown."""
    why: str | None = None
    """Why it failed, or is not shown."""
    is_cut: bool = False
    """The value is longer than what is here."""
    as_read: bool = True
    """The value has its fields where the record has them; False: a transform or a decoder may have moved them."""

    @property
    def place(self) -> Place:
        return self.topic, self.partition, self.offset


class Sampler:
    """Takes a few events of each batch in one unit. It reads and writes down; it never changes or raises."""

    def __init__(self, wish: TapWish, scrub: Callable[[str], str], *, transforms: bool, clock: Clock = SYSTEM) -> None:
        """`transforms`: the chain has some, so what the action is given is no longer what was read."""
        self.samples: list[Sample] = []
        self._wish, self._taken = wish, dict.fromkeys(wish, 0)
        self._clock = clock
        self._began = clock.monotonic()
        self._room = _UNIT_BYTES
        self._scrub, self._transforms = scrub, transforms

    def decoded(self, records: Sequence[RecordLike], results: Sequence[Any]) -> None:
        """What the decoder made of records: an event, an error, or None."""
        for index in self._chosen("decode", len(records)):
            result, made = results[index], self._made("decode", 0, records[index])
            if isinstance(result, Event):
                self._write(made, result)
            elif result is None:
                made.became, made.why = "dropped", "nothing wants it: a filter's wish, or no route for it"
            else:
                made.became, made.why = "failed", self._said(result)

    def stepped(self, stage: TapStage, step: int, before: Sequence[Item], after: Sequence[Item]) -> None:
        """What one filter or transform made of a batch."""
        for index in self._chosen(stage, len(before)):
            given = before[index]
            if type(given) is not Event:
                continue
            made = self._made(stage, step, given.record)
            result = _left_of(given.record, after, index)
            if result is None and stage == "transform":
                result = _anew(given.record, after)
            if isinstance(result, Event):
                self._write(made, result)
            else:
                self._write(made, given)
                made.became = "dropped" if result is None else "failed"
                made.why = made.why if result is None else self._said(result.error)
            made.as_read = made.as_read and stage != "transform"

    def handed(self, items: Sequence[Item]) -> None:
        """What the action is given; what becomes of it is known at the unit's end."""
        for index in self._chosen("act", len(items)):
            event = items[index]
            if type(event) is not Event:
                continue
            made = self._made("act", 0, event.record)
            self._write(made, event)
            made.became, made.as_read = "acted", made.as_read and not self._transforms

    def ended(self, failed: Mapping[Place, str], waiting: Iterable[Place]) -> list[Sample]:
        """All samples: which of the events failed, and which wait for another attempt or for their turn."""
        open_places, taken = set(waiting), list(self.samples)
        for sample in taken:
            if sample.stage != "act":
                continue
            if sample.place in failed:
                sample.became, sample.why = "failed", failed[sample.place][:_WHY]
            elif sample.place in open_places:
                sample.became = "waiting"
        return taken

    def _chosen(self, stage: TapStage, count: int) -> list[int]:
        """Places in a batch, far from each other; half of what may be taken now, so that later batches have some."""
        allowed = self._wish.get(stage)
        if allowed is None or not count or self._room <= 0:
            return []
        so_far = self._taken[stage]
        room = int(allowed.at_once + allowed.per_second * (self._clock.monotonic() - self._began)) - so_far
        wanted = min(count, room) if room < 2 or count <= room else room // 2
        if wanted <= 0:
            return []
        self._taken[stage] = so_far + wanted
        # At random within equal parts: events may alternate, and a fixed step would meet one kind only.
        share = count / wanted
        return sorted({min(int((part + self._clock.random()) * share), count - 1) for part in range(wanted)})

    def _made(self, stage: TapStage, step: int, record: RecordLike) -> Sample:
        key = record.key()
        shown = None if key is None else key[:_KEY].decode("utf-8", "backslashreplace")
        made = Sample(stage, step, *_place(record), record.timestamp()[1], shown)
        self.samples.append(made)
        return made

    def _write(self, made: Sample, event: Event) -> None:
        made.event_type = str(event.event_type)
        size = len(event.record.value() or b"")
        if size > _LARGE:
            made.why = f"too large to be shown: {size:,} bytes"
            return
        try:
            written, made.as_read = _written(event)
            # I8: a transform may put a secret of the spec into an event.
            written = self._scrub(written)
        except Exception as error:  # noqa: BLE001 - a value of the user's own: showing it must not end its unit
            made.why = f"it cannot be shown: {self._said(error)}"
            return
        made.is_cut = len(written) > _SHOWN
        made.value = written[:_SHOWN]
        self._room -= len(made.value)

    def _said(self, error: BaseException) -> str:
        return self._scrub(f"{type(error).__name__}: {error}")[:_WHY]


def _written(event: Event) -> tuple[str, bool]:
    """The event as JSON, and whether that is its value as it was read."""
    body = event.event
    if isinstance(body, Body):
        return json_bytes(body.value).decode(), True
    as_json = getattr(body, "as_json", None)
    return str(as_json()) if callable(as_json) else json_bytes(body).decode(), False


def _left_of(record: RecordLike, after: Sequence[Item], at: int) -> Item | None:
    """The record's item among those that a step left; None: it was dropped. `at` was its place before the step."""
    # Steps keep the order, so it can only have moved forward: by as many as were dropped before it.
    for index in range(min(at, len(after) - 1), -1, -1):
        if after[index].record is record:
            return after[index]
    return None


def _anew(record: RecordLike, after: Sequence[Item]) -> Item | None:
    """The same, where a transform of the user's own may have made the record anew."""
    place = _place(record)
    return next((item for item in after if _place(item.record) == place), None)


def _place(record: RecordLike) -> Place:
    return record.topic(), record.partition(), record.offset()


def open_places(items: Iterable[Item], *more: Iterable[Place]) -> set[Place]:
    """Where the items are, and these places."""
    return {_place(item.record) for item in items}.union(*more)
