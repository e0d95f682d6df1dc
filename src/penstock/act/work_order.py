"""The `work_order` action: each message becomes a work order of a workflow, exactly once."""

from __future__ import annotations

import base64
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, Final, Literal, Self

import orjson
from pydantic import Field

from penstock.config.model import Model
from penstock.core.cipher import Cipher
from penstock.core.declarations import FILE, REFERABLE, SECRET, Address
from penstock.core.durations import Duration
from penstock.core.errors import ConfigError, Unavailable
from penstock.core.event import Event
from penstock.core.plugin import PipelineContext
from penstock.core.plugin_config import parse_config
from penstock.core.sizes import Size
from penstock.tables import cursor
from penstock.tables.action import Chunk, Refused, SqlAction, Taken, Written
from penstock.tables.cursor import Place
from penstock.tables.errors import Fenced, RowRefused, TargetUnavailable
from penstock.tables.target import Connection, Target
from penstock.workflows import notices
from penstock.workflows.backlog import Backlog
from penstock.workflows.bell import ring
from penstock.workflows.intake import Owner, intake_of, owner_of
from penstock.workflows.limits import Limit, Meter, Period
from penstock.workflows.message import MAX_BODY, Accept, InvalidData, Message, MessageReader
from penstock.workflows.recovery import Files, StorageError

_BACKLOG: Final = 100_000


class WorkflowGone(Unavailable):
    """There is no such workflow, or it has no version that could be run."""

    code = "workflow-gone"


class LimitsSpec(Model):
    """Work orders of one calendar period (UTC)."""

    soft: int | None = Field(default=None, ge=0)
    """From this number on work orders are rejected: they are kept, and have no run."""
    hard: int | None = Field(default=None, ge=0)
    """From this number on nothing is taken in: the trigger waits."""
    per: Period = "month"
    """`hour`, `day`, `month` or `total`."""


class WorkOrderConfig(Model):
    """Keys of the `work_order` action."""

    workflow: str
    """The workflow: its id, its name, or `project/name`."""
    project: str | None = None
    """Id of its project; found by the workflow."""
    trigger: str | None = None
    """Id of the trigger that the work orders belong to."""
    snapshot: str | None = None
    """Id of the version that runs use; absent: the newest at the time."""
    names: dict[str, str] = Field(default_factory=dict)
    """What project, workflow and trigger are called."""
    url: Annotated[str, Address("database"), REFERABLE] = ""
    """The store."""
    accept: Accept = "object"
    """`object`: a value that is no JSON object is a dead letter. `any`: it is wrapped as `{"value": …}`."""
    tombstones: Literal["dead_letter", "skip"] = "dead_letter"
    """What becomes of messages without a value."""
    ordering: Literal["none", "key", "partition"] = "none"
    """Runs of the same key, or of the same partition, run one after the other."""
    limits: LimitsSpec | None = None
    """Work orders of the trigger within a period; the project's own limits hold besides."""
    backlog: int | None = Field(default=_BACKLOG, ge=1)
    """Unfinished runs of the trigger at which it waits."""
    alternate_storage: Annotated[str | None, FILE] = None
    """Folder for copies of messages that cannot be stored."""
    storage_secret: Annotated[str | None, SECRET] = None
    """Key under which the copies are encrypted; absent: they are plain text."""
    max_dataclip_bytes: Size = MAX_BODY
    """A larger message is a dead letter."""
    batch: int = Field(default=5_000, ge=1, le=100_000)
    """Messages of one transaction at most."""
    batch_time: Duration = Field(default=0.02, ge=0)
    """How long messages are collected for one."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """What became of messages of files; those that are in neither are work orders now."""

    refused: list[Refused]
    known: set[int]
    """Offsets of messages that had been taken in before."""


class _Undone(Exception):
    """Undoes a transaction that was only to be looked at."""

    def __init__(self, found: Recovered) -> None:
        super().__init__()
        self.found = found


class WorkOrder(SqlAction[Message | None]):
    """Dataclip, work order and run of each message, in one transaction with the cursor."""

    copies = True

    config_model: ClassVar[type[WorkOrderConfig]] = WorkOrderConfig
    type_name: ClassVar[str] = "work_order"

    def __init__(self, config: WorkOrderConfig, pipeline: str) -> None:
        super().__init__(Target(config.url))
        self._config = config
        self.batch_size, self.batch_seconds = config.batch, config.batch_time
        self._reader = MessageReader(config.accept, config.max_dataclip_bytes)
        self._skips = config.tombstones == "skip"
        self._intake = intake_of(self.target.dialect)
        self._backlog = Backlog(config.trigger, config.backlog)
        self._subject = config.trigger or pipeline
        folder = config.alternate_storage
        cipher = Cipher.of(config.storage_secret, "storage_secret") if config.storage_secret else None
        self._files = Files(folder, config.workflow, self._subject, cipher) if folder else None
        self._aside: dict[Place, int] = {}
        """Messages below this offset have been copied."""
        self._again: set[int] = set()
        """Offsets of the last transaction that had been taken in before."""
        self._made = 0

    @classmethod
    def create(cls, config: dict[str, Any], ctx: PipelineContext) -> Self:
        parsed = parse_config(WorkOrderConfig, config, "work_order")
        if not parsed.url:
            raise ConfigError("the store of the workflow is not known", hint="`penstock run` fills it in")
        return cls(parsed, ctx.pipeline_name)

    def prepare(self, event: Event) -> Message | None:
        if self._skips and event.record.value() is None:
            return None
        return self._reader.read(event.record)

    def put(self, chunk: Chunk) -> Written:
        try:
            written = super().put(chunk)
        except Fenced:
            raise
        except TargetUnavailable:
            self.set_aside(chunk.place, chunk.events)
            raise
        self._tell(chunk.place, chunk.events, written.refused)
        return written

    def put_again(self, place: Place, events: Sequence[Event]) -> list[Refused]:
        refused = super().put_again(place, events)
        self._tell(place, events, refused)
        return refused

    def recover(self, place: Place, events: Sequence[Event], *, dry_run: bool = False) -> Recovered:
        """Take in messages of files, whatever the cursor says; each of them once. Without a topic id, by the one that
        the pipeline has known the topic by."""
        prepared, refused = self._prepared(events)
        try:
            found = self._repeated(lambda: self._recovered(place, prepared, dry_run=dry_run))
        except _Undone as undone:
            found = undone.found
        found = Recovered([*refused, *found.refused], found.known)
        if not dry_run:
            self._tell(place, events, [each for each in found.refused if not isinstance(each[1], Unavailable)])
        return found

    def _recovered(self, place: Place, prepared: list[tuple[Event, Message | None]], *, dry_run: bool) -> Recovered:
        with self.target.transaction() as connection:
            ids = cursor.topic_ids(connection, place.pipeline, place.topic)
            place = place._replace(topic_id=place.topic_id or (ids[0] if ids else ""))
            offsets = [event.record.offset() for event, _ in prepared]
            known = self._intake.known(connection, self._owner(connection), {*ids, place.topic_id, ""}, place, offsets)
            rest = [each for each in prepared if each[0].record.offset() not in known]
            taken = self.take(connection, place, rest)
            self._again |= known
            blocked: list[Refused] = []
            if taken.cut is not None:
                blocked = [(event, taken.cut[1]) for event, _ in rest if event.record.offset() >= taken.cut[0]]
            found = Recovered([*taken.refused, *blocked], set(self._again))
            if dry_run:
                raise _Undone(found)
        return found

    def take(self, connection: Connection, place: Place, prepared: list[tuple[Event, Message | None]]) -> Taken:
        owner = self._owner(connection)
        meter = Meter(connection, owner.limits, time.time())
        left = [each for each in prepared if each[1] is not None]
        refused: list[Refused] = []
        cut: tuple[int, Unavailable] | None = None
        self._again, self._made = set(), 0
        while left:
            rejected = meter.soft_room == 0
            room = min(
                meter.hard_room, *([] if rejected else [meter.soft_room, self._backlog.room(connection)]), len(left)
            )
            if room == 0:
                why = meter.reached() if meter.hard_room == 0 else self._backlog.full()
                cut = left[0][0].record.offset(), why
                break
            some, left = left[:room], left[room:]
            before = len(self._again)
            bad = self.sifted(connection, some, partial(self._write, owner=owner, place=place, rejected=rejected))
            made = room - len(bad) - (len(self._again) - before)
            meter.count(made)
            if not rejected:
                self._backlog.add(made)
                self._made += made
            refused += bad
        meter.write()
        self._gather(connection, refused)
        return Taken(refused, cut)

    def _owner(self, connection: Connection) -> Owner:
        config = self._config
        limits = []
        if config.trigger and config.limits:
            given = config.limits
            limits = [Limit(config.trigger, f"trigger {self._name('trigger')}", given.soft, given.hard, given.per)]
        owner = owner_of(connection, config.workflow, config.trigger, limits, config.snapshot)
        if owner is None:
            raise WorkflowGone(
                f"workflow {self._name('workflow')} is not in the store, or has no steps that could be run",
                received=config.workflow,
                hint="penstock workflows apply",
            )
        return owner

    def _write(
        self, connection: Connection, messages: Sequence[Message | None], *, owner: Owner, place: Place, rejected: bool
    ) -> None:
        whole = [message for message in messages if message is not None]
        keys = self._order_key(place)
        self._again |= self._intake.write(connection, owner, place, whole, rejected=rejected, order_key=keys)

    def _order_key(self, place: Place) -> Any:
        by = self._config.ordering
        partition = f"{self._subject}/{place.topic}/{place.partition}"
        if by == "none":
            return lambda _: None
        if by == "partition":
            return lambda _: partition
        subject = self._subject
        return lambda m: partition if m.key is None else f"{subject}/{base64.b64encode(m.key).decode()}"

    def _gather(self, connection: Connection, refused: Sequence[Refused]) -> None:
        """For the next notice to the project's admins."""
        if refused and self._config.trigger:
            records = [event.record for event, _ in refused]
            places = [(record.topic(), record.partition(), record.offset()) for record in records]
            notices.gather(connection, self._config.trigger, places, time.time_ns() // 1_000)

    # -- afterwards ------------------------------------------------------------------------

    def _tell(self, place: Place, events: Sequence[Event], refused: Sequence[Refused]) -> None:
        if self._made:
            ring()
        if self._again:
            for event in events:
                if event.record.offset() in self._again:
                    notices.tell_duplicate(notices.Subject.of(self._subject, event.record))
        for event, error in refused:
            outcome = InvalidData.code if isinstance(error, InvalidData) else notices.PERSISTENCE
            notices.tell_error(notices.Subject.of(self._subject, event.record), outcome)
        self._copy(place, [event for event, error in refused if isinstance(error, RowRefused)])

    def set_aside(self, place: Place, events: Sequence[Event]) -> None:
        """The store does not answer: write copies of what is in hand to alternate storage, each message once."""
        done = self._aside.get(place, 0)
        if self._copy(place, [event for event in events if event.record.offset() >= done]) and events:
            self._aside[place] = events[-1].record.offset() + 1

    def _copy(self, place: Place, events: Sequence[Event]) -> bool:
        if self._files is None:
            return True
        for event in events:
            try:
                self._files.put(event.record, orjson.loads(self._reader.request(event.record)), place.topic_id)
            except StorageError as error:
                # The next one would fail alike.
                notices.tell_storage_error(notices.Subject.of(self._subject, event.record), error.reason)
                return False
        return True

    def _name(self, of: str) -> str:
        return self._config.names.get(of) or getattr(self._config, of) or ""
