"""A pipeline goes on while its instance's server is flooded."""

from __future__ import annotations

import contextlib
import re
import socket
from pathlib import Path

import httpx
import pytest

from penstock.config.spec import ConnectionSpec
from penstock.kafka.client import KafkaClientConfig
from penstock.kafka.embedded import EmbeddedCluster
from penstock.kafka.producer import NewRecord, produce
from tests.support.instance import PenstockProcess
from tests.support.waiting import until

pytestmark = pytest.mark.spark


def test_a_pipeline_does_not_notice_a_flood_of_requests(tmp_path: Path) -> None:
    with EmbeddedCluster() as cluster:
        client = KafkaClientConfig.of(ConnectionSpec(bootstrap=cluster.bootstrap))
        config = (
            f'{{connection: {{bootstrap: "{cluster.bootstrap}"}}, topics: [orders], format: json, start: earliest}}'
        )
        file, out = tmp_path / "orders.yaml", tmp_path / "out.jsonl"
        action = f"{{type: file, config: {{path: {out}}}}}"
        file.write_text(f"name: orders\nsource: {{type: kafka, config: {config}}}\naction: {action}\n")

        def send(first: int, count: int = 10) -> None:
            produce(client, [NewRecord("orders", b'{"id": %d}' % n, b"k") for n in range(first, first + count)])

        def acted(count: int) -> bool:
            return out.exists() and len(out.read_text().splitlines()) >= count

        send(0)
        with PenstockProcess(["run", file], folder=tmp_path / "run") as process:
            until(lambda: acted(10), 90, "the first events")
            with contextlib.ExitStack() as held:
                for number in range(1_000):
                    place = ("127.0.0.1", process.http_port)
                    connection = held.enter_context(socket.create_connection(place, timeout=10))
                    connection.sendall(
                        b"POST /api/v1/pipelines/validate HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * (number % 50)
                    )
                keys = {f"k{number}": number for number in range(50_000)}
                for body in ({"spec": keys}, {"text": "x" * 100_000_000}):
                    with contextlib.suppress(httpx.TransportError):
                        answer = httpx.post(f"{process.url}/api/v1/pipelines/validate", json=body, timeout=30)
                        assert answer.status_code < 500, answer.text
                send(10)
                until(lambda: acted(20), 30, "events that arrive meanwhile")
                assert process.get("/health/live").is_success
            assert process.stop() == 0
    ids = [int(found) for found in re.findall(r'"event":\{"id":(\d+)\}', out.read_text())]
    assert sorted(ids) == list(range(20))
    assert "Traceback" not in process.log
