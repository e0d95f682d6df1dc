"""The steps of a pipeline in order: decode, filter, transform; the action comes after. Plain functions over lists of
events."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from penstock.act.registry import actions
from penstock.config.spec import PipelineSpec
from penstock.core.clock import SYSTEM, Clock
from penstock.core.dead_letter import Stage
from penstock.core.errors import PluginError, Unavailable
from penstock.core.event import Event, RecordLike
from penstock.core.latency import TimesByName
from penstock.core.plugin import Action, Decoder, Dropped, PipelineContext
from penstock.datahub.graph import catalogue
from penstock.decode import decoder_for
from penstock.filter.event_type import EventTypeFilter
from penstock.filter.match import Match
from penstock.filter.registry import filters
from penstock.pipeline.items import FailedItem, Item
from penstock.pipeline.messages import Partition, StepCounts
from penstock.pipeline.samples import Sampler, TapStage
from penstock.transform.legacy_filter import LegacyFilter
from penstock.transform.registry import transforms

_OUTAGES_AT_MOST = 3
"""Calls of one step in one batch that may end in an outage: each may have taken its whole time-out."""


_FORESEEN = (EventTypeFilter, Match, LegacyFilter)
"""Steps whose wishes a decoder may answer; a subclass of one may do anything."""

Blocked = dict[Partition, tuple[int, Unavailable]]
"""Per partition the first record that waits for an outage, and which."""
Step = Callable[[list[Item], Blocked], list[Item]]


@dataclass(slots=True)
class Prepared:
    """A batch that is ready for the action."""

    records: Sequence[RecordLike]
    """What was taken of it: of each blocked partition only what lies before the first blocked record."""
    items: list[Item]
    """Events for the action, and broken ones in their place; dropped ones are gone."""
    blocked: Blocked
    dropped: Dropped
    """What the decoder dropped of `records`, and why."""


class StepCounter:
    """Counts of one step, added up per batch; retries may run it in other threads than the unit's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = StepCounts()

    def add(self, *, processed: int, passed: int, failed: int) -> None:
        """Of `processed` events `passed` go on and `failed` raised; the rest was dropped."""
        with self._lock:
            self._counts.add(StepCounts(processed, processed - passed - failed, failed))

    def take(self) -> StepCounts:
        """What was added since the last call."""
        with self._lock:
            taken, self._counts = self._counts, StepCounts()
        return taken


@dataclass(slots=True)
class _DroppedCounts:
    """What decoders dropped of batches that were taken."""

    unrouted: int = 0
    early: dict[str, int] = field(default_factory=dict)


class Chain:
    """A pipeline's steps, built once per worker and revision."""

    def __init__(
        self,
        decoder: Decoder,
        steps: Sequence[Step],
        action: Action,
        counters: Sequence[StepCounter] = (),
        filters_first: int = 0,
        *,
        clock: Clock = SYSTEM,
    ) -> None:
        """`counters` are the steps' own; so many of the steps are filters, the others transforms."""
        self.decoder = decoder
        self.steps = steps
        self.action = action
        self.counters = counters
        self.times = TimesByName()
        """By stage, the action's included."""
        self.tap: Sampler | None = None
        """Of the unit that runs, where samples are wanted."""
        self._clock = clock
        self._lock = threading.Lock()
        self._dropped = _DroppedCounts()
        self._stages: list[tuple[TapStage, int]] = [
            ("filter", place) if place < filters_first else ("transform", place - filters_first)
            for place in range(len(steps))
        ]

    @classmethod
    def build(cls, spec: PipelineSpec, ctx: PipelineContext, clock: Clock = SYSTEM) -> Chain:
        """Create every plug-in of the spec; raises PluginError or ConfigError naming what cannot be made."""
        ctx.open_graph = catalogue(spec.datahub)
        decoder = decoder_for(spec.source.config, ctx)
        steps: list[Step] = []
        made: list[Any] = []
        counters = [StepCounter() for _ in (*spec.filters, *spec.transform)]
        for entry in spec.filters:
            made.append(filters.create(entry.type, entry.config, ctx))
            steps.append(_step("filter", made[-1].matches, len(steps), counters[len(steps)]))
        for entry in spec.transform:
            made.append(transforms.create(entry.type, entry.config, ctx))
            steps.append(_step("transform", made[-1].transform, len(steps), counters[len(steps)]))
        # What a user's step would have been given cannot be known before it was: only what comes before it is foreseen.
        decoder.push_down([step.wanted for step in takewhile(lambda step: type(step) in _FORESEEN, made)])
        action = actions.create(spec.action.type, spec.action.config, ctx)
        return cls(decoder, steps, action, counters, len(spec.filters), clock=clock)

    # -- a batch ---------------------------------------------------------------------------

    def prepare(self, records: Sequence[RecordLike]) -> list[Item]:
        """All steps before the action over records of which none may wait; raises `Unavailable` where one has to."""
        prepared = self.prepare_batch(records)
        for _, error in prepared.blocked.values():
            raise error
        return prepared.items

    def prepare_batch(self, records: Sequence[RecordLike]) -> Prepared:
        """All steps before the action.

        Never raises for what is in a record. An outage that concerns one record blocks its partition from there on;
        what lies before it, and other partitions, go on.
        """
        clock, blocked = self._clock.monotonic, Blocked()
        began = clock()
        records, items = self._decode(records, blocked)
        now = clock()
        self.times.add("decode", now - began, len(records))
        for (name, place), step in zip(self._stages, self.steps, strict=True):
            count, began, given = len(items), now, items
            items = step(items, blocked)
            now = clock()
            self.times.add(name, now - began, count)
            if self.tap is not None:
                self.observe(self.tap.stepped, name, place, given, items)
        dropped = self.decoder.dropped.take() if self.decoder.dropped is not None else Dropped()
        if blocked:
            records = [record for record in records if not _is_blocked(record, blocked)]
            items = [item for item in items if not _is_blocked(item.record, blocked)]
        return Prepared(records, items, blocked, dropped)

    def _decode(self, records: Sequence[RecordLike], blocked: Blocked) -> tuple[Sequence[RecordLike], list[Item]]:
        """The records that no outage concerns, and what they are decoded to."""
        while True:
            if self.decoder.dropped is not None:
                # Counts of an attempt that is not used belong to no event.
                self.decoder.dropped.take()
            decoded = self._decode_batch(records)
            if set(map(type, decoded)) == {Event}:
                if self.tap is not None:
                    self.observe(self.tap.decoded, records, decoded)
                return records, list(decoded)  # type: ignore[arg-type]  # the line above proved it
            for record, result in zip(records, decoded, strict=True):
                if isinstance(result, Unavailable):
                    _block(record, result, blocked)
            free = [record for record in records if not _is_blocked(record, blocked)] if blocked else records
            if len(free) == len(records):
                break
            records = free
        if self.tap is not None:
            self.observe(self.tap.decoded, records, decoded)
        items: list[Item] = []
        for record, result in zip(records, decoded, strict=True):
            if isinstance(result, Event):
                items.append(result)
            elif result is not None:
                items.append(FailedItem(record, getattr(result, "stage", "decode"), result))
        return records, items

    def _decode_batch(self, records: Sequence[RecordLike]) -> Sequence[Event | BaseException | None]:
        try:
            decoded = self.decoder.decode(records) if records else []
            if len(decoded) != len(records):
                raise PluginError(f"the decoder returned {len(decoded)} results for {len(records)} records")
        except BaseException as error:  # noqa: BLE001 - a decoder of the user's own ends its records, never the unit
            return [error] if len(records) == 1 else self._decode_singly(records)
        return decoded

    def _decode_singly(self, records: Sequence[RecordLike]) -> list[Event | BaseException | None]:
        """Find the records that make a decoder raise for their batch."""
        results: list[Event | BaseException | None] = []
        outages: dict[Partition, Unavailable] = {}
        for record in records:
            partition = (record.topic(), record.partition())
            away = outages.get(partition)
            if away is None and len(outages) >= _OUTAGES_AT_MOST:
                away = next(iter(outages.values()))
            [result] = [away] if away is not None else self._decode_batch([record])
            if isinstance(result, Unavailable):
                outages.setdefault(partition, result)
            results.append(result)
        return results

    def retry_steps(self, item: Item, *, whole: bool) -> Item | None:
        """Repeat the steps before the action for a failed event: from the one that failed, or (`whole`) from its bytes.

        None: a filter or transform dropped it this time. Where an outage concerns it, it comes back as a `FailedItem`
        with that outage.
        """
        blocked = Blocked()
        if whole or (isinstance(item, FailedItem) and item.event is None):
            prepared = self.prepare_batch([item.record])
            items, blocked = prepared.items, prepared.blocked
            if not blocked:
                self.count_dropped(prepared)
        elif isinstance(item, FailedItem) and item.event is not None:
            items = [item.event]
            for step in self.steps[item.step :]:
                items = step(items, blocked)
        else:
            return item
        for _, error in blocked.values():
            event, step_at = (item.event, item.step) if isinstance(item, FailedItem) else (None, 0)
            return FailedItem(item.record, "decode", error, item.value, None if whole else event, step_at)
        return items[0] if items else None

    # -- counts ----------------------------------------------------------------------------

    def count_dropped(self, prepared: Prepared) -> None:
        """A batch was taken: the steps that would have dropped what the decoder did count it as theirs."""
        dropped = prepared.dropped
        for step, count in dropped.by_step.items():
            for counter in self.counters[:step]:
                counter.add(processed=count, passed=count, failed=0)
            self.counters[step].add(processed=count, passed=0, failed=0)
        # A step that blocked a partition has cut off records that the decoder counted: never more than were dropped.
        unrouted = min(dropped.unrouted, len(prepared.records) - len(prepared.items))
        with self._lock:
            self._dropped.unrouted += unrouted
            for answer, count in dropped.early.items():
                self._dropped.early[answer] = self._dropped.early.get(answer, 0) + count

    def take_dropped(self) -> tuple[int, dict[str, int]]:
        """Records of taken batches without an event, and early answers, since the last call."""
        with self._lock:
            taken, self._dropped = self._dropped, _DroppedCounts()
        return taken.unrouted, taken.early

    def observe(self, sample: Callable[..., None], *given: Any) -> None:
        """L3: a tap that raises ends itself, not the unit."""
        try:
            sample(*given)
        except Exception:  # noqa: BLE001 - it looks at values of the user's own
            self.tap = None

    @property
    def has_transforms(self) -> bool:
        return any(name == "transform" for name, _ in self._stages)

    def close(self) -> None:
        self.decoder.close()


def _block(record: RecordLike, error: Unavailable, blocked: Blocked) -> None:
    partition, offset = (record.topic(), record.partition()), record.offset()
    if partition not in blocked or offset < blocked[partition][0]:
        blocked[partition] = (offset, error)


def _is_blocked(record: RecordLike, blocked: Blocked) -> bool:
    found = blocked.get((record.topic(), record.partition()))
    return found is not None and record.offset() >= found[0]


def _step(stage: Stage, call: Callable[[Event], Any], place: int, counter: StepCounter) -> Step:
    """A filter (`call` is its `matches`) or transform over a batch."""
    filters = stage == "filter"

    def step(items: list[Item], blocked: Blocked) -> list[Item]:
        kept: list[Item] = []
        others = failed = outages = 0
        for index, item in enumerate(items):
            if type(item) is FailedItem or (blocked and _is_blocked(item.record, blocked)):
                others += 1
                kept.append(item)
                continue
            record = item.record
            try:
                if filters:
                    if call(item):  # type: ignore[arg-type]  # anything but FailedItem is an Event
                        kept.append(item)
                elif (changed := call(item)) is not None:  # type: ignore[arg-type]  # as above
                    kept.append(_checked(changed, record))
            except Unavailable as error:
                outages += 1
                others += 1
                kept.append(item)
                rest = items[index:] if outages >= _OUTAGES_AT_MOST else (item,)
                for each in rest:
                    _block(each.record, error, blocked)
            except BaseException as error:  # noqa: BLE001 - whatever user code raises, SystemExit included, ends this event alone
                failed += 1
                kept.append(FailedItem(record, stage, error, item.value, item, place))  # type: ignore[arg-type]  # as above
        counter.add(processed=len(items) - others, passed=len(kept) - others - failed, failed=failed)
        return kept

    return step


def _checked(result: Any, record: RecordLike) -> Event:
    if not isinstance(result, Event):
        raise PluginError(
            f"transform returned {type(result).__name__}",
            received=type(result).__name__,
            allowed="the event, or None to drop it",
        )
    # L2: an event keeps its coordinates through the chain: a transform may copy its record but not exchange it.
    new = result.record
    if new is not record and _coordinates(new) != _coordinates(record):
        raise PluginError("transform returned an event of another record", allowed="the record's own coordinates")
    return result


def _coordinates(record: RecordLike) -> tuple[str, int, int]:
    return record.topic(), record.partition(), record.offset()
