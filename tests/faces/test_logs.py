"""Logs: one line per message, secrets masked, control characters visible."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from penstock.engine.spark.context import Spark
from penstock.service.logs import configure_logs, scrubbed


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def test_json_lines_carry_what_is_bound() -> None:
    stream = io.StringIO()
    configure_logs(format="json", stream=stream)
    structlog.get_logger("penstock.engine").info("window done", pipeline="orders", partition=3, lanes=["a", "b"])
    logging.getLogger("penstock.kafka").warning("lost %s", "a broker")
    first, second = (json.loads(line) for line in stream.getvalue().splitlines())
    assert first["event"] == "window done"
    assert (first["pipeline"], first["partition"], first["level"]) == ("orders", 3, "info")
    assert first["lanes"] == ["a", "b"]
    assert second["event"] == "lost a broker"
    assert second["logger"] == "penstock.kafka"
    assert second["timestamp"].endswith("Z")


@pytest.mark.parametrize("form", ["json", "console"])
def test_secrets_and_control_characters_do_not_get_out(form: str) -> None:
    stream = io.StringIO()
    configure_logs(format=form, secrets=["hunter22"], stream=stream)  # type: ignore[arg-type]
    log = structlog.get_logger("penstock")
    log.info("password hunter22 \x1b[31m", url="https://u:hunter22@example.org", nested={"a": ["hunter22"]})
    try:
        raise ValueError("hunter22 is wrong")
    except ValueError:
        log.exception("failed")
        logging.getLogger("other").exception("failed as well")
    assert "hunter22" not in stream.getvalue()
    assert "\x1b" not in stream.getvalue()
    assert "ValueError" in stream.getvalue()


def test_level_holds_for_both_kinds_of_loggers() -> None:
    stream = io.StringIO()
    configure_logs(level="warning", stream=stream)
    structlog.get_logger("penstock").info("quiet")
    logging.getLogger("penstock").info("quiet")
    structlog.get_logger("penstock").warning("loud")
    assert "quiet" not in stream.getvalue()
    assert "loud" in stream.getvalue()


def test_l11_no_text_of_an_event_forges_a_line_of_the_console_format() -> None:
    stream = io.StringIO()
    configure_logs(format="console", stream=stream)
    forged = "bad\n2026-01-01T00:00:00Z [info     ] admin logged in\r\nmore"
    log = structlog.get_logger("penstock")
    log.info(forged, why=forged, listed=[forged])
    logging.getLogger("other").warning("said %s", forged)
    try:
        raise ValueError(forged)
    except ValueError:
        log.exception("failed")
    lines = stream.getvalue().splitlines()
    begun = [line for line in lines if not line.startswith("    ")]
    assert len(begun) == 3, "one for each message; the traceback is indented"
    assert not any(line.startswith("2026-01-01") for line in lines)
    assert "bad\\n2026-01-01" in begun[0]


def test_l11_what_the_jvm_and_workers_say_is_scrubbed(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    configure_logs(secrets=["hunter22"], stream=io.StringIO())
    spark = Spark(master="local", conf={}, home=tmp_path, scrub=scrubbed)
    said = b"Traceback\nKafkaError: user:hunter22 \x1b[31m\n\xff\nWARNING: Using incubator modules: x\n"
    spark._forward(io.BytesIO(said))
    assert capfdbinary.readouterr().err == b"Traceback\nKafkaError: user:******** \\x1b[31m\n\\xff\n"
