"""Topics, seen through the connection of a pipeline: nobody types addresses or passwords here."""

from __future__ import annotations

from typing import Any, Final

from pydantic import Field

from penstock.core.errors import ConfigError
from penstock.core.event import TIMESTAMP_TYPES, RecordLike
from penstock.core.letter_json import bytes_as_json
from penstock.core.secrets import MASK
from penstock.service import topic_browser
from penstock.service.access import Actor, NotFound, allows
from penstock.service.operations.desk import Desk
from penstock.service.operations.letter_models import Bytes, HeaderView
from penstock.service.operations.models import View
from penstock.service.topic_tail import TopicTail
from penstock.service.topics import Topics

LONGEST_TAIL: Final = 300.0
"""Seconds: whoever wants more asks again."""
MOST_TAILED: Final = 100_000
_MOST_BYTES: Final = 100_000
"""Of a value that is shown in a list; its end is cut off."""


class TopicItem(View):
    topic: str
    partitions: int
    records: int | None = None
    """Sum over partitions of end minus first offset."""


class RecordView(View):
    """One record as it stands in its topic."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None = None
    """Epoch milliseconds."""
    timestamp_type: str
    key: Bytes | None = None
    value: Bytes | None = None
    headers: list[HeaderView] = Field(default_factory=list)
    size: int = 0
    """Bytes of the value."""
    masked: bool = False


class RecordPage(View):
    """Records, newest first."""

    records: list[RecordView]
    looked_at: int
    """Records that were read to find them."""
    complete: bool
    """False: time or room was over before all that was asked for had been read."""


class DecoderAttempt(View):
    """What one decoder made of a record."""

    decoder: str
    configured: bool
    """It is the one that the pipeline uses."""
    value: str | None = None
    """JSON; null: it failed."""
    why: str | None = None
    """Why it failed."""


def list_topics(desk: Desk, actor: Actor, pipeline: str) -> list[TopicItem]:
    """Of the pipeline's cluster; those whose role holds for a project only see what the pipeline reads."""
    topics = _topics(desk, actor, pipeline)
    found = topics.list()
    if not allows(actor, "topics.view"):
        mine = set(desk.spec(pipeline).source.config.subscribed([view.topic for view in found]))
        found = [view for view in found if view.topic in mine]
    return [TopicItem(topic=view.topic, partitions=view.partitions, records=view.records) for view in found]


def browse(
    desk: Desk,
    actor: Actor,
    pipeline: str,
    topic: str,
    *,
    partition: int | None = None,
    start: str = "newest",
    key: str | None = None,
    limit: int = 50,
) -> RecordPage:
    """A page: the `newest` records, or those from an offset, a time or `earliest` on; with `key`, only the ones whose
    key has this text in it."""
    require_readable(desk, actor, pipeline, topic)
    desk.note_read(actor, "topics.read", f"topic/{topic}", desk.project_of(pipeline), pipeline=pipeline)
    connection = desk.spec(pipeline).source.config.connection
    page = topic_browser.browse(connection, topic, partition=partition, start=start, key=key, limit=limit)
    records = [RecordView.model_validate(_data(desk, record)) for record in page.records]
    return RecordPage(records=records, looked_at=page.looked_at, complete=page.ended)


def decoder_report(
    desk: Desk, actor: Actor, pipeline: str, topic: str, *, partition: int, offset: int
) -> list[DecoderAttempt]:
    """What every decoder makes of one record, the pipeline's own first, and why each other one does not fit."""
    require_readable(desk, actor, pipeline, topic)
    desk.note_read(actor, "topics.read", f"topic/{topic}", desk.project_of(pipeline), pipeline=pipeline)
    spec = desk.spec(pipeline)
    page = topic_browser.browse(spec.source.config.connection, topic, partition=partition, start=str(offset), limit=1)
    record = next((each for each in page.records if each.offset() == offset), None)
    if record is None:
        raise NotFound(f"there is no record {topic}/{partition}@{offset}", received=offset)
    hidden, words = desk.masking.applies(topic), desk.masking.words(topic, record.value())
    return [
        DecoderAttempt(
            decoder=tried.decoder,
            configured=tried.configured,
            value=MASK if hidden and tried.value is not None else tried.value,
            why=words(tried.why) if tried.why else None,
        )
        for tried in topic_browser.decoder_report(record, spec)
    ]


class Tail:
    """A bounded series of records as they come."""

    def __init__(self, desk: Desk, following: TopicTail) -> None:
        self._desk, self._following = desk, following

    def some(self) -> list[dict[str, Any]]:
        """The next ones, as data; none where none came for a moment."""
        return [_data(self._desk, record) for record in self._following.some()]

    @property
    def over(self) -> bool:
        return self._following.over

    def close(self) -> None:
        self._following.close()


def tail(
    desk: Desk, actor: Actor, pipeline: str, topic: str, *, seconds: float = 30.0, limit: int = 1_000, last: int = 10
) -> Tail:
    """The last records of each partition, and then new ones, until so many or so long; close it."""
    if not 0 < seconds <= LONGEST_TAIL or not 1 <= limit <= MOST_TAILED or not 0 <= last <= 100:
        raise ConfigError(
            "a tail is bounded", allowed=f"up to {LONGEST_TAIL:g} seconds, {MOST_TAILED} records, the last 100"
        )
    require_readable(desk, actor, pipeline, topic)
    desk.note_read(actor, "topics.tail", f"topic/{topic}", desk.project_of(pipeline), pipeline=pipeline)
    connection = desk.spec(pipeline).source.config.connection
    return Tail(desk, TopicTail(connection, topic, last=last, seconds=seconds, limit=limit))


def _topics(desk: Desk, actor: Actor, pipeline: str) -> Topics:
    desk.pipeline(actor, "topics.view", pipeline)
    spec = desk.spec(pipeline)
    if spec.source.is_foreign:
        raise ConfigError(f"{pipeline} does not read from Kafka", received=pipeline)
    return Topics(spec.source.config.connection)


def require_readable(desk: Desk, actor: Actor, pipeline: str, topic: str) -> None:
    """Raise unless the actor may read the topic through the pipeline."""
    desk.pipeline(actor, "topics.view", pipeline)
    spec = desk.spec(pipeline)
    if spec.source.is_foreign:
        raise ConfigError(f"{pipeline} does not read from Kafka", received=pipeline)
    if not allows(actor, "topics.view") and not spec.source.config.subscribed([topic]):
        raise NotFound("the pipeline reads no such topic", received=topic)


def _data(desk: Desk, record: RecordLike) -> dict[str, Any]:
    """The fields of a `RecordView`, which nobody has to check: a thousand of them are streamed in a second."""
    kind, millis = record.timestamp()
    topic, value = record.topic(), record.value()
    shown = desk.masking.bytes(topic, value)
    return {
        "topic": topic,
        "partition": record.partition(),
        "offset": record.offset(),
        "timestamp": millis if kind else None,
        "timestamp_type": TIMESTAMP_TYPES[kind],
        "key": _bytes(record.key()),
        "value": _bytes(shown),
        "headers": [{"name": name, "value": _bytes(content)} for name, content in record.headers() or []],
        "size": len(value or b""),
        "masked": desk.masking.applies(topic),
    }


def _bytes(raw: bytes | None) -> dict[str, str | None] | None:
    data = bytes_as_json(None if raw is None else _cut(raw))
    return None if data is None else {"text": data.get("text"), "base64": data.get("base64")}


def _cut(raw: bytes) -> bytes:
    # Cut between characters, or text would turn into base64.
    return raw if len(raw) <= _MOST_BYTES else raw[:_MOST_BYTES].decode("utf-8", "ignore").encode()
