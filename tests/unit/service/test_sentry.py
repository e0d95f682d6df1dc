"""Sentry gets the errors of the log, scrubbed, and nothing else."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from penstock.config.settings import Settings
from penstock.config.signal_settings import SentrySettings
from penstock.core.errors import ConfigError
from penstock.service.logs import configure_logs
from penstock.service.sentry import begin_sentry
from tests.support.receiver import Receiver


@pytest.fixture(autouse=True)
def logs_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def envelopes(receiver: Receiver) -> list[dict[str, Any]]:
    events = []
    for received in receiver.received:
        lines = received.body.splitlines()
        for head, item in zip(lines[1::2], lines[2::2], strict=True):
            if json.loads(head)["type"] == "event":
                events.append(json.loads(item))
    return events


def settings(receiver: Receiver) -> Settings:
    dsn: Any = f"http://publickey@127.0.0.1:{receiver.port}/7"
    return Settings(sentry=SentrySettings(dsn=dsn, environment="test"))


def test_errors_arrive_and_secrets_do_not() -> None:
    with Receiver() as receiver:
        configure_logs(secrets=["hunter22"], stream=io.StringIO())
        reporter = begin_sentry(settings(receiver))
        assert reporter
        log = structlog.get_logger("penstock.pipeline")
        log.error("pipeline failed", pipeline="orders", reason="password hunter22 refused")
        log.warning("nobody is told of this")
        # A reload configures the logs anew, with more secrets.
        configure_logs(secrets=["hunter22", "canary-99"], stream=io.StringIO())
        try:
            raise ValueError("canary-99 broke")
        except ValueError:
            log.exception("pipeline restarts", pipeline="payments")
        logging.getLogger("elsewhere").error("said by a library: %s", "hunter22")
        reporter.stop()
        log.error("after the end")
        found, raw = envelopes(receiver), b"".join(each.body for each in receiver.received)
        assert all(each.path == "/api/7/envelope/" for each in receiver.received)
    by_text = {event["logentry"]["formatted"]: event for event in found}
    assert sorted(by_text) == ["pipeline failed", "pipeline restarts", "said by a library: ********"]
    failed = by_text["pipeline failed"]
    assert failed["tags"] == {"pipeline": "orders", "reason": "password ******** refused"}
    assert (failed["level"], failed["logger"], failed["environment"]) == ("error", "penstock.pipeline", "test")
    assert "ValueError: ******** broke" in by_text["pipeline restarts"]["extra"]["exception"]
    assert b"hunter22" not in raw
    assert b"canary-99" not in raw


def test_a_receiver_that_is_away_hurts_nobody() -> None:
    with Receiver() as receiver:
        pass
    stream = io.StringIO()
    configure_logs(stream=stream)
    reporter = begin_sentry(settings(receiver))
    assert reporter
    structlog.get_logger("penstock.run").error("every pipeline has failed")
    reporter.stop()
    assert "every pipeline has failed" in stream.getvalue()


def test_without_an_address_nothing_is_sent() -> None:
    assert begin_sentry(Settings()) is None


def test_an_address_that_is_none_is_refused_without_being_shown() -> None:
    dsn: Any = "not-a-dsn-but-secret"
    with pytest.raises(ConfigError) as caught:
        begin_sentry(Settings(sentry=SentrySettings(dsn=dsn)))
    assert "not-a-dsn-but-secret" not in str(caught.value)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentry_sdk", None)
    dsn: Any = "http://k@localhost/1"
    with pytest.raises(ConfigError, match="not installed"):
        begin_sentry(Settings(sentry=SentrySettings(dsn=dsn)))
