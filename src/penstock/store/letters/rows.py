"""Letters as rows and back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
import sqlalchemy as sa

from penstock.core.dead_letter import DeadLetter, Failure
from penstock.core.event import Headers, Record
from penstock.store.errors import StoreRowUnreadable
from penstock.store.letters import search
from penstock.store.letters.model import (
    ClaimedLetter,
    DeadLetterRow,
    DeadLetterStep,
    LetterPlace,
    StoredDeadLetter,
)
from penstock.store.letters.payloads import PayloadFiles
from penstock.store.tables import clean, dead_letter_payloads, dead_letters

_STATEMENT_BYTES: Final = 8_000_000
"""Payloads sent at once; more at a time is not faster and is held in memory several times over."""

COORDINATES: Final = LetterPlace._fields
FAILURE: Final = (
    *("schema_id", "stage", "error_code", "error_class", "error", "fingerprint"),
    *("attempts", "first_failed_at", "last_failed_at"),
)
"""Columns of the letters that tell of the last failure."""
COLUMNS: Final = (
    *("pipeline", "topic", "topic_id", "partition", "offset", "consumer_group", "spec_version"),
    *("timestamp", "timestamp_type", "size", "searchable", *FAILURE),
)
"""Columns that a new letter is given."""
TEXTS: Final = ("letter_id", "last_failed_at", "error", "content")
"""Columns of the texts that letters are found by."""

Numbered = tuple[int, DeadLetter]
"""A letter with its id."""

LISTED: Final = tuple(dead_letters.c[name] for name in DeadLetterRow.__slots__)
PLACE: Final = sa.tuple_(*(dead_letters.c[name] for name in COORDINATES))

_HEADERS: Final = msgspec.json.Decoder(Headers)


def place_of(letter: DeadLetter) -> LetterPlace:
    """As the database gives it back."""
    return LetterPlace(clean(letter.pipeline), clean(letter.topic_id), letter.partition, letter.offset)


def payload_size(letter: DeadLetter) -> int:
    return len(letter.key or b"") + len(letter.value or b"") + len(letter.failure.value_seen or b"")


def by_size(letters: Sequence[Numbered]) -> Iterator[Sequence[Numbered]]:
    """Runs of letters whose payloads fit into one statement: PostgreSQL takes no parameter above 1 GB."""
    start = size = 0
    for at, (_, letter) in enumerate(letters):
        size += payload_size(letter)
        if size >= _STATEMENT_BYTES:
            yield letters[start : at + 1]
            start, size = at + 1, 0
    if start < len(letters):
        yield letters[start:]


def letter_values(letter: DeadLetter) -> dict[str, Any]:
    return {
        "pipeline": letter.pipeline,
        "topic": letter.topic,
        "topic_id": letter.topic_id,
        "partition": letter.partition,
        "offset": letter.offset,
        "consumer_group": letter.group,
        "spec_version": letter.spec_version,
        "timestamp": letter.timestamp,
        "timestamp_type": letter.timestamp_type,
        "size": payload_size(letter),
        "searchable": True,
        **failure_values(letter.failure),
    }


def failure_values(failure: Failure) -> dict[str, Any]:
    return {name: getattr(failure, name) for name in FAILURE}


def payload_values(letter_id: int, letter: DeadLetter, files: PayloadFiles) -> dict[str, Any]:
    file = files.put(letter.value)
    return {
        "letter_id": letter_id,
        "key": letter.key,
        "value": None if file else letter.value,
        "value_file": file,
        # JSON keeps the order and the repeats, and base64 the bytes.
        "headers": msgspec.json.encode(letter.headers).decode(),
        "traceback": letter.failure.traceback,
        "value_seen": letter.failure.value_seen,
    }


def search_values(letter_id: int, letter: DeadLetter, *, with_grams: bool) -> dict[str, Any]:
    error, content = search.searched_error(letter.failure), search.searched_content(letter)
    values: dict[str, Any] = {"letter_id": letter_id, "last_failed_at": letter.failure.last_failed_at}
    values |= {"error": error, "content": content}
    if with_grams:
        values["grams"] = search.indexed(letter, letter.failure, error, content)
    return values


def step_values(letter_id: int, letter: DeadLetter, by: str | None) -> dict[str, Any]:
    failure = letter.failure
    return {
        "letter_id": letter_id,
        "at": failure.last_failed_at,
        "kind": "failed",
        "text": failure.error,
        "taken_by": by,
        "data": failure_data(failure, letter.spec_version),
    }


def failure_data(failure: Failure, spec_version: str) -> dict[str, Any]:
    """What a step says of a failure besides its message."""
    data = {"stage": failure.stage, "error_code": failure.error_code, "attempts": failure.attempts}
    return data | {"spec_version": spec_version}


def step(row: Any) -> DeadLetterStep:
    return DeadLetterStep(at=row.at, kind=row.kind, text=row.text, by=row.taken_by, data=row.data)


def listed(row: sa.RowMapping) -> DeadLetterRow:
    return DeadLetterRow(**{name: row[name] for name in DeadLetterRow.__slots__})


def stored(row: sa.RowMapping, files: PayloadFiles, history: list[DeadLetterStep] | None = None) -> StoredDeadLetter:
    return StoredDeadLetter(row=listed(row), letter=_letter(row, files), replays=row["replays"], history=history or [])


def claimed(row: Any, files: PayloadFiles) -> ClaimedLetter:
    """I3: the record as it was, from the columns in the order in which a claim reads them."""
    number, pipeline, topic_id, partition, offset, topic, timestamp, kind, key, value, file, headers = row
    record = Record(
        topic,
        partition,
        offset,
        key,
        files.get(file) if file else value,
        None if headers == "[]" else _headers(number, headers),
        timestamp,
        kind,
    )
    return ClaimedLetter(number, LetterPlace(pipeline, topic_id, partition, offset), record)


def _letter(row: sa.RowMapping, files: PayloadFiles) -> DeadLetter:
    failure = Failure(traceback=row["traceback"], value_seen=row["value_seen"], **{name: row[name] for name in FAILURE})
    return DeadLetter(
        pipeline=row["pipeline"],
        spec_version=row["spec_version"],
        group=row["consumer_group"],
        topic=row["topic"],
        topic_id=row["topic_id"],
        partition=row["partition"],
        offset=row["offset"],
        key=row["key"],
        value=files.get(row["value_file"]) if row["value_file"] else row["value"],
        headers=_headers(row["id"], row["headers"]),
        timestamp=row["timestamp"],
        timestamp_type=row["timestamp_type"],
        failure=failure,
    )


def _headers(letter_id: int, text: str) -> Headers:
    try:
        return _HEADERS.decode(text)
    except msgspec.MsgspecError:
        # I8: headers may hold secrets; their size says enough.
        received = f"{len(text)} characters"
        raise StoreRowUnreadable(
            dead_letter_payloads.name, letter_id, "headers", received, allowed="pairs of a name and a value"
        ) from None
