"""DataHub's `failed_events.log`: one envelope text per line, without the record's own bytes. Read, made into records
that a pipeline can work on, and taken into the store as dead letters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from penstock.config.spec import PipelineSpec
from penstock.core.dead_letter import DeadLetter, Failure
from penstock.core.errors import ConfigError
from penstock.core.event import ENVELOPE, Record, json_bytes
from penstock.engine.pipelines.dead_letter_sinks import failed_events_path
from penstock.store import Store
from penstock.store.letters.importing import Imported, LetterToImport

_WANTED = '{ "event_type": …, "event": …, "meta": … }'
_BATCH = 500
READABLE = frozenset({"datahub", "json", "text"})
"""Formats whose records can be made of envelopes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedEnvelope:
    """An event as DataHub kept it."""

    line: int
    text: bytes
    event_type: str
    event: Any
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None


def is_failed_events(path: Path) -> bool:
    """Whether a file begins with an envelope."""
    try:
        with path.open("rb") as file:
            first = next((line for line in file if line.strip()), b"")
        data = msgspec.json.decode(first)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return False
    return isinstance(data, dict) and {"event_type", "event"} <= data.keys()


def read_failed_events(path: Path) -> Iterator[FailedEnvelope]:
    """The envelopes of a file, in order; a line that is none raises `ConfigError` with its number. Empty lines do not
    count."""
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, 1):
                if raw.strip():
                    yield _envelope(path, number, raw)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}", received=str(path)) from error


def _envelope(path: Path, number: int, raw: bytes) -> FailedEnvelope:
    try:
        data = msgspec.json.decode(raw)
        # `meta` may be null where it had no form as JSON, and be missing altogether.
        kafka = ((data.get("meta") or {}).get("kafka")) or {}
        return FailedEnvelope(
            line=number,
            text=raw.strip(),
            event_type=data["event_type"],
            event=data["event"],
            topic=kafka.get("topic"),
            partition=kafka.get("partition"),
            offset=kafka.get("offset"),
        )
    except (msgspec.DecodeError, UnicodeDecodeError, AttributeError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{path}, line {number}: this is no envelope of a failed event",
            allowed=_WANTED,
            hint="DataHub appends whole lines; the last one may have been cut off when its process died",
        ) from error


def records_of(spec: PipelineSpec, path: Path) -> Iterator[Record]:
    """The file's events as records of the pipeline; refuses a format that they cannot be turned into."""
    form = spec.source.config.format
    if form not in READABLE:
        raise ConfigError(
            f"events of format {form} cannot be made from {path.name}: it holds decoded values, not the records",
            received=form,
            allowed=sorted(READABLE),
        )
    for kept in read_failed_events(path):
        yield _record(spec, kept)


def _record(spec: PipelineSpec, kept: FailedEnvelope) -> Record:
    form = spec.source.config.format
    # What DataHub could not write down is missing: such events stand in the order of their lines.
    topic = kept.topic or spec.source.config.subscription[0]
    partition = 0 if kept.partition is None else kept.partition
    offset = kept.line - 1 if kept.offset is None else kept.offset
    if form == "datahub":
        return Record(topic, partition, offset, None, kept.text, timestamp_type_=ENVELOPE)
    text = form == "text" and isinstance(kept.event, str)
    return Record(topic, partition, offset, None, kept.event.encode() if text else json_bytes(kept.event))


def owner_of(path: Path, pipelines: Iterable[str]) -> str:
    """The pipeline whose file it is, by DataHub's rule for the folder's name."""
    names = sorted(pipelines)
    found = [name for name in names if failed_events_path("", name).parent.name == path.absolute().parent.name]
    if len(found) != 1:
        raise ConfigError(
            f"{path}: which pipeline's events are these?", allowed=found or names or None, hint="give --pipeline"
        )
    return found[0]


def import_failed_events(store: Store, path: Path, spec: PipelineSpec, *, by: str) -> Imported:
    """Add the file's events as dead letters, all or none; what was added before is left as it is."""
    at = int(path.stat().st_mtime * 1000)
    letters = (_letter(spec, record, path, at) for record in records_of(spec, path))
    batches = iter(lambda: list(islice(letters, _BATCH)), [])
    return store.dead_letters.import_letters(batches, by=by)


def _letter(spec: PipelineSpec, record: Record, path: Path, at: int) -> LetterToImport:
    failure = Failure(
        stage="act",
        error_code="failed-event",
        error_class="",
        error=f"DataHub Actions kept it in {path.name}, without saying what went wrong",
        traceback="",
        fingerprint="failed-event",
        attempts=1,
        first_failed_at=at,
        last_failed_at=at,
    )
    letter = DeadLetter(
        pipeline=spec.name,
        spec_version=spec.version,
        group=spec.group,
        topic=record.topic(),
        # Not the topic's own id, which is not known, so that no letter of a record is taken for one of a file.
        topic_id=f"{path.name}/{record.topic()}",
        partition=record.partition(),
        offset=record.offset(),
        key=None,
        value=record.value(),
        headers=[],
        timestamp=-1,
        timestamp_type=record.timestamp()[0],
        failure=failure,
    )
    return LetterToImport(letter, "new", 0, [])
