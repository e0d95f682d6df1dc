"""`penstock run` as a face: what it prints, how it ends, what the other commands then show."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.config.spec import ConnectionSpec
from penstock.kafka.client import KafkaClientConfig
from penstock.kafka.embedded import EmbeddedCluster
from penstock.kafka.producer import NewRecord, produce
from tests.faces.cli import penstock

LOUD = """\
def act(event):
    print("seen", event.event["id"])
    if event.event["id"] == 3:
        raise ValueError("three")
"""


@pytest.fixture
def bootstrap() -> Iterator[str]:
    with EmbeddedCluster() as cluster:
        yield cluster.bootstrap


def pipeline(folder: Path, name: str, bootstrap: str, action: str = "{type: hello_world}") -> Path:
    file = folder / f"{name}.yaml"
    config = f'{{connection: {{bootstrap: "{bootstrap}"}}, topics: [orders], format: json, start: earliest}}'
    file.write_text(f"name: {name}\nsource: {{type: kafka, config: {config}}}\naction: {action}\n")
    return file


def test_nothing_but_bad_files_ends_with_2_at_once(tmp_path: Path) -> None:
    file = pipeline(tmp_path, "bad", "localhost:9092", "{type: nonsense}")
    result = penstock("run", file, "--json")
    assert result.code == 2
    assert "nonsense" in result.data["error"]["message"]
    assert "Traceback" not in result.err


def test_a_configured_port_that_is_taken_ends_with_2(tmp_path: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        result = penstock("run", pipeline(tmp_path, "p", "localhost:9092"), PENSTOCK_HTTP_PORT=str(port))
    assert result.code == 2
    assert "port_taken" in result.err


@pytest.mark.spark
def test_until_caught_up_prints_the_summary_and_nothing_else(bootstrap: str, tmp_path: Path) -> None:
    (tmp_path / "loud.py").write_text(LOUD)
    pipeline(tmp_path, "loud", bootstrap, "{type: python, config: {callable: 'loud.py:act'}}")
    pipeline(tmp_path, "bad", bootstrap, "{type: nonsense}")
    client = KafkaClientConfig.of(ConnectionSpec(bootstrap=bootstrap))
    values = [b'{"id": %d}' % n for n in range(1, 6)] + [b"not json"]
    produce(client, [NewRecord("orders", value, b"k") for value in values])
    result = penstock("run", tmp_path, "--until-caught-up", "--json", PENSTOCK_HTTP_PORT="0")
    assert result.code == 1, "a file that cannot be used is not forgotten\n" + result.err
    loud = result.data["pipelines"]["loud"]
    assert (loud["events"], loud["acted"], loud["filtered"], loud["failed"]) == (6, 4, 0, 2)
    assert set(loud["latency_ms"]) == {"p50", "p99"}
    assert "metrics and health: http://127.0.0.1:" in result.err
    letters = penstock("dead-letters", "list", "--json").data
    assert sorted((letter["stage"], letter["offset"]) for letter in letters) == [("act", 2), ("decode", 5)]
    (status,) = [each for each in penstock("status", "--json").data if each["pipeline"] == "loud"]
    assert (status["state"], status["dead_letters"]) == ("stopped", 2)
    again = penstock("run", tmp_path / "loud.yaml", "--until-caught-up", "--json", PENSTOCK_HTTP_PORT="0")
    assert again.code == 0, again.err
    assert again.data["pipelines"]["loud"]["events"] == 0
