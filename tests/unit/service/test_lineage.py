"""OpenLineage: what a receiver gets of a pipeline's life, and that one that is away delays nobody."""

from __future__ import annotations

import json
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import pytest
from openlineage.client.event_v2 import RunEvent

from penstock.config.settings import Settings
from penstock.config.signal_settings import LineageSettings
from penstock.config.spec import PipelineSpec
from penstock.core.errors import ConfigError
from penstock.pipeline.messages import Counts
from penstock.service.lineage import Lineage, lineage_of, sender
from penstock.service.lineage_names import inputs, outputs
from tests.support.receiver import Receiver

KAFKA = {"bootstrap": "broker-1:9092,broker-2:9092"}


def spec(action: dict[str, Any] | None = None, **source: Any) -> PipelineSpec:
    config = {"topics": ["orders"], "format": "json", "connection": KAFKA} | source
    document = {"name": "p", "source": {"config": config}, "action": action or {"type": "hello_world"}}
    return PipelineSpec.model_validate(document)


@dataclass
class Partitions:
    held: list[tuple[str, int]] = field(default_factory=list)

    def owned(self) -> list[tuple[str, int]]:
        return self.held


@dataclass
class Books:
    counts: Counts = field(default_factory=Counts)


@dataclass(eq=False)
class FakeFlow:
    spec: PipelineSpec
    state: str = "running"
    reason: str | None = None
    stats: Books = field(default_factory=Books)
    partitions: Partitions = field(default_factory=Partitions)

    @property
    def name(self) -> str:
        return self.spec.name


def reporter(flows: list[FakeFlow], settings: LineageSettings | None = None, send: Any = None) -> Lineage:
    given: Any = flows
    return Lineage(settings or LineageSettings(every=3600), lambda: given, send or (lambda event: None))


class Taken:
    """Keeps events, or refuses them."""

    def __init__(self) -> None:
        self.events: list[RunEvent] = []
        self.away = False

    def __call__(self, event: RunEvent) -> None:
        if self.away:
            raise ConnectionError("nobody there")
        self.events.append(event)

    @property
    def kinds(self) -> list[str]:
        return [str(event.eventType.value) for event in self.events if event.eventType]


def test_a_receiver_gets_start_and_complete_with_datasets_and_counts() -> None:
    table = {"type": "table", "config": {"url": "postgresql://me:hush@db/shop", "table": "t", "columns": {"id": "id"}}}
    flow = FakeFlow(spec(table), partitions=Partitions([("orders", 0), ("orders", 1)]))
    with Receiver() as receiver:
        settings = LineageSettings(url=receiver.url, api_key="very-secret", namespace="shop")
        told = reporter([flow], settings, sender(settings))
        told.look()
        flow.stats.counts.read, flow.stats.counts.acted = 12, 10
        flow.state = "stopped"
        told.stop()
        requests = list(receiver.received)
    assert [request.path for request in requests] == ["/api/v1/lineage"] * 2
    assert all(request.headers["authorization"] == "Bearer very-secret" for request in requests)
    start, end = (json.loads(request.body) for request in requests)
    assert (start["eventType"], end["eventType"]) == ("START", "COMPLETE")
    assert start["run"]["runId"] == end["run"]["runId"]
    assert (end["job"]["namespace"], end["job"]["name"]) == ("shop", "p")
    assert end["job"]["facets"]["jobType"]["processingType"] == "STREAMING"
    [read], [written] = end["inputs"], end["outputs"]
    assert (read["namespace"], read["name"]) == ("kafka://broker-1:9092", "orders")
    assert read["inputFacets"]["inputStatistics"]["rowCount"] == 12
    assert (written["namespace"], written["name"]) == ("postgres://db:5432", "shop.public.t")
    assert written["outputFacets"]["outputStatistics"]["rowCount"] == 10
    assert not any(b"hush" in request.body for request in requests)


def test_a_pipeline_that_reads_is_told_of_again() -> None:
    flow, taken = FakeFlow(spec()), Taken()
    told = reporter([flow], LineageSettings(every=1.0), taken)
    told.look()
    told._runs["p"].said_at -= 2.0
    told.look()
    assert len(told._pending) == 1, "it has read nothing since"
    flow.stats.counts.read = 5
    told.look()
    told.look()
    told._flush()
    assert taken.kinds == ["START", "RUNNING"]


def test_failing_resuming_and_replacing_are_runs_of_their_own() -> None:
    flow, taken = FakeFlow(spec()), Taken()
    flows = [flow]
    told = reporter(flows, send=taken)
    told.look()
    flow.state, flow.reason = "failed", "no such column"
    told.look()
    told.look()
    flow.state = "running"
    told.look()
    flows[:] = [FakeFlow(spec())]
    told.look()
    flows.clear()
    told.look()
    told.stop()
    assert taken.kinds == ["START", "FAIL", "START", "COMPLETE", "START", "COMPLETE"]
    runs = [event.run.runId for event in taken.events]
    assert (runs[0] == runs[1], len(set(runs))) == (True, 3)
    assert taken.events[1].run.facets is not None
    assert taken.events[1].run.facets["errorMessage"].message == "no such column"


def test_a_receiver_that_is_away_gets_everything_later() -> None:
    flow, taken = FakeFlow(spec()), Taken()
    taken.away = True
    told = reporter([flow], send=taken)
    told.look()
    told._flush()
    flow.state = "failed"
    told.look()
    told._flush()
    taken.away = False
    told._flush()
    assert taken.kinds == [], "not before some time has passed"
    told._try_at = 0.0
    told._flush()
    assert taken.kinds == ["START", "FAIL"]


@pytest.mark.parametrize("below", ["", "/", "/behind/a/proxy", "/behind/a/proxy/"])
def test_a_receiver_may_be_below_a_path(below: str) -> None:
    with Receiver() as receiver:
        told = reporter([FakeFlow(spec())], send=sender(LineageSettings(url=f"{receiver.url}{below}")))
        told.look()
        told._flush()
        [request] = receiver.received
    assert request.path == f"{below.rstrip('/')}/api/v1/lineage"


def test_a_slow_receiver_does_not_hold_up_a_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither for the event it is at, nor for those behind it; and nothing is sent twice."""
    monkeypatch.setattr("penstock.service.lineage._LOOK_EVERY", 0.01)
    monkeypatch.setattr("penstock.service.lineage._LAST_WORDS", 0.5)
    asked, taken, answer = threading.Event(), Taken(), threading.Event()

    def slow(event: RunEvent) -> None:
        asked.set()
        answer.wait(60)
        taken(event)

    told = reporter([FakeFlow(spec())], send=slow)
    told.start()
    assert asked.wait(10)
    began = time.monotonic()
    told.stop()
    assert time.monotonic() - began < 60, "as long as the receiver takes"
    answer.set()
    told.join(10)
    assert taken.kinds == ["START"], "what came too late is given up"


def test_a_refusal_is_an_error() -> None:
    with Receiver(status=403) as receiver:
        send = sender(LineageSettings(url=receiver.url))
        told = reporter([FakeFlow(spec())], send=send)
        told.look()
        told._flush()
        assert len(receiver.received) == 1
        assert len(told._pending) == 1


def test_without_an_address_nothing_is_told() -> None:
    assert lineage_of(Settings(), list) is None


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openlineage.client.transport.http", None)
    with pytest.raises(ConfigError, match="not installed") as caught:
        sender(LineageSettings(url="http://localhost"))
    assert "penstock[openlineage]" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("action", "written"),
    [
        ({"type": "hello_world"}, []),
        ({"type": "kafka", "config": {"topic": "out"}}, [("kafka://broker-1:9092", "out")]),
        (
            {"type": "kafka", "config": {"topic": "out", "connection": {"bootstrap": "other:1"}}},
            [("kafka://other:1", "out")],
        ),
        (
            {"type": "table", "config": {"url": "mysql+pymysql://u:p@h:3307/d", "table": "t", "columns": {}}},
            [("mysql://h:3307", "d.t")],
        ),
        (
            {"type": "table", "config": {"url": "postgresql+psycopg://h/d", "table": "s.t", "columns": {}}},
            [("postgres://h:5432", "d.s.t")],
        ),
        ({"type": "table", "config": {"url": "sqlite:////x/y.db", "table": "t"}}, [("sqlite:///x/y.db", "t")]),
        ({"type": "file", "config": {"path": "/var/out.jsonl"}}, [("file", "/var/out.jsonl")]),
    ],
)
def test_what_is_written_has_the_name_that_others_know_it_by(
    action: dict[str, Any], written: list[tuple[str, str]]
) -> None:
    assert outputs(spec(action)) == written


def test_topics_are_named_once() -> None:
    assert inputs(spec(), ["b", "a", "b"]) == [("kafka://broker-1:9092", "a"), ("kafka://broker-1:9092", "b")]


def test_a_pipeline_that_began_and_failed_between_two_looks_is_told_of_once() -> None:
    missed, taken = FakeFlow(spec(), state="failed", reason="bad event"), Taken()
    missed.stats.counts.read = 1
    told = reporter([missed], send=taken)
    for _ in range(2):
        told.look()
        told._flush()
    assert taken.kinds == ["START", "FAIL"]
    held = Taken()
    other = reporter([FakeFlow(spec(), state="failed")], send=held)
    other.look()
    other._flush()
    assert held.kinds == [], "it had failed before, and did not run here"
