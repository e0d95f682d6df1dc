"""Integers beyond 64 bits keep all their digits wherever a value is written as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from penstock.act.kafka import as_bytes
from penstock.act.registry import actions
from penstock.act.webhook import _content
from penstock.cli.terminal import json_text
from penstock.core.event import Event, Record
from penstock.core.plugin import PipelineContext
from penstock.pipeline.failures import _seen

VALUE: dict[str, Any] = {"big": 2**70, "inner": [-(2**65), {"raw": b"\xff", "text": "ü"}]}
EVENT = Event(Record("orders", 0, 1, b"k", b"{}", None, 1_755_000_000_000, 1), VALUE, "JsonEvent")
READ: dict[str, Any] = {"big": 2**70, "inner": [-(2**65), {"raw": "/w==", "text": "ü"}]}


def test_a_value_on_its_way_out(tmp_path: Path) -> None:
    action: Any = actions.create("file", {"path": str(tmp_path / "out")}, PipelineContext("p"))
    assert action.act_batch([EVENT]) == [None]
    action.close()
    assert json.loads((tmp_path / "out").read_text())["event"] == READ
    assert json.loads(as_bytes(VALUE) or b"") == READ
    assert json.loads(_content("value")(EVENT)[0]) == READ
    assert json.loads(_content("envelope")(EVENT)[0])["event"] == READ


def test_a_value_in_a_dead_letter_and_on_the_terminal() -> None:
    assert json.loads(_seen(VALUE) or b"") == READ
    assert json.loads(json_text(VALUE)) == READ
    assert json_text({"a": [2**70]}) == f'{{\n  "a": [\n    {2**70}\n  ]\n}}'
