"""What is said of a message that was not taken in: log lines and the error tracker."""

from __future__ import annotations

import logging
import sys
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.core.event import Record
from penstock.workflows import notices
from penstock.workflows.notices import Subject

SUBJECT = Subject.of("t-1", Record("lab", 4, 1207, b"p\xff", b"secret payload", None, 5, 1))
WHERE = "Trigger_id `t-1` Topic `lab` Partition `4` Offset `1207`"


def test_log_lines_have_lightnings_tokens_and_no_payload(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        notices.tell_duplicate(SUBJECT)
        notices.tell_error(SUBJECT, "persistence")
        notices.tell_storage_error(SUBJECT, "writing")
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", f"Kafka Pipeline Duplicate Message: {WHERE}"),
        ("ERROR", f"Kafka Pipeline Error: Type `persistence` {WHERE} Key `p\\xff`"),
        ("ERROR", f"Kafka Pipeline Error: Type `alternate_storage_failed: writing` {WHERE} Key `p\\xff`"),
    ]


def test_the_error_tracker_is_told_where_it_is_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, dict[str, Any]]] = []
    extras: dict[str, Any] = {}

    @contextmanager
    def scope() -> Any:
        extras.clear()
        yield SimpleNamespace(set_extra=extras.__setitem__)

    tracker = SimpleNamespace(
        is_initialized=lambda: True,
        new_scope=scope,
        capture_message=lambda title, level: told.append((title, dict(extras) | {"level": level})),
    )
    monkeypatch.setitem(sys.modules, "sentry_sdk", tracker)
    notices.tell_error(SUBJECT, "persistence")
    assert told == []
    monkeypatch.setenv("SENTRY_DSN", "https://key@sentry.example.org/1")
    notices.tell_duplicate(SUBJECT)
    notices.tell_error(SUBJECT, "persistence")
    notices.tell_storage_error(SUBJECT, "path_error")
    said = {"key": "p\\xff", "offset": 1207, "partition": 4, "topic": "lab", "trigger_id": "t-1", "level": "error"}
    assert told == [
        ("Kafka pipeline - message processing error", said | {"type": "persistence"}),
        ("Kafka pipeline - alternate storage failed: path_error", said),
    ]
