"""Pipelines that nobody runs until a person says so: readiness and the series of their alerts tell of them, after a
change of their files and on the next instance, too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.config.spec import ConnectionSpec
from penstock.kafka.client import KafkaClientConfig
from penstock.kafka.embedded import EmbeddedCluster
from penstock.kafka.producer import NewRecord, produce
from tests.support.instance import PenstockProcess
from tests.support.waiting import until

pytestmark = pytest.mark.spark

TEXT = """\
name: {name}
source: {{config: {{connection: {{bootstrap: "{bootstrap}"}}, topics: [numbers], format: json, start: earliest}}}}
action: {{type: python, config: {{callable: "acts.py:act"}}}}
options: {{{options}}}
"""
HELD = {"broken": "paused", "strict": "failed"}


def states(running: PenstockProcess) -> dict[str, Any]:
    return {view["pipeline"]: view["state"] for view in running.get("/health/ready").json()["pipelines"]}


def tells(running: PenstockProcess) -> None:
    """Ready, for no other instance could do better; and yet nothing is hidden."""
    answer = running.get("/health/ready")
    assert answer.status_code == 200, answer.text
    assert {view["pipeline"]: view["state"] for view in answer.json()["pipelines"] if not view["ready"]} == {
        "strict": "failed"
    }
    assert running.metric("penstock_breaker_open", pipeline="broken") == 1
    assert running.metric("penstock_pipeline_state", pipeline="strict", state="failed") == 1


def test_what_a_person_must_see_to_stays_visible_and_holds_no_instance_back(tmp_path: Path) -> None:
    folder = tmp_path / "pipelines"
    folder.mkdir()
    (folder / "acts.py").write_text("def act(event):\n    raise ValueError('no')\n")
    with EmbeddedCluster() as broker:
        client = KafkaClientConfig.of(ConnectionSpec(bootstrap=broker.bootstrap))
        produce(client, [NewRecord("numbers", b'{"n": %d}' % n, b"k") for n in range(60)])

        def put(name: str, options: str) -> None:
            text = TEXT.format(name=name, bootstrap=broker.bootstrap, options=options)
            (folder / f"{name}.yaml").write_text(text)

        put("strict", "failure_mode: THROW")
        put("broken", "timeout: 30s")
        home = {"PENSTOCK_HOME": str(tmp_path / "home")}
        with PenstockProcess(["run", folder], folder=tmp_path / "first", env=home) as first:
            first.wait_ready()
            until(lambda: states(first) == HELD, 120, lambda: first.log)
            tells(first)
            put("strict", "failure_mode: THROW, timeout: 20s")
            put("broken", "timeout: 20s")
            until(lambda: first.log.count("has changed and was restarted") == len(HELD), 60, lambda: first.log)
            until(lambda: states(first) == HELD, 60, lambda: first.log)
            tells(first)
            first.stop()
        with PenstockProcess(["run", folder], folder=tmp_path / "second", env=home) as second:
            second.wait_ready()
            until(lambda: states(second) == HELD, 60, lambda: second.log)
            tells(second)
