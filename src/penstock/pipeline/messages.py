"""What the driver and a unit exchange: an assignment goes out, an outcome comes back. Payloads never travel, except
those of failures, and samples while a tap is open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec

from penstock.config.spec import PipelineSpec
from penstock.core.dead_letter import Failure
from penstock.core.event import Record
from penstock.core.latency import Latencies, Times
from penstock.kafka.client import KafkaClientConfig
from penstock.pipeline.samples import Sample, TapWish

Partition = tuple[str, int]
"""Topic and partition."""

CLOSING = 20.0
"""Seconds that closing a pipeline with an external source may take, before its process is ended."""


class OutcomeStruct(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """Base of all that a worker answers: its fields travel in their order, and the driver checks the type of each."""


@dataclass(slots=True, frozen=True)
class Blueprint:
    """All that a worker needs to build a pipeline; the same for all units of one revision."""

    spec: PipelineSpec
    client: KafkaClientConfig
    folder: str | None
    deaths: str | None = None
    """File in which a worker notes at which event of an external source it is."""


class Retry(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """An event that failed and waits for its next attempt."""

    offset: int
    attempts: int
    first_failed_at: int
    """Epoch milliseconds."""
    wait: float
    """Seconds until the next attempt, from when this was said."""


@dataclass(slots=True, frozen=True)
class Assignment:
    """A topic partition as a unit gets it: reading continues at `next_offset`; `pending` are offsets below it that are
    not finished."""

    topic: str
    partition: int
    epoch: int
    next_offset: int
    pending: tuple[int, ...] = ()
    retries: tuple[Retry, ...] = ()
    topic_id: str = ""
    log_start: int = 0
    """The lowest offset of the log when the partition's position was found: a cursor below it moves there."""

    @property
    def key(self) -> Partition:
        return self.topic, self.partition


@dataclass(slots=True, frozen=True)
class Bounds:
    """What a replay's unit takes, where a pipeline's own unit reads on: ranges of the log, or given records."""

    ends: dict[Partition, int]
    """Nothing is taken from these offsets on."""
    records: tuple[Record, ...] | None = None
    """Instead of the log, in the order of each partition."""


@dataclass(slots=True)
class UnitRequest:
    """A pipeline's share of a window."""

    unit: int
    pipeline: str
    revision: int
    blueprint: bytes
    """A pickled `Blueprint`; empty where the lane's process should have it already, which it answers `unknown` if not.
    """
    assignments: list[Assignment]
    seconds: float
    max_records: int
    closing: bool = False
    """True: close everything this lane holds of the pipeline."""
    last: bool = False
    """True: read nothing and close the action, while what it acknowledges in doing so can still be committed."""
    collect: bool = False
    """True: read nothing and begin nothing; wait for acknowledgements of what the action has deferred."""
    bounds: Bounds | None = None
    """Of a replay; None: read on as events arrive."""
    careful: bool = False
    """True: one event at a time, each named in the in-flight log before anything is done with it."""
    stop_at: int | None = None
    """Of an isolated unit, which has one partition: read nothing from this offset on, where the next suspect is."""
    rate: float | None = None
    """Events per second that may begin."""
    tap: TapWish | None = None
    """Samples of what passes that an open tap wants; None: no tap is open."""


class FailedEvent(OutcomeStruct):
    """A record that ended in failure, with its bytes."""

    record: Record
    failure: Failure
    event_type: str = ""
    """Empty where it could not be decoded."""


class Account(OutcomeStruct):
    """L2: what became of every event that a unit had to do with in one partition (`accounting.check_account`).

    `taken_over + read == acted + filtered + failed + missing + pending`, each counted where it happens.
    """

    began_at: int = 0
    """Where reading began: the assignment's next offset, or the target's cursor where that differs."""
    taken_over: int = 0
    """Pending events of the assignment (0 where a cursor decides)."""
    read: int = 0
    """Records in [began_at, next_offset), read in this unit."""
    acted: int = 0
    """Events that the action has finished; deferred ones when they are acknowledged."""
    filtered: int = 0
    """Events below the next offset that a decoder, filter or transform dropped."""
    failed: int = 0
    """Failures that end their event; with THROW the failing event stays unfinished and is not counted."""
    missing: int = 0
    """Pending offsets that are no longer in the log (compaction, retention)."""


class PartitionOutcome(OutcomeStruct):
    topic: str
    partition: int
    epoch: int
    next_offset: int
    pending: tuple[int, ...] = ()
    retries: tuple[Retry, ...] = ()
    topic_id: str = ""
    """L4: as in the assignment; an outcome about another topic id is dropped."""
    account: Account = msgspec.field(default_factory=Account)
    cursor_gap: tuple[int, int] | None = None
    """The target's cursor stood below the log's start and was moved: from, to."""
    blocked_for: float | None = None
    """Seconds in which nothing can be done here: the first unfinished event waits for its retry, or for an outage to
    pass."""
    blocked_by: str | None = None
    """The outage that the event at `next_offset` (or a pending one) waits for: its schema id is within its grace, a
    registry subject fails, a step before the action cannot reach its target. What lies before it is done and other
    partitions go on; the pipeline shows `waiting` with this reason."""
    suspect_until: int | None = None
    """One of the events below hangs together with others: they are tried one at a time."""
    hung_at: int | None = None
    """The target has a cursor, and a step before the action did not return for this event, which was tried alone: the
    driver makes it a dead letter (stage `timeout`) and moves the cursor past it."""
    deferred: int = 0
    """Pending events whose acknowledgement this worker waits for."""
    at_end: bool = False
    """Everything that was there has been read."""
    out_of_range: bool = False
    gone: bool = False

    @property
    def key(self) -> Partition:
        return self.topic, self.partition


class Counts(OutcomeStruct):
    read: int = 0
    acted: int = 0
    filtered: int = 0
    failed: int = 0
    retried: int = 0
    act_errors: int = 0
    """Times that the action raised or did not return in time, attempts that were repeated included."""
    failed_acks: int = 0
    """Acknowledgements that an external source refused."""
    unrouted: int = 0
    """Filtered because there is no event for the record; `filtered` has them too."""
    early: dict[str, int] = msgspec.field(default_factory=dict)
    """DataHub's change logs by the answer found before their full decode."""

    def add(self, other: Counts) -> None:
        self.read += other.read
        self.acted += other.acted
        self.filtered += other.filtered
        self.failed += other.failed
        self.retried += other.retried
        self.act_errors += other.act_errors
        self.failed_acks += other.failed_acks
        self.unrouted += other.unrouted
        for answer, count in other.early.items():
            self.early[answer] = self.early.get(answer, 0) + count


class StepCounts(OutcomeStruct):
    """What one filter or transform did."""

    processed: int = 0
    filtered: int = 0
    failed: int = 0
    """It raised."""

    def add(self, other: StepCounts) -> None:
        self.processed += other.processed
        self.filtered += other.filtered
        self.failed += other.failed


class Halt(OutcomeStruct):
    """Why a unit ended before its time: an outage, an error that stops the pipeline, a missing blueprint."""

    kind: Literal["outage", "throw", "breaker", "build", "error", "unknown"]
    code: str
    reason: str
    retry_after: float | None = None
    """Seconds that the target asked us to wait."""


class UnitOutcome(OutcomeStruct):
    """How a unit went. `detached` means it is still acting; a later window of the lane brings its end."""

    unit: int
    pipeline: str
    revision: int
    status: Literal["done", "detached", "closed"]
    partitions: list[PartitionOutcome] = msgspec.field(default_factory=list)
    counts: Counts = msgspec.field(default_factory=Counts)
    steps: list[StepCounts] = msgspec.field(default_factory=list)
    """Of the filters and transforms, in their order."""
    times: dict[str, Times] = msgspec.field(default_factory=dict)
    """How long an event took in each stage, by stage."""
    latencies: Latencies = msgspec.field(default_factory=Latencies)
    failures: list[FailedEvent] = msgspec.field(default_factory=list)
    halt: Halt | None = None
    busy: float = 0.0
    """Seconds spent on events, of the unit's time."""
    more: bool = False
    """There was more to read when the unit ended."""
    ended: bool = False
    """An external source has come to its end, and everything of it is finished."""
    remarks: list[str] = msgspec.field(default_factory=list)
    """For the log."""
    samples: list[Sample] = msgspec.field(default_factory=list)
    """What the unit's tap was asked for."""
