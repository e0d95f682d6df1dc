"""The kit for users' own tests: an in-memory run of a pipeline over given events, without Spark and without a broker.

    from penstock.testing import given, run_pipeline

    run = run_pipeline("orders.yaml", [{"total": 120}, given({"total": 5}, key="k1")])
    assert [event.outcome for event in run] == ["acted", "filtered"]

Decoding, filters, transforms and the action are those of production. Each event is tried once, whatever `options` say.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import orjson

from penstock.act.registry import check_action
from penstock.config.loading import load
from penstock.config.problems import InvalidConfigError
from penstock.config.spec import PipelineSpec, StepSpec
from penstock.core.errors import ConfigError, DecodeError, PenstockError
from penstock.core.event import Event, Headers, Record, RecordLike, json_default
from penstock.core.plugin import Action, Decoder, PipelineContext
from penstock.datahub.events import EVENTS
from penstock.pipeline.chain import Chain
from penstock.pipeline.items import FailedItem, Item

__all__ = ["Given", "Outcome", "Run", "TestPipeline", "given", "run_pipeline"]

Acting = Literal["auto", "real", "recorded"]
"""`recorded`: the action is checked but not run; `auto`: so for the built-in actions that reach out of the process."""

_REACH_OUT = frozenset({"command", "file", "kafka", "notify", "slack", "table", "teams", "webhook", "work_order"})
_DECODED_HERE = frozenset({"json", "raw", "text"})
"""Formats whose bytes can be made from a value; others need a registry, so their values are taken as decoded."""


class _Absent:
    def __repr__(self) -> str:
        return "absent"


ABSENT: Any = _Absent()


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """A record to run a pipeline over; `given` makes one."""

    value: Any = ABSENT
    """The decoded value; absent, and without `raw`: a record without a value."""
    raw: bytes | None = None
    """The record's bytes, instead of `value`."""
    key: bytes | None = None
    headers: Headers = field(default_factory=list)
    topic: str | None = None
    """Default: the pipeline's first topic."""
    partition: int = 0
    timestamp: int = 0
    """Epoch milliseconds."""
    event_type: str | None = None
    """For formats that need a registry; default: the topic."""


def given(
    value: Any = ABSENT,
    *,
    raw: bytes | str | None = None,
    key: bytes | str | None = None,
    headers: Mapping[str, Any] | Iterable[tuple[str, Any]] = (),
    **more: Any,
) -> Given:
    """A record with this value (or these raw bytes), key and headers; texts become UTF-8."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    found = [(name, _as_bytes(each)) for name, each in pairs]
    return Given(value=value, raw=_as_bytes(raw), key=_as_bytes(key), headers=found, **more)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one event ended."""

    outcome: Literal["acted", "filtered", "failed", "deferred"]
    value: Any = None
    """The value as the action received it, or as the failing stage did."""
    stage: str | None = None
    """Of a failure: `decode`, `filter`, `transform` or `act`."""
    error: str | None = None
    error_code: str | None = None
    """A `PenstockError`'s code, else the exception's class."""
    exception: BaseException | None = None
    event: Event | None = None
    """What the action received."""


class Run(Sequence[Outcome]):
    """The outcomes of a run, one per given event, in order."""

    def __init__(self, outcomes: Sequence[Outcome]) -> None:
        self._outcomes = list(outcomes)

    def __getitem__(self, index: Any) -> Any:
        return self._outcomes[index]

    def __len__(self) -> int:
        return len(self._outcomes)

    def __iter__(self) -> Iterator[Outcome]:
        return iter(self._outcomes)

    @property
    def acted(self) -> list[Any]:
        """Values that the action received and finished."""
        return [each.value for each in self if each.outcome == "acted"]

    @property
    def failed(self) -> list[Outcome]:
        return [each for each in self if each.outcome == "failed"]

    @property
    def filtered(self) -> int:
        """Number of events that a filter or transform dropped."""
        return sum(each.outcome == "filtered" for each in self)

    def __repr__(self) -> str:
        return f"Run({[each.outcome for each in self]})"


class Recorded(Action):
    """Stands in for an action that reaches out of the process: every event is done."""

    @classmethod
    def create(cls, config: dict[str, Any], ctx: PipelineContext) -> Self:  # noqa: ARG003 - the contract's signature
        return cls()

    def close(self) -> None:
        """Nothing is open."""


class _Source:
    """`ctx.event_source`: hears the acknowledgements of deferred events."""

    def __init__(self) -> None:
        self.acknowledged: set[tuple[str, int, int]] = set()

    def ack(self, event: Any, processed: bool = True) -> None:  # noqa: FBT001 - DataHub's signature
        if processed:
            kafka = event.meta["kafka"]
            self.acknowledged.add((kafka["topic"], kafka["partition"], kafka["offset"]))


class _AsDecoded(Decoder):
    """Takes the given values as what a decoder would have made."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, int, int], Given] = {}

    @classmethod
    def create(cls, source: Any, ctx: PipelineContext) -> Self:  # noqa: ARG003 - the contract's signature
        return cls()

    def decode(self, records: Sequence[RecordLike]) -> list[Event | Exception]:
        return [self._event(record) for record in records]

    def _event(self, record: RecordLike) -> Event | Exception:
        one = self.values.pop(_place(record))
        event_type = sys.intern(one.event_type or record.topic())
        if event_type in EVENTS and isinstance(one.value, Mapping):
            try:
                event = EVENTS[event_type].from_json(orjson.dumps(one.value, default=json_default))
            except ValueError as error:
                return DecodeError(str(error))
            return Event(record, event, event_type, event)
        return Event(record, None if one.value is ABSENT else one.value, event_type)


class TestPipeline:
    """A pipeline in memory, alive over several calls of `send`, so that an action's state is kept between them."""

    __test__ = False  # not a test class, whatever its name makes pytest think

    def __init__(self, pipeline: PipelineSpec | Mapping[str, Any] | str | Path, *, act: Acting = "auto") -> None:
        self.spec = pipeline if isinstance(pipeline, PipelineSpec) else _load(pipeline)
        self._source = _Source()
        self._offsets: dict[tuple[str, int], int] = {}
        folder = self.spec.folder
        ctx = PipelineContext(self.spec.name, None, self._source, folder=folder, source=self.spec.source.config)
        self._decoded_here = (self.spec.source.config.format or "json") in _DECODED_HERE
        self._as_decoded = _AsDecoded()
        self._chain = Chain.build(self._runnable(act, folder), ctx)
        if not self._decoded_here:
            self._chain.decoder = self._as_decoded
        self.action: Any = getattr(self._chain.action, "plugin", self._chain.action)
        """The action's object; of a plug-in written for DataHub, the user's own."""
        self._loop = asyncio.new_event_loop()

    def send(self, *events: Any) -> Run:
        """Run the events through the pipeline: `given(…)` records, or plain values."""
        records = [self._record(one if isinstance(one, Given) else Given(value=one)) for one in events]
        items = {_place(item.record): item for item in self._chain.prepare(records)} if records else {}
        ready = [item for item in items.values() if isinstance(item, Event)]
        results = dict(zip((_place(event.record) for event in ready), self._act(ready), strict=True))
        return Run([self._outcome(items.get(place), results.get(place)) for place in map(_place, records)])

    def close(self) -> None:
        """Close the action, as the pipeline's stop does."""
        if self._loop.is_closed():
            return
        closing = self._chain.action.close()
        if inspect.isawaitable(closing):
            self._loop.run_until_complete(closing)
        self._chain.close()
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _runnable(self, act: Acting, folder: str | None) -> PipelineSpec:
        spec = self.spec
        if not self._decoded_here:
            source = spec.source.config.model_copy(update={"format": "json"})
            spec = spec.model_copy(update={"source": spec.source.model_copy(update={"config": source})})
        step = spec.action
        if act == "recorded" or (act == "auto" and step.type in _REACH_OUT):
            check_action(step.type, step.config, folder)
            spec = spec.model_copy(update={"action": StepSpec(type="penstock.testing:Recorded")})
        return spec

    def _record(self, one: Given) -> Record:
        config = self.spec.source.config
        topic = one.topic or (config.topics[0] if config.topics else config.topic_pattern or "topic")
        offset = self._offsets.get((topic, one.partition), 0)
        self._offsets[topic, one.partition] = offset + 1
        record = Record(
            topic, one.partition, offset, one.key, self._bytes(one), list(one.headers) or None, one.timestamp, 1
        )
        if not self._decoded_here:
            self._as_decoded.values[_place(record)] = one
        return record

    def _bytes(self, one: Given) -> bytes | None:
        form = self.spec.source.config.format or "json"
        if one.raw is not None or one.value is ABSENT:
            if one.raw is not None and not self._decoded_here:
                message = f"raw bytes of format {form} need a registry; give the decoded value instead"
                raise ConfigError(message, received="raw", allowed=["value"])
            return one.raw
        if form in {"text", "raw"} and isinstance(one.value, (str, bytes)):
            return _as_bytes(one.value)
        return orjson.dumps(one.value, default=json_default)

    def _act(self, events: list[Event]) -> list[Any]:
        if not events:
            return []
        if callable(getattr(self._chain.action, "act_batch", None)):
            return self._act_batch(events)
        return [self._act_one(event) for event in events]

    def _act_batch(self, events: list[Event]) -> list[Any]:
        try:
            results = list(self._chain.action.act_batch(events))  # type: ignore[attr-defined]  # asked for by the caller
        except Exception as error:  # noqa: BLE001 - the failure of every event in it
            return [error] * len(events)
        if len(results) != len(events):
            raise ConfigError(f"act_batch returned {len(results)} results for {len(events)} events")
        return results

    def _act_one(self, event: Event) -> Any:
        try:
            result = self._chain.action.act(event)
            return self._loop.run_until_complete(result) if inspect.isawaitable(result) else result
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever an action raises is its event's failure
            return error

    def _outcome(self, item: Item | None, result: Any) -> Outcome:
        if item is None:
            return Outcome(outcome="filtered")
        if isinstance(item, FailedItem):
            return _failed(item.stage, item.error, item.value)
        if isinstance(result, BaseException):
            return _failed("act", result, item.value, item)
        if result is not None and not isinstance(result, bool):
            wrong = f"act returned {type(result).__name__}; None or True is done, False deferred"
            return _failed("act", ConfigError(wrong), item.value, item, code="act-result")
        deferred = result is False and _place(item.record) not in self._source.acknowledged
        return Outcome(outcome="deferred" if deferred else "acted", value=item.value, event=item)


def run_pipeline(
    pipeline: PipelineSpec | Mapping[str, Any] | str | Path, events: Iterable[Any], *, act: Acting = "auto"
) -> Run:
    """Run events through a pipeline given as spec, map, file or YAML text, and close it."""
    with TestPipeline(pipeline, act=act) as running:
        return running.send(*events)


def _load(pipeline: Mapping[str, Any] | str | Path) -> PipelineSpec:
    if isinstance(pipeline, Path) or (isinstance(pipeline, str) and "\n" not in pipeline and ":" not in pipeline):
        return _only(Path(pipeline))
    text = pipeline if isinstance(pipeline, str) else orjson.dumps(dict(pipeline), default=json_default).decode()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pipeline.yaml"  # JSON is YAML, too
        file.write_text(text)
        # Relative paths of a pipeline without a file begin where the test runs.
        return _only(file).with_origin(str(Path.cwd() / "pipeline.yaml"))


def _only(file: Path) -> PipelineSpec:
    loaded = load([file])
    if loaded.problems:
        raise InvalidConfigError(loaded.problems)
    if len(loaded.specs) != 1:
        names = [spec.name for spec in loaded.specs]
        raise ConfigError(f"one pipeline is wanted, and {file.name} has {len(names)}", received=names)
    return loaded.specs[0]


def _failed(stage: str, error: BaseException, value: Any, event: Event | None = None, code: str = "") -> Outcome:
    known = error.code if isinstance(error, PenstockError) else type(error).__name__
    return Outcome(
        outcome="failed",
        value=value,
        stage=stage,
        error=str(error) or type(error).__name__,
        error_code=code or known,
        exception=error,
        event=event,
    )


def _place(record: RecordLike) -> tuple[str, int, int]:
    return record.topic(), record.partition(), record.offset()


def _as_bytes(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return value.encode() if isinstance(value, str) else str(value).encode()
