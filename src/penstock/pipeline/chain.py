"""The steps of a pipeline in order: decode, filter, transform; the action is what comes after. Plain functions over
lists of events."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from penstock.act.registry import actions
from penstock.config.spec import PipelineSpec
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
from penstock.pipeline.samples import Sampler, TapStage
from penstock.pipeline.step_counts import StepCounter
from penstock.transform.legacy_filter import LegacyFilter
from penstock.transform.registry import transforms


@dataclass(slots=True)
class FailedItem:
    """An event that a stage before the action ended; it keeps its place in the order until it is settled."""

    record: RecordLike
    stage: Stage
    error: BaseException
    value: Any = None
    event: Event | None = None
    """What the failed step was given; None where there was no event yet."""
    step: int = 0
    """The failed step's place in the chain."""


_FORESEEN = (EventTypeFilter, Match, LegacyFilter)
"""Steps whose wishes a decoder may answer; a subclass of one may do anything."""

Item = Event | FailedItem
Step = Callable[[list[Item]], list[Item]]


class Chain:
    """A pipeline's steps, built once per worker and revision."""

    def __init__(
        self,
        decoder: Decoder,
        steps: Sequence[Step],
        action: Action,
        counters: Sequence[StepCounter] = (),
        filters_first: int = 0,
    ) -> None:
        """`counters` are the steps' own; so many of the steps are filters, the others transforms."""
        self.decoder = decoder
        self.steps = steps
        self.action = action
        self.counters = counters
        self.times = TimesByName()
        """By stage, the action's included."""
        self.tap: Sampler | None = None
        """Of the unit that runs, where somebody looks."""
        self._stages: list[tuple[TapStage, int]] = [
            ("filter", place) if place < filters_first else ("transform", place - filters_first)
            for place in range(len(steps))
        ]

    @classmethod
    def build(cls, spec: PipelineSpec, ctx: PipelineContext) -> Chain:
        """Create every plug-in of the spec; raises PluginError or ConfigError naming what cannot be made."""
        ctx.open_graph = catalogue(spec.datahub)
        decoder = decoder_for(spec.source.config, ctx)
        steps: list[Step] = []
        made: list[Any] = []
        counters = [StepCounter() for _ in (*spec.filters, *spec.transform)]
        for entry in spec.filters:
            made.append(filters.create(entry.type, entry.config, ctx))
            steps.append(_filtering(made[-1].matches, len(steps), counters[len(steps)]))
        for entry in spec.transform:
            made.append(transforms.create(entry.type, entry.config, ctx))
            steps.append(_transforming(made[-1].transform, len(steps), counters[len(steps)]))
        # What a user's step would have been given cannot be known before it was: only what comes before it is foreseen.
        decoder.push_down([step.wanted for step in takewhile(lambda step: type(step) in _FORESEEN, made)])
        action = actions.create(spec.action.type, spec.action.config, ctx)
        return cls(decoder, steps, action, counters, len(spec.filters))

    def prepare(self, records: Sequence[RecordLike]) -> list[Item]:
        """All steps before the action; events that a step dropped are gone, broken ones stay in place."""
        items: list[Item] = []
        clock, began, tap = time.perf_counter, time.perf_counter(), self.tap
        decoded = self.decoder.decode(records)
        if set(map(type, decoded)) == {Event}:
            items = decoded  # type: ignore[assignment]  # the line above proved it
        else:
            for record, result in zip(records, decoded, strict=True):
                if isinstance(result, Event):
                    items.append(result)
                elif result is not None:
                    stage: Stage = getattr(result, "stage", "decode")
                    items.append(FailedItem(record, stage, result))
        now = clock()
        self.times.add("decode", now - began, len(records))
        if tap is not None:
            tap.decoded(records, decoded)
        for (name, place), step in zip(self._stages, self.steps, strict=True):
            count, began, before = len(items), now, items
            items = step(items)
            now = clock()
            self.times.add(name, now - began, count)
            if tap is not None:
                tap.stepped(name, place, before, items)
        return items

    def again(self, item: Item, *, whole: bool) -> Item | None:
        """Repeat the steps before the action for a failed event: from the one that failed, or (`whole`) from its bytes.

        None: a filter or transform dropped it this time.
        """
        if whole or (isinstance(item, FailedItem) and item.event is None):
            items = self.prepare([item.record])
        elif isinstance(item, FailedItem) and item.event is not None:
            items = [item.event]
            for step in self.steps[item.step :]:
                items = step(items)
        else:
            return item
        return items[0] if items else None

    @property
    def has_transforms(self) -> bool:
        return any(name == "transform" for name, _ in self._stages)

    def take_dropped(self) -> Dropped:
        """What the decoder dropped since this was asked last; the steps that would have done it count it as theirs."""
        dropped = self.decoder.dropped.take() if self.decoder.dropped is not None else Dropped()
        for step, count in dropped.by_step.items():
            for counter in self.counters[:step]:
                counter.add(processed=count, passed=count, failed=0)
            self.counters[step].add(processed=count, passed=0, failed=0)
        return dropped

    def close(self) -> None:
        self.decoder.close()


def _filtering(matches: Callable[[Event], bool], place: int, counter: StepCounter) -> Step:
    def step(items: list[Item]) -> list[Item]:
        kept: list[Item] = []
        broken = failed = 0
        for item in items:
            if type(item) is FailedItem:
                broken += 1
                kept.append(item)
                continue
            try:
                if matches(item):  # type: ignore[arg-type]  # anything but FailedItem is an Event
                    kept.append(item)
            except Unavailable:
                raise
            except BaseException as error:  # noqa: BLE001 - whatever user code raises, SystemExit included, ends this event alone
                failed += 1
                kept.append(FailedItem(item.record, "filter", error, item.value, item, place))  # type: ignore[arg-type]  # as above
        counter.add(processed=len(items) - broken, passed=len(kept) - broken - failed, failed=failed)
        return kept

    return step


def _transforming(transform: Callable[[Event], Event | None], place: int, counter: StepCounter) -> Step:
    def step(items: list[Item]) -> list[Item]:
        kept: list[Item] = []
        broken = failed = 0
        for item in items:
            if type(item) is FailedItem:
                broken += 1
                kept.append(item)
                continue
            try:
                changed = transform(item)  # type: ignore[arg-type]  # anything but FailedItem is an Event
                if changed is not None:
                    kept.append(_checked(changed))
            except Unavailable:
                raise
            except BaseException as error:  # noqa: BLE001 - whatever user code raises, SystemExit included, ends this event alone
                failed += 1
                kept.append(FailedItem(item.record, "transform", error, item.value, item, place))  # type: ignore[arg-type]  # as above
        counter.add(processed=len(items) - broken, passed=len(kept) - broken - failed, failed=failed)
        return kept

    return step


def _checked(result: Any) -> Event:
    if isinstance(result, Event):
        return result
    raise PluginError(
        f"transform returned {type(result).__name__}",
        received=type(result).__name__,
        allowed="the event, or None to drop it",
    )
