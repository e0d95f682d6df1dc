"""DataHub's topics on a real broker with a real registry: what is wanted is acted on, what is bad becomes one dead
letter each, and nothing stops the pipeline or is skipped in silence."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastavro
import httpx
import pytest

from penstock.service.failed_events import import_failed_events
from penstock.service.replay import LetterReplay, plan_letters
from penstock.store import DeadLetterFilter
from tests.compat.datahub_schemas import CHANGE_LOG, PLATFORM_EVENT, record
from tests.support.engine import Engine, lines
from tests.support.kafka import KafkaBroker
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

WAIT_S = 90.0
OTHER = record("shop.Order", id="long")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with Engine(tmp_path_factory.mktemp("engine")) as running:
        running.module(
            "steps.py",
            """
            def refuse(event):
                if event.event.entityUrn == "urn:refused":
                    event.event.entityUrn = "changed before it failed"
                    raise ValueError("refused")
                return event
            """,
        )
        yield running


class Writer:
    """Writes values with schemas of the registry."""

    def __init__(self, registry: str) -> None:
        self._ids = {name: self._register(registry, name, schema) for name, schema in _SCHEMAS.items()}

    @staticmethod
    def _register(registry: str, name: str, schema: Any) -> int:
        body = {"schema": json.dumps(schema), "schemaType": "AVRO"}
        answer = httpx.post(f"{registry}/subjects/{name}/versions", json=body, timeout=10).raise_for_status()
        return int(answer.json()["id"])

    def framed(self, name: str, value: Any) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, fastavro.parse_schema(_SCHEMAS[name]), value)
        return b"\0" + self._ids[name].to_bytes(4, "big") + out.getvalue()

    def log(self, urn: str, entity: str = "dataset") -> bytes:
        aspect = {"value": b'{"tags": []}', "contentType": "application/json"}
        value = {"entityType": entity, "entityUrn": urn, "changeType": "UPSERT", "aspectName": "tags", "aspect": aspect}
        return self.framed("MetadataChangeLog", value)

    def event(self, payload: dict[str, Any] | bytes, name: str = "entityChangeEvent") -> bytes:
        text = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        value = {"value": text, "contentType": "application/json"}
        return self.framed("PlatformEvent", {"header": {"timestampMillis": 1}, "name": name, "payload": value})


_SCHEMAS = {"MetadataChangeLog": CHANGE_LOG, "PlatformEvent": PLATFORM_EVENT, "Order": OTHER}


def change(urn: str, category: str = "TAG") -> dict[str, Any]:
    stamp = {"time": 1, "actor": "urn:li:corpuser:user1"}
    made = {"entityType": "dataset", "entityUrn": urn, "category": category, "operation": "ADD"}
    return made | {"parameters": {"n": 1}, "auditStamp": stamp, "version": 0}


def test_poison_of_every_kind_among_wanted_and_unwanted_events(
    engine: Engine, kafka: KafkaBroker, apicurio_url: str, topic: Callable[..., str], tmp_path: Path
) -> None:
    writer, out = Writer(apicurio_url), tmp_path / "out.jsonl"
    routes = {"mcl": topic(2), "pe": topic(), "mine": topic()}
    good_log, good_event = writer.log("urn:good"), writer.event(change("urn:good"))
    bad_logs = [
        None,
        b"",
        b"\0\0",
        b'{"entityType": "dataset"}',
        b"\0\x7f\xff\xff\xff" + good_log[5:],
        good_log[:-5],
        good_log.replace(b"tags", b"\xff\xff\xff\xff", 1),
        writer.framed("Order", {"id": 1}),
    ]
    bad_events = [
        None,
        good_event[:-3],
        writer.log("urn:wrong topic"),
        writer.event(b"no json"),
        writer.event({name: value for name, value in change("urn:x").items() if name != "auditStamp"}),
    ]
    unwanted = [writer.log("urn:chart", "chart")] * 20
    kafka.produce(routes["mcl"], [good_log, *unwanted])
    for bad in bad_logs:
        kafka.produce(routes["mcl"], [good_log, bad, *unwanted])
    kafka.produce(routes["mcl"], [writer.log("urn:refused"), good_log])
    for bad in bad_events:
        kafka.produce(
            routes["pe"], [good_event, bad, writer.event(change("urn:y", "OWNER")), writer.event({}, "other")]
        )
    kafka.produce(routes["pe"], [writer.event(change("urn:refused"))])
    kafka.produce(routes["mine"], [b"whatever", None])

    def wanted(**fields: Any) -> dict[str, Any]:
        return {"event": [{"entityType": "dataset", **fields}]}

    name = f"Poison {routes['mcl']}"
    connection = {"bootstrap": kafka.bootstrap, "schema_registry_url": apicurio_url}
    config = {"connection": connection, "topic_routes": routes, "start": "earliest", "schema_grace": "0s"}
    types = {"MetadataChangeLogEvent_v1": wanted(), "EntityChangeEvent_v1": wanted(category="TAG")}
    document = {
        "name": name,
        "source": {"type": "kafka", "config": config},
        "filters": [{"type": "event_type", "config": {"filter": types}}],
        "transform": [{"type": "python", "config": {"callable": "./steps.py:refuse"}}],
        "action": {"type": "file", "config": {"path": str(out)}},
        "options": {"failed_events_dir": str(tmp_path / "failed"), "breaker": {"enabled": False}},
    }
    flow = engine.run(document)

    def caught_up() -> bool:
        return all(kafka.lag(name, topic) == 0 for topic in routes.values())

    until(caught_up, WAIT_S, lambda: (flow.state, flow.reason, kafka.offsets(name)))
    letters = list(engine.store.dead_letters.pages(DeadLetterFilter(pipeline=name)))
    found = [(letter.row.topic, letter.row.stage, letter.letter.value) for page in letters for letter in page]
    expected = [(routes["mcl"], "decode", bad) for bad in bad_logs]
    expected += [(routes["pe"], "decode", bad) for bad in bad_events]
    expected.append((routes["mcl"], "transform", writer.log("urn:refused")))
    expected.append((routes["pe"], "transform", writer.event(change("urn:refused"))))
    assert sorted(found, key=repr) == sorted(expected, key=repr)
    acted = [line["event"]["entityUrn"] for line in lines(out)]
    assert acted == ["urn:good"] * (len(bad_logs) + 2 + len(bad_events))

    # DataHub's own file: the envelope as it was before any step changed it; nothing of what could not be decoded.
    [file] = (tmp_path / "failed").rglob("failed_events.log")
    kept = sorted(lines(file), key=lambda line: line["event_type"])
    assert [line["event"]["entityUrn"] for line in kept] == ["urn:refused", "urn:refused"]
    assert kept[0]["event"] == change("urn:refused")
    assert kept[0]["meta"]["kafka"]["topic"] == routes["pe"]

    exposed = engine.instance.metrics.exposition().decode()
    unrouted = len(bad_events) + 2
    assert f'penstock_events_total{{outcome="unrouted",pipeline="{name}"}} {unrouted}.0' in exposed
    rejected = 20 * (len(bad_logs) + 1)
    assert f'kafka_mcl_early_filter_total{{pipeline_name="{name}",result="rejected"}} {rejected}.0' in exposed
    engine.stop(flow)

    _failed_events_come_back(engine, document, file, out)


def test_the_file_of_the_documentation_on_a_topic_with_a_few_odd_records(
    engine: Engine, kafka: KafkaBroker, apicurio_url: str, topic: Callable[..., str], tmp_path: Path
) -> None:
    """One unknown schema id, one tombstone and one platform event of another name among a thousand: the good ones are
    acted on once each, the counts add up, and nothing restarts."""
    writer, events, out = Writer(apicurio_url), topic(), tmp_path / "out.jsonl"
    records: list[bytes | None] = [writer.event(change(f"urn:{n}", "TAG" if n % 2 else "OWNER")) for n in range(1_000)]
    records[100] = b"\0\x7f\xff\xff\xff" + (records[100] or b"")[5:]
    records[500] = None
    records[900] = writer.event({"n": 1}, "somethingElse")
    kafka.produce(events, records)
    name = f"hello_world {events}"
    connection = {"bootstrap": kafka.bootstrap, "schema_registry_url": apicurio_url}
    document = {
        "name": name,
        "source": {
            "type": "kafka",
            "config": {
                "connection": connection | {"consumer_config": {"auto.offset.reset": "earliest"}},
                "topic_routes": {"pe": events},
            },
        },
        "filter": {"event_type": "EntityChangeEvent_v1", "event": {"category": "TAG", "operation": "ADD"}},
        "action": {"type": "file", "config": {"path": str(out)}},
    }
    flow = engine.run(document)
    # The unknown schema id has its grace: what is before it is acted on meanwhile.
    until(lambda: len(lines(out)) == 50, WAIT_S, lambda: (flow.state, flow.reason, len(lines(out))))
    until(lambda: kafka.lag(name, events) == 0, WAIT_S, lambda: (flow.state, flow.reason, kafka.offsets(name)))
    engine.stop(flow)
    good = [n for n in range(1_000) if n % 2]
    assert [line["event"]["entityUrn"] for line in lines(out)] == [f"urn:{n}" for n in good]
    letters = {letter.offset: letter.stage for letter in engine.dead_letters(name)}
    assert letters == {100: "decode", 500: "decode"}
    counts = flow.stats.counts
    assert (counts.read, counts.acted, counts.failed, counts.filtered) == (1_000, 500, 2, 498)
    assert engine.store.pipelines.history(name) == []


def _failed_events_come_back(engine: Engine, document: dict[str, Any], file: Path, out: Path) -> None:
    """The same file, as of another installation: its events become letters that the pipeline can work on now."""
    document = document | {"name": "another", "transform": []}
    spec = engine.spec(document)
    assert import_failed_events(engine.store, file, spec, by="user1") == (2, 0)
    assert import_failed_events(engine.store, file, spec, by="user1") == (0, 2)
    which = DeadLetterFilter(pipeline="another")
    before = len(lines(out))
    replay = LetterReplay(
        plan_letters(engine.store, which, [engine.folder / "another.json"]), engine.store, max_replays=3
    )
    replay.run(engine.instance.spark, threading.Event())
    assert dict(engine.store.dead_letters.counts_by_status(which)) == {"replayed": 2}
    again = lines(out)[before:]
    assert [line["event"] for line in again if line["event_type"] == "EntityChangeEvent_v1"] == [change("urn:refused")]
    assert {line["event"]["entityUrn"] for line in again} == {"urn:refused"}
