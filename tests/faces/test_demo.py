"""The demo: its events, its stage, and the whole of it."""

from __future__ import annotations

import os
from pathlib import Path

import orjson
import pytest

from penstock.config.spec import ConnectionSpec
from penstock.service.demo import Demo
from penstock.service.demo_events import TOPICS, Shop
from penstock.service.topics import Topics
from tests.faces.cli import penstock
from tests.support.waiting import until


def test_the_shop_makes_good_and_odd_events() -> None:
    records = list(Shop(seed=7).events(5000))
    assert {record.topic for record in records} == set(TOPICS)
    payments = [record.value for record in records if record.topic == "payments"]
    broken = [value for value in payments if value and not value.startswith(b"{")]
    assert 0 < len(broken) < len(payments) / 20
    known = [orjson.loads(value) for value in payments if value not in broken]
    assert any(payment["currency"] == "XTS" for payment in known)
    assert list(Shop(seed=7).events(10)) == records[:10]


def test_the_stage_has_a_broker_files_and_events_and_leaves_nothing() -> None:
    with Demo(rate=2000) as stage:
        assert [file.stem for file in stage.files] == ["large-orders", "orders", "page-views", "payments", "refunds"]
        settings = stage.settings()
        assert str(stage.folder) in settings.store_url
        stage.start_events()
        topics = Topics(ConnectionSpec(bootstrap=stage.bootstrap))
        until(lambda: all(view.records for view in topics.list() if view.topic in TOPICS), 30, "records in every topic")
        (stage.folder / "ledger.txt").write_text("p1 ada paid 1.00 EUR\np2 al")
        assert ("payments", "booked p1 ada paid 1.00 EUR") in stage.samples()
        folder = stage.folder
    assert not folder.exists()
    assert "PENSTOCK_DEMO_BOOTSTRAP" not in os.environ


@pytest.mark.spark
def test_the_demo_ends_by_itself_with_a_summary(tmp_path: Path) -> None:
    result = penstock("demo", "--seconds", 8, "--json", TMPDIR=str(tmp_path))
    assert result.code == 0, result.err
    pipelines = result.data["pipelines"]
    assert set(pipelines) == {"large-orders", "orders", "page-views", "payments", "refunds"}
    for name, each in pipelines.items():
        assert each["events"] == each["acted"] + each["filtered"] + each["failed"], name
        assert each["acted"] > 0, name
        assert each["latency_ms"]["p50"] is not None
    assert pipelines["large-orders"]["filtered"] > 0
    assert not list(tmp_path.glob("penstock-demo-*"))
