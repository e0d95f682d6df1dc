"""Dead letters as faces show them."""

from __future__ import annotations

import base64
from typing import Any, cast, get_args

from penstock.core.dead_letter import Stage
from penstock.core.errors import ConfigError
from penstock.core.event import TIMESTAMP_TYPES
from penstock.store.letters.model import DeadLetterFilter, DeadLetterRow, StoredDeadLetter, iso
from penstock.store.store import Store


def which_letters(
    *, pipeline: str | None = None, topic: str | None = None, stage: str | None = None, error: str | None = None
) -> DeadLetterFilter:
    """A filter from what a person wrote."""
    if stage is not None and stage not in get_args(Stage):
        raise ConfigError("no such stage", received=stage, allowed=list(get_args(Stage)))
    return DeadLetterFilter(pipeline=pipeline, topic=topic, stage=cast("Stage | None", stage), error=error)


def list_dead_letters(store: Store, which: DeadLetterFilter, limit: int) -> list[DeadLetterRow]:
    """Newest first, at most `limit`."""
    rows: list[DeadLetterRow] = []
    while len(rows) < limit:
        page = store.dead_letters.list(
            which, limit=min(1000, limit - len(rows)), before=rows[-1].cursor if rows else None
        )
        rows += page
        if not page:
            break
    return rows


def show_dead_letter(store: Store, letter_id: int) -> dict[str, Any]:
    """One letter with its bytes and history, as data."""
    found = store.dead_letters.get(letter_id)
    if found is None:
        raise ConfigError("no such dead letter", received=letter_id, hint="penstock dead-letters list shows the ids")
    return _as_dict(found)


def _as_dict(found: StoredDeadLetter) -> dict[str, Any]:
    letter = found.letter
    return found.row.as_dict() | {
        "group": letter.group,
        "topic_id": letter.topic_id,
        "spec_version": letter.spec_version,
        "timestamp": letter.timestamp,
        "timestamp_type": TIMESTAMP_TYPES[letter.timestamp_type] if 0 <= letter.timestamp_type < 3 else "none",
        "key": _bytes(letter.key),
        "value": _bytes(letter.value),
        "headers": [{"name": name, "value": _bytes(value)} for name, value in letter.headers],
        "error_class": letter.failure.error_class,
        "fingerprint": letter.failure.fingerprint,
        "schema_id": letter.failure.schema_id,
        "value_seen": _bytes(letter.failure.value_seen),
        "traceback": letter.failure.traceback,
        "replays": found.replays,
        "history": [{"at": iso(step.at), "kind": step.kind, "text": step.text} | step.data for step in found.history],
    }


def _bytes(raw: bytes | None) -> dict[str, str] | None:
    """Bytes as they are: text where they are UTF-8, else base64, never ambiguous."""
    if raw is None:
        return None
    try:
        return {"text": raw.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(raw).decode()}
