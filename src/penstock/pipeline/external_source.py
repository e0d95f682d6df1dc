"""An external source, as its pipeline reads from it and acknowledges to it.

Events are numbered as they arrive and kept until they are acknowledged: a small log, of which any event can be read
again. Each is acknowledged once it and all before it are settled.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any, cast

from penstock.config.source import ForeignSourceConfig
from penstock.config.spec import PipelineSpec
from penstock.core.clock import SYSTEM, Clock
from penstock.core.errors import PluginError
from penstock.core.plugin import PipelineContext
from penstock.datahub.graph import catalogue
from penstock.datahub.sources import is_outage, make_source
from penstock.decode.envelope import Arrival
from penstock.kafka.partition_reader import Batch, Trouble
from penstock.pipeline.crash_marker import CrashMarker
from penstock.pipeline.executors.executor import ActionExecutor
from penstock.pipeline.messages import Assignment, Blueprint, Halt, Partition, UnitOutcome
from penstock.pipeline.source_pump import Over, SourcePump

_GRACE = 3.0
"""Seconds that `events` has to end once it was asked to; sources of older days end only when they are closed."""
_REMARKS = 10
"""Texts of refused acknowledgements that one unit tells; all are counted."""
_LOOK_EVERY = 0.1


class SourceBroken(PluginError):
    """`events` gave something else than envelopes."""

    code = "source"


class ExternalReader:
    """What a unit reads from, in the place of a Kafka consumer."""

    def __init__(
        self,
        source: Any,
        executor: ActionExecutor,
        partition: Partition,
        deaths: CrashMarker,
        scrub: Callable[[str], str],
        *,
        clock: Clock = SYSTEM,
    ) -> None:
        self.trouble = Trouble()
        self._failed_acks = 0
        self._remarks: list[str] = []
        self._scrub = scrub
        self._source = source
        self._executor = executor
        self._clock = clock
        self._partition = partition
        self._deaths = deaths
        self._pulling = SourcePump(source, partition[0])
        self._open: dict[int, Arrival] = {}
        """Not acknowledged yet, in order."""
        self._settled: set[int] = set()
        """Those of them that may be, as soon as all before them are."""
        self._deferred: set[int] = set()
        """Those that were reported to the source as not processed yet."""
        self._next = 0
        self._free = 0
        """The next number to give."""
        self._held = False
        self._quiet = False
        self._over = False
        self._lock = threading.RLock()

    # -- reading ---------------------------------------------------------------------------

    def place(self, wanted: Mapping[Partition, int]) -> None:
        self.trouble = Trouble()
        self._next = wanted.get(self._partition, self._next)
        self._free = max(self._free, self._next)

    def hold(self, partitions: set[Partition]) -> None:
        self._held = self._partition in partitions

    def read(self, limit: int, timeout: float) -> Batch | None:  # noqa: ARG002 - always one: it is acknowledged before the next is asked for
        self._executor.wait_idle()
        self._deaths.calm()
        self._settle_done()
        if self._held or self._over:
            # The unit waits for a retry, or for a deferred event.
            self._clock.sleep(max(0.0, min(timeout, _LOOK_EVERY) if self._over else timeout))
            return None
        arrival = self._again() or self._pulled(timeout)
        if arrival is None:
            return None
        start, self._next = self._next, arrival.offset() + 1
        arrival.problem = self._deaths.verdict(arrival.value())
        self._deaths.begin(arrival.value())
        return Batch([arrival], {self._partition: start}, {self._partition: self._next})

    def _again(self) -> Arrival | None:
        """What was read before and is wanted once more."""
        if not self._open or next(reversed(self._open)) < self._next:
            return None
        return next((self._open[number] for number in self._open if number >= self._next), None)

    def _pulled(self, timeout: float) -> Arrival | None:
        if not self._pulling.is_alive() and not self._pulling.ident:
            self._pulling.start()
        given = self._pulling.pull(timeout)
        self._quiet = given is None
        if given is None:
            return None
        if isinstance(given, Over):
            self._over = True
            if given.error is not None:
                self._halt(given.error)
            return None
        if not all(hasattr(given, name) for name in ("event_type", "event", "meta")):
            self._halt(SourceBroken(f"events() gave {type(given).__name__}", allowed="EventEnvelope"))
            return None
        arrival = Arrival(self._partition[0], self._free, given, self._clock.now_ms())
        self._free += 1
        with self._lock:
            self._open[arrival.offset()] = arrival
        return arrival

    def _halt(self, error: BaseException) -> None:
        """The pipeline fails; where the trouble lies outside, it starts over after a while."""
        code = getattr(error, "code", None)
        name = code if isinstance(code, str) else type(error).__name__
        text = str(error) if isinstance(error, SourceBroken) else f"its source raised {type(error).__name__}: {error}"
        result = self._executor.result
        with result.lock:
            result.halt = result.halt or Halt("error" if is_outage(error) else "build", name, self._scrub(text))

    def at_end(self, partition: Partition) -> bool:  # noqa: ARG002 - there is one
        return (self._quiet or self._over) and self._again() is None

    def position(self, partition: Partition) -> int:  # noqa: ARG002 - as above
        return self._next

    @property
    def exhausted(self) -> bool:
        """True: the source has ended, and nothing of it waits for a retry or an acknowledgement."""
        executor = self._executor
        return self._over and self._again() is None and not (executor.deferred or executor.waiting or executor.retries)

    # -- acknowledging ---------------------------------------------------------------------

    def _settle_done(self) -> None:
        """What was read and neither waits, nor is deferred, nor failed, is done."""
        executor = self._executor
        failed = {each.record.offset() for each in executor.result.failures}
        self._match_deferred()
        open_ = {place[2] for place in (*executor.deferred, *executor.retries)} | failed
        open_.update(*executor.waiting.values())
        self._settle(n for n in self._read_so_far() if n not in open_)

    def _read_so_far(self) -> list[int]:
        with self._lock:
            return [number for number in self._open if number < self._next]

    def confirm(self, a: Assignment) -> None:
        """I1: the driver planned on, so everything below its next_offset is done, or a durable dead letter."""
        if a.key == self._partition:
            self._settle(n for n in self._read_so_far() if n < a.next_offset and n not in a.pending)

    def _settle(self, numbers: Iterable[int]) -> None:
        with self._lock:
            self._settled.update(numbers)
            while (first := next(iter(self._open), None)) in self._settled and first is not None:
                self._settled.discard(first)
                self._deferred.discard(first)
                self._ack(self._open.pop(first).envelope, processed=True)

    def _match_deferred(self) -> None:
        """Tell the source which events come later; not one that was acknowledged before `act` returned."""
        for place in list(self._executor.deferred):
            number = place[2]
            arrival = self._open.get(number)
            if arrival is None or number in self._settled:
                self._executor.acknowledge(place)
            elif number not in self._deferred:
                self._deferred.add(number)
                self._ack(arrival.envelope, processed=False)

    def _ack(self, envelope: Any, *, processed: bool) -> None:
        try:
            self._source.ack(envelope, processed=processed)
        except Exception as error:  # noqa: BLE001 - the source gives the event again, or not; others wait behind it
            self._failed_acks += 1
            text = f"the source refused an acknowledgement: {type(error).__name__}: {error}"
            self._remarks = [*self._remarks, self._scrub(text)][:_REMARKS]

    def acknowledge(self, envelope: Any) -> None:
        """A plug-in acknowledges an event that it deferred; called from any thread."""
        number = self._find(envelope)
        if number is None:
            self._ack(envelope, processed=True)
            return
        self._executor.acknowledge((*self._partition, number))
        self._settle([number])

    def _find(self, envelope: Any) -> int | None:
        """The number of an envelope, whichever of its objects a plug-in was given."""
        event, meta = getattr(envelope, "event", None), getattr(envelope, "meta", None)
        with self._lock:
            pairs = [(number, arrival.envelope) for number, arrival in self._open.items()]
        deferred = [(place[2], item) for place, (item, _) in list(self._executor.deferred.items())]
        known = [*pairs, *deferred]
        same = (n for n, e in known if e is envelope or e.meta is meta or e.event is event)
        alike = (n for n, e in known if e.event_type == getattr(envelope, "event_type", None) and e.meta == meta)
        return next(itertools.chain(same, alike), None)

    # -- the end ---------------------------------------------------------------------------

    def tell(self, outcome: UnitOutcome) -> None:
        """What a unit's outcome says about the source."""
        outcome.counts.failed_acks, self._failed_acks = self._failed_acks, 0
        outcome.remarks, self._remarks = self._remarks, []
        # Not while something waits for an outage to pass: that is nowhere but in the unit's hands.
        behind = [part for part in outcome.partitions if part.pending or part.next_offset != self._next]
        outcome.ended = self.exhausted and outcome.halt is None and not behind

    @property
    def is_stuck(self) -> bool:
        """Whether the source is still in `events`, which it may never leave."""
        return self._pulling.is_alive()

    def stop(self) -> None:
        """Ask the source to end, and give it a moment."""
        if self._pulling.ident:
            self._pulling.stop()
            self._pulling.join(_GRACE)

    def close(self) -> None:
        """Close the source: one that does not know how to stop ends by it."""
        with contextlib.suppress(Exception):
            self._source.close()
        if self._pulling.ident:
            self._pulling.join(_GRACE)
        self._deaths.close()


class SourceView:
    """`ctx.event_source` of a pipeline's plug-ins: the source itself, but acknowledgements are kept in order."""

    def __init__(self, source: Any) -> None:
        self._source = source
        self.reader: ExternalReader | None = None

    @property  # type: ignore[misc]  # a stand-in answers `isinstance` as what it stands for
    def __class__(self) -> type:
        return type(self._source)

    def attach(
        self, made: Blueprint, executor: ActionExecutor, scrub: Callable[[str], str], clock: Clock = SYSTEM
    ) -> ExternalReader:
        """The way to read from the source, and to acknowledge through this view."""
        self._source.set_filters(early_filters(made.spec))
        partition = (made.spec.source.type, 0)
        self.reader = ExternalReader(self._source, executor, partition, CrashMarker(made.deaths), scrub, clock=clock)
        return self.reader

    def ack(self, event: Any, processed: bool = True) -> None:  # noqa: FBT001 - DataHub's signature
        if processed and self.reader is not None:
            self.reader.acknowledge(event)
        else:
            self._source.ack(event, processed)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)


def view_of(spec: PipelineSpec, ctx: PipelineContext) -> SourceView:
    """Make the pipeline's source, and put it where plug-ins look for it."""
    ctx.open_graph, ctx.event_source = catalogue(spec.datahub), None
    view = SourceView(make_source(spec.source.type, cast("ForeignSourceConfig", spec.source.config).own, ctx))
    ctx.event_source = view
    return view


def early_filters(spec: PipelineSpec) -> list[Any]:
    """The filters by which a source may drop events by itself, as objects of DataHub's class."""
    made = import_module("datahub_actions.plugin.filter.event_type_filter").EventTypeFilter
    return [made.create(step.config, None) for step in spec.filters if step.type == "event_type"]
