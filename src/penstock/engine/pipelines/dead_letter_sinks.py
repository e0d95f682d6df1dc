"""Further homes of dead letters, besides the store: a topic, a file, DataHub's `failed_events.log`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

import orjson
import structlog

from penstock.act.appending import Appender
from penstock.config.spec import PipelineSpec
from penstock.core.dead_letter import DeadLetter
from penstock.core.errors import PenstockError, Unavailable
from penstock.core.event import Event, Headers, json_bytes
from penstock.core.letter_json import letter_as_json
from penstock.core.plugin import Decoder, PipelineContext
from penstock.decode import decoder_for
from penstock.kafka.client import KafkaClientConfig
from penstock.kafka.producer import NewRecord, RecordProducer, RecordRefused
from penstock.pipeline.messages import FailedEvent

log = structlog.get_logger("penstock.dead_letters")

PREFIX: Final = "penstock."
_TIMEOUT: Final = 10.0
"""Seconds that a cluster has to confirm letters; the pipeline's thread waits for it."""
_ERROR_CHARACTERS: Final = 1_000
"""The store has the whole message; brokers count headers towards the largest record."""

Failed = tuple[FailedEvent, DeadLetter]


class SinkUnavailable(Unavailable):
    """A dead-letter topic or file cannot be written now."""

    code = "dead_letter_sink"


class Sink(Protocol):
    """One home of letters."""

    def write(self, letters: Sequence[Failed]) -> None:
        """When this returns, the letters are durable there; `Unavailable` where that has to wait."""

    def close(self) -> None: ...


def sinks_of(spec: PipelineSpec, client: KafkaClientConfig, folder: str | None) -> list[Sink]:
    """The homes that the pipeline's options name."""
    wanted = spec.options.dead_letter
    sinks: list[Sink] = []
    if wanted.topic:
        sinks.append(TopicSink(wanted.topic, client))
    if wanted.file:
        path = (Path(folder or ".") / Path(wanted.file).expanduser()).absolute()
        sinks.append(FileSink(path, wanted.rotate))
    if spec.options.failed_events_dir:
        path = failed_events_path(spec.options.failed_events_dir, spec.name)
        if spec.source.config.format == "datahub":
            sinks.append(DataHubSink(path, wanted.rotate, spec))
        else:
            sink = EnvelopesSink if spec.source.is_foreign else FailedEventsSink
            sinks.append(sink(path, wanted.rotate))
    return sinks


class TopicSink:
    """The record as it was, with what happened in headers under one prefix."""

    def __init__(self, topic: str, client: KafkaClientConfig) -> None:
        self._topic = topic
        self._client = client
        self._producer: RecordProducer | None = None
        self._sent: set[tuple[str, str, int, int, int]] = set()

    def write(self, letters: Sequence[Failed]) -> None:
        # What was confirmed before an outage is not sent again when the rest is.
        waiting = [letter for _, letter in letters if _once(letter) not in self._sent]
        try:
            self._send([self._record(letter) for letter in waiting], waiting)
        except PenstockError as error:
            self.close()  # after an outage an idempotent producer may have lost its place in the sequence for good
            raise SinkUnavailable(f"the dead-letter topic {self._topic} cannot be written: {error}") from error
        self._sent.clear()

    def _send(self, records: Sequence[NewRecord], letters: Sequence[DeadLetter]) -> None:
        producer = self._producer = self._producer or RecordProducer(self._client, timeout=_TIMEOUT)
        failure: PenstockError | None = None
        for letter, sent in zip(letters, producer.send(records), strict=True):
            # The topic takes no record this large: say where the value is instead.
            result = producer.send([self._reference(letter)])[0] if isinstance(sent, RecordRefused) else sent
            if isinstance(result, PenstockError) and not isinstance(result, RecordRefused):
                failure = failure or result
                continue
            if isinstance(result, RecordRefused):
                log.warning("dead letter is too large for the topic, even without its value", **_where(letter))
            self._sent.add(_once(letter))
        if failure:
            raise failure

    def _record(self, letter: DeadLetter) -> NewRecord:
        return NewRecord(self._topic, letter.value, letter.key, [*letter.headers, *context_headers(letter)])

    def _reference(self, letter: DeadLetter) -> NewRecord:
        value = letter.value or b""
        omitted = {"value_omitted": f"{len(value)} bytes", "value_sha256": hashlib.sha256(value).hexdigest()}
        return NewRecord(self._topic, None, letter.key, [*context_headers(letter), *_headers(omitted)])

    def close(self) -> None:
        if self._producer is not None:
            self._producer.close()
            self._producer = None


class FileSink:
    """One JSON line per letter, as exports have them."""

    def __init__(self, path: Path, rotate: int) -> None:
        self._path = path
        self._rotate = rotate
        self._appender: Appender | None = None

    def write(self, letters: Sequence[Failed]) -> None:
        self._append(b"".join(json_bytes(letter_as_json(letter)) + b"\n" for _, letter in letters))

    def _append(self, lines: bytes) -> None:
        try:
            # Payloads may be private; on disk before the offset is committed.
            self._appender = self._appender or Appender(self._path, self._rotate, fsync=True)
            self._appender.append(lines)
        except (OSError, Unavailable) as error:
            raise SinkUnavailable(f"the dead-letter file {self._path} cannot be written: {error}") from error

    def close(self) -> None:
        if self._appender is not None:
            self._appender.close()
            self._appender = None


class FailedEventsSink(FileSink):
    """DataHub's file: the event's envelope, one per line. The store has the letters, so problems are only warnings."""

    def write(self, letters: Sequence[Failed]) -> None:
        try:
            if lines := b"".join(self._lines(failed for failed, _ in letters)):
                self._append(lines)
        except Unavailable as error:
            log.warning("failed events were not written for DataHub's tools; the store has them", reason=str(error))

    def _lines(self, failures: Iterator[FailedEvent]) -> Iterator[bytes]:
        return envelope_lines(failures)


class EnvelopesSink(FailedEventsSink):
    """The same for a source of the user's own, which gave envelopes in the first place."""

    def _lines(self, failures: Iterator[FailedEvent]) -> Iterator[bytes]:
        return ((failed.record.value() or b"").replace(b"\n", b" ") + b"\n" for failed in failures)


class DataHubSink(FailedEventsSink):
    """The same for DataHub's own records. They are decoded once more, for the envelope is wanted as it was before any
    step changed it, also where the process that had it is gone."""

    def __init__(self, path: Path, rotate: int, spec: PipelineSpec) -> None:
        super().__init__(path, rotate)
        self._spec = spec
        self._decoder: Decoder | None = None

    def _lines(self, failures: Iterator[FailedEvent]) -> Iterator[bytes]:
        records = [failed.record for failed in failures if failed.failure.stage != "decode"]
        if not records:
            return
        if self._decoder is None:
            self._decoder = decoder_for(self._spec.source.config, PipelineContext(self._spec.name))
        for event in self._decoder.decode(records):
            if isinstance(event, Event):
                yield event.as_json().encode() + b"\n"

    def close(self) -> None:
        super().close()
        if self._decoder is not None:
            self._decoder.close()
            self._decoder = None


def failed_events_path(folder: str, pipeline: str) -> Path:
    """DataHub's path rule; two names may share a file."""
    return Path(folder).expanduser() / re.sub(r"[^\w-]", "_", pipeline.lower()) / "failed_events.log"


def envelope_lines(failures: Iterator[FailedEvent]) -> Iterator[bytes]:
    """Envelopes as DataHub writes them; events that could not be decoded have none."""
    for failed in failures:
        body = _json_of(failed)
        if failed.failure.stage == "decode" or body is None:
            continue
        record = failed.record
        where = {"topic": record.topic(), "offset": record.offset(), "partition": record.partition()}
        meta = orjson.dumps({"kafka": where})
        kind = orjson.dumps(failed.event_type)
        yield b'{ "event_type": %b, "event": %b, "meta": %b }\n' % (kind, body, meta)


def _json_of(failed: FailedEvent) -> bytes | None:
    for text in (failed.failure.value_seen, failed.record.value()):
        try:
            orjson.loads(text or b"")
        except orjson.JSONDecodeError:
            continue
        return (text or b"").replace(b"\r", b" ").replace(b"\n", b" ")  # JSON has none within its texts
    return None


def context_headers(letter: DeadLetter) -> Headers:
    """What a letter says besides its record."""
    failure = letter.failure
    return _headers(
        {
            "pipeline": letter.pipeline,
            "spec_version": letter.spec_version,
            "group": letter.group,
            "topic": letter.topic,
            "topic_id": letter.topic_id,
            "partition": letter.partition,
            "offset": letter.offset,
            "timestamp": letter.timestamp,
            "stage": failure.stage,
            "error_code": failure.error_code,
            "error_class": failure.error_class,
            "error": failure.error[:_ERROR_CHARACTERS],
            "attempts": failure.attempts,
            "first_failed_at": failure.first_failed_at,
            "last_failed_at": failure.last_failed_at,
            "fingerprint": failure.fingerprint,
        }
    )


def _headers(values: Mapping[str, object]) -> Headers:
    return [(PREFIX + name, str(value).encode("utf-8", "backslashreplace")) for name, value in values.items()]


def _once(letter: DeadLetter) -> tuple[str, str, int, int, int]:
    return letter.pipeline, letter.topic_id, letter.partition, letter.offset, letter.failure.last_failed_at


def _where(letter: DeadLetter) -> dict[str, object]:
    return {
        "pipeline": letter.pipeline,
        "topic": letter.topic,
        "partition": letter.partition,
        "offset": letter.offset,
    }
