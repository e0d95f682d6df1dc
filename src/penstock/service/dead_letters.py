"""Dead letters as faces show and close them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast, get_args

from penstock.core.clock import format_time
from penstock.core.dead_letter import Stage
from penstock.core.errors import ConfigError
from penstock.core.event import TIMESTAMP_TYPES
from penstock.core.letter_json import bytes_as_json
from penstock.service.moments import moment
from penstock.store import DeadLetterFilter, DeadLetterRow, DeadLetterStatus, Store, StoredDeadLetter, Which


def which_letters(
    *,
    pipeline: str | None = None,
    topic: str | None = None,
    partition: int | None = None,
    stage: str | None = None,
    status: str | None = None,
    error: str | None = None,
    fingerprint: str | None = None,
    since: str | None = None,
    until: str | None = None,
    text: str | None = None,
) -> DeadLetterFilter:
    """A filter from what a person wrote."""
    for name, written, allowed in (("stage", stage, get_args(Stage)), ("status", status, get_args(DeadLetterStatus))):
        if written is not None and written not in allowed:
            raise ConfigError(f"no such {name}", received=written, allowed=list(allowed))
    for name, written in (("error", error), ("text", text)):
        if written == "":
            raise ConfigError(f"the {name} to look for is empty", hint=f"leave --{name} out")
    begin, end = moment("since", since), moment("until", until)
    if begin is not None and end is not None and begin >= end:
        raise ConfigError("since is not before until", received=f"{since} and {until}")
    return DeadLetterFilter(
        pipeline=pipeline,
        topic=topic,
        partition=partition,
        stage=cast("Stage | None", stage),
        status=cast("DeadLetterStatus | None", status),
        error=error,
        fingerprint=fingerprint,
        since=begin,
        until=end,
        text=text,
    )


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


def count_discardable(store: Store, which: Which) -> dict[DeadLetterStatus, int]:
    """How many letters a discard would close, by the status they have; ids that it would refuse are refused."""
    return store.dead_letters.discardable(which)


def discard_dead_letters(
    store: Store, which: Which, *, by: str, reason: str, progress: Callable[[int], None] | None = None
) -> int:
    """Close letters without a replay; how many."""
    return store.dead_letters.discard(which, by=by, reason=reason, progress=progress)


def chosen_letters(ids: Sequence[int] | None, filters: dict[str, Any], *, every: bool) -> Which:
    """Ids or a filter, and never all letters by oversight."""
    given = sorted(name for name, wanted in filters.items() if wanted is not None)
    if ids and given:
        raise ConfigError("ids and filters do not go together", received=", ".join(f"--{name}" for name in given))
    if not ids and not given and not every:
        raise ConfigError("no letters are named", hint="give ids, filters such as --pipeline, or --all")
    return list(dict.fromkeys(ids)) if ids else which_letters(**filters)


def _as_dict(found: StoredDeadLetter) -> dict[str, Any]:
    letter = found.letter
    return found.row.as_dict() | {
        "group": letter.group,
        "topic_id": letter.topic_id,
        "spec_version": letter.spec_version,
        "timestamp": letter.timestamp,
        "timestamp_type": TIMESTAMP_TYPES[letter.timestamp_type] if 0 <= letter.timestamp_type < 3 else "none",
        "key": bytes_as_json(letter.key),
        "value": bytes_as_json(letter.value),
        "headers": [{"name": name, "value": bytes_as_json(value)} for name, value in letter.headers],
        "error_class": letter.failure.error_class,
        "fingerprint": letter.failure.fingerprint,
        "schema_id": letter.failure.schema_id,
        "value_seen": bytes_as_json(letter.failure.value_seen),
        "traceback": letter.failure.traceback,
        "replays": found.replays,
        "history": [
            {"at": format_time(step.at), "kind": step.kind, "text": step.text, "by": step.by} | step.data
            for step in found.history
        ],
    }
