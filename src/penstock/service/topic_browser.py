"""Looking into topics: a bounded page of records, and what each decoder makes of one."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import orjson

from penstock.config.source import KafkaSourceConfig
from penstock.config.spec import ConnectionSpec, PipelineSpec
from penstock.core.deadline import Deadline
from penstock.core.errors import ConfigError, PenstockError
from penstock.core.event import Record, RecordLike
from penstock.core.plugin import PipelineContext
from penstock.decode.registry import decoder_for, decoders
from penstock.kafka.admin import ClusterView, Place
from penstock.kafka.client import KafkaClientConfig
from penstock.kafka.partition_reader import PartitionReader
from penstock.service.ranges import point

SECONDS: Final = 8.0
"""A look takes no longer than this, even where a key is searched for and not found."""
_BYTES: Final = 16 << 20
"""Values held at once."""
MOST: Final = 500
_TEXT: Final = 200_000
"""Characters of a decoded value that are shown."""


@dataclass(frozen=True, slots=True)
class Page:
    """Records of a topic, newest first."""

    records: list[Record]
    looked_at: int
    """Records that were read to find them."""
    ended: bool
    """False: time or room was over before all that was asked for had been read."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """What one decoder made of a record."""

    decoder: str
    configured: bool
    """It is the one that the pipeline uses."""
    value: str | None = None
    """Pretty JSON, bounded; None: it failed."""
    why: str | None = None
    """Why it failed."""


def browse(
    connection: ConnectionSpec,
    topic: str,
    *,
    partition: int | None = None,
    start: str = "newest",
    key: str | None = None,
    limit: int = 50,
    seconds: float = SECONDS,
) -> Page:
    """Read a page: the `newest` records, or those from an offset, a time or `earliest` on; with `key`, only the ones
    whose key has this text in it."""
    if not 1 <= limit <= MOST:
        raise ConfigError("the number of records is out of range", received=limit, allowed=f"1 to {MOST}")
    deadline = Deadline.after(seconds)
    client = KafkaClientConfig.of(connection)
    cluster = ClusterView(client, seconds)
    count = cluster.existing([topic])[topic]
    if partition is not None and not 0 <= partition < count:
        raise ConfigError(f"{topic} has no partition {partition}", received=partition, allowed=f"0 to {count - 1}")
    places = [(topic, n) for n in range(count) if partition in (None, n)]
    marks = cluster.watermarks(places)
    begins = _begins(cluster, marks, start, math.inf if key else limit)
    ends = {place: end for place, (_, end) in marks.items() if begins[place] < end}
    begins = {place: begins[place] for place in ends}
    return _read(client, begins=begins, ends=ends, key=key, limit=limit, deadline=deadline)


def _begins(cluster: ClusterView, marks: dict[Place, tuple[int, int]], start: str, limit: float) -> dict[Place, int]:
    if start.strip().lower() == "newest":
        # A key is searched for among this many of the newest, not in the whole topic.
        back = int(min(limit, 20_000))
        return {place: max(first, end - back) for place, (first, end) in marks.items()}
    at = point("start", start)
    if at.kind == "earliest":
        return {place: first for place, (first, _) in marks.items()}
    if at.kind == "latest":
        return {place: end for place, (_, end) in marks.items()}
    if at.kind == "time":
        young = cluster.offsets_for_times(dict.fromkeys(marks, at.at))
        return {place: end if (found := young.get(place)) is None else found for place, (_, end) in marks.items()}
    return {place: min(max(at.at, first), end) for place, (first, end) in marks.items()}


def _read(
    client: KafkaClientConfig,
    *,
    begins: dict[Place, int],
    ends: dict[Place, int],
    key: str | None,
    limit: int,
    deadline: Deadline,
) -> Page:
    found: list[Record] = []
    per_place: dict[Place, int] = {}
    looked_at = size = 0
    wanted = key.encode() if key else None
    open_places = set(begins)
    reader = PartitionReader(client, name="penstock-browse")
    try:
        reader.place(begins)
        while open_places and not deadline.expired and size < _BYTES:
            batch = reader.read(500, min(0.5, deadline.remaining))
            for record in batch.records if batch is not None else ():
                place = (record.topic(), record.partition())
                looked_at += 1
                if record.offset() >= ends[place] or per_place.get(place, 0) >= limit:
                    continue
                if wanted is None or wanted in (record.key() or b""):
                    found.append(Record.of(record))
                    per_place[place] = per_place.get(place, 0) + 1
                    size += len(record.value() or b"")
            open_places = {
                place
                for place in open_places
                if reader.position(place) < ends[place] and not reader.at_end(place) and per_place.get(place, 0) < limit
            }
            if batch is None and reader.trouble.error:
                ClusterView(client, max(1.0, deadline.remaining)).cluster_id()
                reader.trouble.error = None
    finally:
        reader.close()
    return Page(_newest(found, limit), looked_at, not open_places)


def _newest(found: Iterable[Record], limit: int) -> list[Record]:
    return sorted(found, key=lambda r: (r.timestamp()[1], r.offset()), reverse=True)[:limit]


def decoder_report(record: RecordLike, spec: PipelineSpec | None) -> list[Attempt]:
    """What every decoder makes of the record's value, the pipeline's own first; why each other one does not fit."""
    source = spec.source.config if spec is not None else KafkaSourceConfig(topics=[record.topic()])
    own = spec.source.config.format if spec is not None else None
    names = [info.name for info in decoders.names()]
    attempts = [_attempt(name, record, source, spec, configured=name == own) for name in names]
    return sorted(attempts, key=lambda tried: (not tried.configured, tried.value is None, tried.decoder))


def _attempt(
    name: str, record: RecordLike, source: KafkaSourceConfig, spec: PipelineSpec | None, *, configured: bool
) -> Attempt:
    # An id that the registry does not know is not waited for here.
    tried = source.model_copy(update={"format": name, "schema_grace": 0.0})
    ctx = PipelineContext(spec.name if spec else "console", folder=spec.folder if spec else None, source=tried)
    try:
        decoder = decoder_for(tried, ctx)
    except PenstockError as error:
        return Attempt(name, configured, why=str(error))
    try:
        [decoded] = decoder.decode([record])
    except Exception as error:  # noqa: BLE001 - a decoder may be anybody's, and this is a report on it
        return Attempt(name, configured, why=f"{type(error).__name__}: {error}")
    finally:
        decoder.close()
    if isinstance(decoded, Exception):
        return Attempt(name, configured, why=str(decoded))
    if decoded is None:
        return Attempt(name, configured, why="it is none of this decoder's events, and would be dropped")
    return Attempt(name, configured, value=pretty(decoded.value))


def pretty(value: Any) -> str:
    """Indented JSON of any value, bounded."""
    try:
        text = orjson.dumps(value, default=str, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS).decode()
    except (TypeError, ValueError):  # numbers beyond 64 bits, text that is not Unicode
        text = repr(value)
    return text if len(text) <= _TEXT else f"{text[:_TEXT]}\n… ({len(text) - _TEXT} more characters)"
