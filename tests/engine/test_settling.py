"""Failures become durable in every home that a pipeline names, before anything is committed."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.config.loading import load
from penstock.core.dead_letter import DeadLetter, Failure
from penstock.core.errors import Unavailable
from penstock.core.event import Headers, Record
from penstock.core.letter_json import letter_from_json
from penstock.engine.pipelines import dead_letter_sinks as sinks
from penstock.engine.pipelines.dead_letter_writer import DeadLetterWriter
from penstock.kafka.client import KafkaClientConfig
from penstock.pipeline.messages import Blueprint, FailedEvent
from penstock.store import Store
from tests.support.kafka import KafkaBroker

HEADERS: Headers = [("a", b"1"), ("b", None), ("a", b"\xff")]


def failed(offset: int, value: bytes | None = b'{"n": 1}', **more: Any) -> FailedEvent:
    failure = Failure(
        stage=more.pop("stage", "act"),
        error_code="ValueError",
        error_class="builtins.ValueError",
        error="no such ördér",
        traceback="Traceback",
        fingerprint="f1",
        attempts=2,
        first_failed_at=1_000,
        last_failed_at=2_000,
        value_seen=more.pop("seen", value),
    )
    record = Record("orders", 0, offset, b"\x00key", value, HEADERS, 500, 1)
    return FailedEvent(record, failure, more.pop("event_type", "JsonEvent"))


def topic_id(_partition: tuple[str, int]) -> str:
    return "id-1"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(f"sqlite:///{tmp_path / 'store.db'}") as opened:
        yield opened


@pytest.fixture
def settling(store: Store, tmp_path: Path) -> Iterator[Callable[..., DeadLetterWriter]]:
    made: list[DeadLetterWriter] = []

    def make(bootstrap: str = "localhost:1", **options: Any) -> DeadLetterWriter:
        document = {
            "name": "Large Orders/ü",
            "source": {"type": "kafka", "config": {"connection": {"bootstrap": bootstrap}, "topics": ["orders"]}},
            "action": {"type": "hello_world"},
            "options": options,
        }
        document["source"]["config"]["format"] = "json"  # type: ignore[index]  # it is a map
        (tmp_path / "p.json").write_text(json.dumps(document))
        [spec] = load([tmp_path / "p.json"]).specs
        client = KafkaClientConfig.of(spec.source.config.connection)
        made.append(DeadLetterWriter(Blueprint(spec, client, str(tmp_path)), store))
        return made[-1]

    yield make
    for each in made:
        each.close()


def context(headers: Headers) -> dict[str, str]:
    return {name.removeprefix("penstock."): (value or b"").decode() for name, value in headers[len(HEADERS) :]}


def test_a_letter_in_a_topic_is_the_record_with_its_story_in_headers(
    kafka: KafkaBroker, topic: Callable[..., str], settling: Callable[..., DeadLetterWriter], store: Store
) -> None:
    name = topic()
    settling(kafka.bootstrap, dead_letter={"topic": name}).settle([failed(7), failed(8, None)], topic_id)
    first, second = kafka.read(name, 2)
    assert (first.key(), first.value(), second.value()) == (b"\x00key", b'{"n": 1}', None)
    assert first.headers()[: len(HEADERS)] == HEADERS
    assert context(first.headers()) == {
        "pipeline": "Large Orders/ü",
        "spec_version": next(store.dead_letters.pages())[0].letter.spec_version,
        "group": "Large Orders/ü",
        "topic": "orders",
        "topic_id": "id-1",
        "partition": "0",
        "offset": "7",
        "timestamp": "500",
        "stage": "act",
        "error_code": "ValueError",
        "error_class": "builtins.ValueError",
        "error": "no such ördér",
        "attempts": "2",
        "first_failed_at": "1000",
        "last_failed_at": "2000",
        "fingerprint": "f1",
    }
    assert store.dead_letters.count() == 2


def test_a_value_too_large_for_the_topic_is_left_out_and_named(
    kafka: KafkaBroker, topic: Callable[..., str], settling: Callable[..., DeadLetterWriter], store: Store
) -> None:
    name, large = topic(config={"max.message.bytes": "20000"}), os.urandom(50_000)
    settling(kafka.bootstrap, dead_letter={"topic": name}).settle([failed(1, large), failed(2)], topic_id)
    by_offset = {dict(r.headers())["penstock.offset"]: r for r in kafka.read(name, 2)}
    assert by_offset[b"2"].value() == b'{"n": 1}'
    told = dict(by_offset[b"1"].headers())
    assert by_offset[b"1"].value() is None
    assert told["penstock.value_omitted"] == b"50000 bytes"
    assert told["penstock.value_sha256"] == hashlib.sha256(large).hexdigest().encode()
    assert next(store.dead_letters.pages())[0].letter.value == large


def test_i06_a_topic_that_is_away_holds_the_window_and_gets_each_letter_once(
    settling: Callable[..., DeadLetterWriter], store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sinks, "_TIMEOUT", 2.0)
    with KafkaBroker() as broker:
        name = broker.create_topic("dead", 1)
        one = settling(broker.bootstrap, dead_letter={"topic": name})
        one.settle([failed(1)], topic_id)
        broker.stop()
        with pytest.raises(Unavailable, match="dead-letter topic dead cannot be written"):
            one.settle([failed(2), failed(3)], topic_id)
        assert store.dead_letters.count() == 1, "a dead letter in the store is in every other place, too"
        broker.start()
        one.settle([failed(2), failed(3)], topic_id)
        one.settle([failed(4)], topic_id)
        offsets = [dict(record.headers())["penstock.offset"] for record in broker.read(name, 4)]
        assert offsets == [b"1", b"2", b"3", b"4"]
        assert broker.end_offsets(name) == {0: 4}
    assert [len(each.history) for page in store.dead_letters.pages() for each in page] == [1] * 4


def test_a_topic_that_does_not_take_records_is_an_outage_too(
    kafka: KafkaBroker, settling: Callable[..., DeadLetterWriter], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sinks, "_TIMEOUT", 2.0)
    with pytest.raises(Unavailable, match="cannot be written"):
        settling("127.0.0.1:1", dead_letter={"topic": "nowhere"}).settle([failed(1)], topic_id)


def test_a_letter_in_a_file_reads_back_as_it_was(
    settling: Callable[..., DeadLetterWriter], store: Store, tmp_path: Path
) -> None:
    one = settling(dead_letter={"file": "letters/dead.jsonl", "rotate": "4KB"})
    one.settle([failed(1, b"\xff\x00"), failed(2, None)], topic_id)
    for offset in range(3, 9):
        one.settle([failed(offset)], topic_id)
    files = sorted((tmp_path / "letters").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    assert len(files) > 1
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 and file.stat().st_size <= 4_000 for file in files)
    read: list[DeadLetter] = [
        letter_from_json(json.loads(li)) for file in files for li in file.read_text().splitlines()
    ]
    assert read == [each.letter for page in store.dead_letters.pages() for each in page]


def test_i06_a_file_that_cannot_be_written_holds_the_window(
    settling: Callable[..., DeadLetterWriter], tmp_path: Path
) -> None:
    (tmp_path / "letters").write_text("a file where a folder has to be")
    one = settling(dead_letter={"file": "letters/dead.jsonl"})
    with pytest.raises(Unavailable, match=re.escape("letters/dead.jsonl cannot be written")):
        one.settle([failed(1)], topic_id)
    (tmp_path / "letters").unlink()
    one.settle([failed(1)], topic_id)
    assert len((tmp_path / "letters" / "dead.jsonl").read_text().splitlines()) == 1


def test_i06_a_store_that_is_unavailable_does_not_repeat_what_the_file_has(
    settling: Callable[..., DeadLetterWriter], store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, record = settling(dead_letter={"file": "dead.jsonl"}), store.dead_letters.record

    def unavailable(*_: object) -> None:
        raise Unavailable("the store does not answer")

    monkeypatch.setattr(store.dead_letters, "record", unavailable)
    held = [failed(1), failed(2)]
    for _ in range(3):
        with pytest.raises(Unavailable, match="does not answer"):
            one.settle(held, topic_id)
    monkeypatch.setattr(store.dead_letters, "record", record)
    one.settle(held, topic_id)
    assert len((tmp_path / "dead.jsonl").read_text().splitlines()) == 2
    assert store.dead_letters.count() == 2


def test_datahubs_file_has_envelopes_at_its_path(settling: Callable[..., DeadLetterWriter], tmp_path: Path) -> None:
    one = settling(failed_events_dir=str(tmp_path / "logs"))
    one.settle(
        [
            failed(1, event_type="EntityChangeEvent_v1", seen=b'{"big": 1180591620717411303424}'),
            failed(2, b'{\n "n": 2}', seen=b'{"n": "cut of'),
            failed(3, b"no json", stage="decode", seen=None),
        ],
        topic_id,
    )
    lines = (tmp_path / "logs" / "large_orders_ü" / "failed_events.log").read_text().splitlines()
    where = '"meta": {"kafka":{"topic":"orders","offset":%d,"partition":0}} }'
    assert lines == [
        '{ "event_type": "EntityChangeEvent_v1", "event": {"big": 1180591620717411303424}, ' + where % 1,
        '{ "event_type": "JsonEvent", "event": {  "n": 2}, ' + where % 2,
    ]


def test_datahubs_file_is_no_reason_to_stop(
    settling: Callable[..., DeadLetterWriter], store: Store, tmp_path: Path
) -> None:
    (tmp_path / "logs").write_text("")
    settling(failed_events_dir=str(tmp_path / "logs")).settle([failed(1)], topic_id)
    assert store.dead_letters.count() == 1
