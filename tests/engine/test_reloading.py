"""A running instance takes changes of its files up: only what has changed restarts, and a bad file changes nothing. On
the way it is asked what it tells the world: status, health, metrics, lineage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.config.spec import ConnectionSpec
from penstock.kafka.client import KafkaClientConfig
from penstock.kafka.embedded import EmbeddedCluster
from penstock.kafka.producer import NewRecord, produce
from tests.faces.cli import penstock
from tests.support.instance import PenstockProcess
from tests.support.receiver import Receiver
from tests.support.waiting import until

pytestmark = pytest.mark.spark

TEXT = """\
name: {name}
source: {{config: {{connection: {{bootstrap: "{bootstrap}"}}, topics: [numbers], format: json, start: earliest}}}}
filters: [{{type: cel, config: {{expression: "event.n >= {least}"}}}}]
action: {{type: file, config: {{path: "{folder}/{name}.jsonl"}}}}
"""


class Folder:
    """Pipeline files and what their pipelines wrote."""

    def __init__(self, path: Path, bootstrap: str) -> None:
        path.mkdir()
        self.path, self._bootstrap = path, bootstrap

    def put(self, name: str, least: int = 0, *, spoilt: bool = False) -> None:
        """Replace a file, as editors do."""
        text = TEXT.format(name=name, least=least, bootstrap=self._bootstrap, folder=self.path)
        fresh = self.path / ".fresh"
        fresh.write_text(text.replace("action:", "acton:") if spoilt else text)
        fresh.rename(self.path / f"{name}.yaml")

    def numbers(self, name: str) -> list[int]:
        file = self.path / f"{name}.jsonl"
        return [json.loads(line)["event"]["n"] for line in file.read_text().splitlines()] if file.exists() else []


def views(running: PenstockProcess) -> dict[str, Any]:
    return {view["pipeline"]: view for view in running.get("/health/ready").json()["pipelines"]}


def test_changes_of_files_are_taken_up(tmp_path: Path) -> None:
    with EmbeddedCluster() as broker, Receiver() as receiver:
        client = KafkaClientConfig.of(ConnectionSpec(bootstrap=broker.bootstrap))

        def send(*numbers: int) -> None:
            produce(client, [NewRecord("numbers", b'{"n": %d}' % n, b"k") for n in numbers])

        folder = Folder(tmp_path / "pipelines", broker.bootstrap)
        for name in ("one", "two"):
            folder.put(name)
        send(1, 2)
        environ = {"PENSTOCK_LINEAGE_URL": receiver.url}
        with PenstockProcess(["run", folder.path], folder=tmp_path / "run", env=environ) as running:
            until(lambda: folder.numbers("one") == folder.numbers("two") == [1, 2], 180, lambda: running.log)

            folder.put("one", least=10)
            running.wait_log("pipeline has changed and was restarted")
            send(3, 30)
            until(lambda: folder.numbers("one") == [1, 2, 30], 60, lambda: running.log)
            until(lambda: folder.numbers("two") == [1, 2, 3, 30], 60, lambda: running.log)
            assert running.log.count("pipeline has changed and was restarted") == 1
            until(lambda: running.metric("penstock_read_total", pipeline="one") == 4, 30, "counts go on over a restart")
            assert running.metric("penstock_lag", pipeline="one") == 0
            assert running.metric("penstock_pipeline_state", pipeline="one") == 1

            folder.put("two", spoilt=True)
            until(lambda: running.metric("penstock_config_problems") == 1, 60, lambda: running.log)
            assert running.is_ready(), "what ran goes on"
            said = penstock("status", "--json", PENSTOCK_HOME=str(running.home)).data
            [row] = [row for row in said if row["pipeline"] == "two"]
            assert row["state"] in ("running", "idle")
            assert "did you mean 'action'?" in row["reason"]
            send(40)
            until(lambda: folder.numbers("two")[-1:] == [40], 60, lambda: running.log)

            folder.put("two")
            folder.put("three", least=40)
            until(lambda: folder.numbers("three") == [40], 60, lambda: running.log)
            until(lambda: running.metric("penstock_config_problems") == 0, 30, lambda: running.log)
            (folder.path / "one.yaml").unlink()
            running.wait_log("pipeline is gone and was stopped")
            until(lambda: set(views(running)) == {"two", "three"}, 30, lambda: running.log)

            assert running.metric("penstock_read_total", pipeline="two") == 5
            assert running.metric("penstock_step_events_total", pipeline="three", outcome="dropped") == 4
            for stage in ("decode", "filter", "act"):
                assert running.metric("penstock_stage_seconds_count", pipeline="three", stage=stage) >= 1
            assert running.metric("penstock_commit_seconds_count", pipeline="two") >= 1
            assert running.metric("penstock_store_seconds_count", operation="write") >= 1
            assert running.metric("messaging_client_consumed_messages_total") >= 10
            running.terminate()
            assert running.wait() == 0
        told = [json.loads(request.body) for request in receiver.received]
    kinds = [(event["job"]["name"], event["eventType"]) for event in told]
    assert kinds.count(("one", "START")) == 2
    assert kinds.count(("one", "COMPLETE")) == 2
    assert kinds.count(("two", "COMPLETE")) == 1
    [last] = [event for event in told if event["job"]["name"] == "two" and event["eventType"] == "COMPLETE"]
    assert last["inputs"][0]["name"] == "numbers"
    assert last["inputs"][0]["inputFacets"]["inputStatistics"]["rowCount"] == 5
