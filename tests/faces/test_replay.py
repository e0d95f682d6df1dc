"""`replay` and `dead-letters replay`: what is refused, with nothing changed; what a dry run shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.main import app
from penstock.config.loading import load
from penstock.config.stored import stored
from penstock.store.store import Store
from tests.faces.cli import Result
from tests.faces.test_store_commands import letter
from tests.support.kafka import KafkaBroker


def document(name: str = "orders", **more: Any) -> dict[str, Any]:
    connection = {"bootstrap": more.pop("bootstrap", "127.0.0.1:1")}
    config = {"connection": connection, "topics": ["orders"], "format": "json"} | more.pop("source", {})
    return {"name": name, "source": {"type": "kafka", "config": config}, "action": {"type": "hello_world"}} | more


@pytest.fixture
def pipeline_file(tmp_path: Path) -> Path:
    file = tmp_path / "orders.json"
    file.write_text(json.dumps(document()))
    return file


@pytest.fixture
def store(penstock_home: Path) -> Store:
    penstock_home.mkdir(parents=True)
    opened = Store.open(f"sqlite:///{penstock_home / 'penstock.db'}")
    opened.dead_letters.record([letter(1), letter(2), letter(3, error="another thing"), letter(4, pipeline="other")])
    return opened


class CommandLine:
    """The command in this process: these tests call it forty times, and a process of its own takes a second."""

    def __init__(self, capture: pytest.CaptureFixture[str]) -> None:
        self._capture = capture

    def __call__(self, *args: object) -> Result:
        with pytest.raises(SystemExit) as ended:
            app(list(map(str, args)), prog_name="penstock")
        out, err = self._capture.readouterr()
        code = ended.value.code
        return Result(code if isinstance(code, int) else 0, out, err)

    def letters(self, *args: object) -> Result:
        return self("dead-letters", "replay", *args)


@pytest.fixture
def penstock(capfd: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(capfd)


def refused(result: Result, *words: str) -> None:
    assert result.code == 2, result.out + result.err
    for word in words:
        assert word in result.err


def test_a_dry_run_counts_and_changes_nothing(penstock: CommandLine, store: Store, pipeline_file: Path) -> None:
    shown = penstock.letters("--pipeline", "orders", "--config", pipeline_file, "--dry-run", "--json").data
    place = {"pipeline": "orders", "topic": "orders", "partition": 0, "letters": 3}
    assert shown == {"letters": 3, "partitions": [place]}
    narrow = penstock.letters("--error", "another", "--config", pipeline_file, "--dry-run", "--json").data
    assert narrow["letters"] == 1
    assert "3" in penstock.letters("--pipeline", "orders", "--config", pipeline_file, "--dry-run").out
    assert penstock.letters("--pipeline", "orders", "--text", "nowhere", "--json", "--yes").data["letters"] == 0
    assert store.dead_letters.counts_by_status() == {"new": 4}


def test_what_cannot_be_replayed_is_refused_and_nothing_is_changed(
    penstock: CommandLine, store: Store, pipeline_file: Path
) -> None:
    ids = {row.offset: row.id for row in store.dead_letters.list()}
    store.dead_letters.discard([ids[2]], by="me")
    file = ("--config", pipeline_file, "--yes")
    refused(penstock.letters(ids[1], ids[2], *file), f"dead letter {ids[2]} is discarded")
    refused(penstock.letters(ids[1], 4711, *file), "no such dead letter", "4711")
    refused(penstock.letters("--status", "discarded", *file), "discarded letters cannot be replayed")
    refused(penstock.letters("--stage", "nonsense", *file), "decode, filter")
    refused(penstock.letters("--since", "yesterday-ish", *file), "since")
    refused(penstock.letters(*file), "no letters are named")
    refused(penstock.letters(ids[1], "--pipeline", "orders", *file), "ids and filters")
    refused(penstock.letters("--all", "--config", pipeline_file, "--yes"), "'other' does not exist", "orders.json")
    refused(penstock.letters("--pipeline", "other", "--yes"), "'other' does not exist", "--config")
    refused(penstock.letters("--pipeline", "orders", *file, "--rate", "fast"), "a rate like 100/s")
    refused(penstock.letters("--pipeline", "orders", *file, "--value", "x"), "one letter")
    refused(penstock.letters(ids[1], *file, "--value", "x", "--edit", "y"), "not both")
    refused(penstock.letters(ids[1], *file, "--edit", "no-such-file"), "no-such-file cannot be read")
    refused(penstock.letters(ids[1], "--config", pipeline_file), "--yes")
    assert penstock.letters(ids[1], "--config", pipeline_file, "--json").data["error"]["hint"] == "give --yes"
    assert store.dead_letters.counts_by_status() == {"new": 3, "discarded": 1}
    assert {len(each.history) for page in store.dead_letters.pages() for each in page} == {1, 2}


def test_a_spec_with_secrets_has_to_be_given(penstock: CommandLine, store: Store, tmp_path: Path) -> None:
    file = tmp_path / "hook.json"
    config = {"url": "https://example.org/", "headers": {"authorization": "Bearer hunter22"}}
    file.write_text(json.dumps(document(action={"type": "webhook", "config": config})))
    (spec,) = load([file]).specs
    store.pipelines.save_spec(spec.name, spec.version, stored(spec))
    result = penstock.letters("--pipeline", "orders", "--yes")
    refused(result, "secrets masked", "--config", str(file))
    assert "hunter22" not in result.out + result.err


def test_a_store_that_does_not_exist_has_no_letters(
    penstock: CommandLine, pipeline_file: Path, penstock_home: Path
) -> None:
    refused(penstock.letters("--all", "--config", pipeline_file), "there are no dead letters")
    assert not (penstock_home / "penstock.db").exists()


def test_failed_events_of_datahub_that_cannot_be_used(
    penstock: CommandLine, store: Store, tmp_path: Path, pipeline_file: Path
) -> None:
    place = '{"kafka": {"topic": "orders", "partition": 3, "offset": 41}}'
    good = f'{{ "event_type": "x", "event": {{"id": 1}}, "meta": {place} }}'
    log = tmp_path / "failed_events.log"
    log.write_text(f'{good}\n{good}\n{{ "event_type": "x", "event": {{"id": 2}}, "meta": null }}\n')
    shown = penstock.letters("--from-file", log, "--config", pipeline_file, "--dry-run", "--json").data
    assert [(each["partition"], each["letters"]) for each in shown["partitions"]] == [(3, 1), (0, 1)]
    log.write_text(f"{good}\n{good[:30]}\n")
    refused(penstock.letters("--from-file", log, "--config", pipeline_file, "--yes"), "line 2")
    log.write_text("")
    refused(penstock.letters("--from-file", log, "--config", pipeline_file, "--yes"), "no events")
    refused(penstock.letters("--from-file", log, "--all"), "--from-file goes with")
    avro = tmp_path / "avro.yaml"
    connection = "connection: {schema_registry_url: 'http://localhost:1'}"
    source = f"{{type: kafka, config: {{topics: [orders], format: avro, {connection}}}}}"
    avro.write_text(f"name: avro\nsource: {source}\naction: {{type: hello_world}}\n")
    log.write_text(good)
    refused(penstock.letters("--from-file", log, "--config", avro, "--yes"), "format avro")


def test_ranges_outside_the_log_are_refused(
    penstock: CommandLine, kafka: KafkaBroker, tmp_path: Path, penstock_home: Path
) -> None:
    topic = kafka.create_topic("ranges-refused", 2)
    kafka.produce(topic, [b"{}"] * 3)
    file = tmp_path / "ranges.json"
    file.write_text(json.dumps(document("ranges", bootstrap=kafka.bootstrap, source={"topics": [topic]})))

    def of(*args: object, pipeline: str = "ranges") -> Result:
        return penstock("replay", pipeline, "--config", file, "--yes", *args)

    refused(of("--from", 0, "--to", 99), "not within the log", f"{topic}/0: 0 to", f"{topic}/1: 0 to")
    refused(of("--from", 2, "--to", 1), "ends before it begins")
    refused(of("--from", "2026-01-02", "--to", "2026-01-01"), "ends before it begins")
    refused(of("--from", "soon"), "--from is no place", "earliest")
    refused(of("--from", "2001-01-01", "--to", "2001-01-02"), "has no events", f"{topic}/0: 0 to")
    refused(of("--from", "earliest", "--partition", 7), "no partition 7", "0 to 1")
    refused(of("--from", "earliest", "--topic", "elsewhere"), "does not read topic 'elsewhere'", topic)
    refused(of("--from", "earliest", pipeline="nobody"), "'nobody' does not exist")
    shown = of("--from", "earliest", "--dry-run", "--json").data
    assert shown["pipeline"] == "ranges"
    assert shown["offsets"] == 3
    assert not (penstock_home / "penstock.db").exists()
    assert of("--from", 0, "--dry-run", "--json", "--to", "latest").data["ranges"][0]["log"]["first"] == 0
