"""`make kafka-cluster`: three nodes with topics, ended by Ctrl-C without a trace."""

from __future__ import annotations

import os
import re
import signal
import socket
import sys
from pathlib import Path

import pytest
from bench import kafka_cluster

from tests.docs.snippets import ROOT
from tests.support.children import CHILDREN
from tests.support.kafka_client import KafkaClient
from tests.support.ports import free_port
from tests.support.waiting import until


def test_three_nodes_come_up_with_their_topics_and_go_without_a_trace(tmp_path: Path) -> None:
    ports = [free_port() for _ in range(3)]
    said = tmp_path / "said"
    command = [sys.executable, "-m", "bench.kafka_cluster", "--ports", *map(str, ports)]
    with said.open("wb") as output:
        running = CHILDREN.spawn(command, name="kafka-cluster", output=output, env=dict(os.environ), cwd=ROOT)
    until(lambda: "Ctrl-C ends" in said.read_text(), 120, lambda: f"the cluster is up: {said.read_text()}")
    client = KafkaClient()
    client.bootstrap = f"127.0.0.1:{ports[0]}"
    topics = client.admin.list_topics(timeout=20).topics
    for topic in kafka_cluster.TOPICS:
        copies = [len(partition.replicas) for partition in topics[topic].partitions.values()]
        assert copies == [3, 3, 3]
    running.send_signal(signal.SIGINT)
    assert running.wait(timeout=60) == 0
    CHILDREN.ended(running)
    folders = re.findall(r"(/\S+)/broker\.log", said.read_text())
    assert len(folders) == 3
    assert not any(Path(folder).exists() for folder in folders)


def test_ports_that_are_taken_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert kafka_cluster.main(["--ports", str(port), "1", "2"]) == 2
    assert f"ports in use already: {port}" in capsys.readouterr().out
