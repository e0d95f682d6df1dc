"""Two instances that share a store: a replay that one does is followed and stopped at the other, and outlives it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.instance import PenstockProcess
from tests.support.kafka import KafkaBroker
from tests.support.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

LETTERS = 200
WAIT_S = 90.0
ACT = """\
import pathlib, time

def act(event):
    if not pathlib.Path("{mended}").exists():
        raise ValueError("not mended yet")
    time.sleep(0.05)
"""
PIPELINE = """\
name: orders
source:
  type: kafka
  config: {{connection: {{bootstrap: "{bootstrap}"}}, topics: [{topic}], format: json, start: earliest}}
options: {{breaker: {{enabled: false}}}}
action: {{type: python, config: {{callable: "acting.py:act"}}}}
"""
CHOICE = {"filter": {"pipeline": "orders"}}


class Asked:
    """The API of an instance."""

    def __init__(self, process: PenstockProcess) -> None:
        self.process = process

    def ask(self, method: str, path: str, **options: Any) -> Any:
        answer = httpx.request(method, f"{self.process.url}/api/v1/dead-letters{path}", timeout=30, **options)
        assert answer.is_success, answer.text
        return answer.json()

    def statuses(self) -> dict[str, int]:
        counts: dict[str, int] = self.ask("GET", "/facets")["counts"]["status"]
        return counts

    def replay(self) -> str:
        return str(self.ask("POST", "/replay", json=CHOICE)["id"])

    def reached(self, job: str, state: str, done: int = 0) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            found: dict[str, Any] = self.ask("GET", f"/jobs/{job}")
            return found if found["state"] == state and found["done"] >= done else None

        return until(look, WAIT_S, lambda: f"{state}: {self.ask('GET', f'/jobs/{job}')}")


def test_a_replay_is_steered_from_another_instance_and_begun_anew_there(kafka: KafkaBroker, tmp_path: Path) -> None:
    topic = kafka.create_topic(f"live-jobs-{os.getpid()}", 1)
    kafka.produce(topic, [b'{"id": 1}'] * LETTERS)
    (tmp_path / "acting.py").write_text(ACT.format(mended=tmp_path / "mended"))
    file = tmp_path / "orders.yaml"
    file.write_text(PIPELINE.format(bootstrap=kafka.bootstrap, topic=topic))
    env = {"PENSTOCK_STORE_URL": f"sqlite:///{tmp_path}/store.db"}
    with (
        PenstockProcess(["run", file], folder=tmp_path / "first", env=env) as one,
        PenstockProcess(["run", file], folder=tmp_path / "second", env=env) as other,
    ):
        for process in (one, other):
            process.wait_ready(120)
        first, second = Asked(one), Asked(other)
        until(lambda: first.statuses() == {"new": LETTERS}, WAIT_S, first.statuses)
        (tmp_path / "mended").touch()

        job = first.replay()
        assert second.reached(job, "running", done=1)["letters"] == LETTERS
        second.ask("POST", f"/jobs/{job}/stop")
        stopped = second.reached(job, "stopped")
        left = LETTERS - stopped["done"]
        assert left > 0
        assert second.statuses() == {"replayed": stopped["done"], "new": left}

        lost = first.replay()
        second.reached(lost, "running", done=1)
        one.kill()
        failed = second.reached(lost, "failed")
        assert "is gone" in failed["error"]
        assert "replaying" not in second.statuses()

        again = second.replay()
        assert second.reached(again, "done")["instance"] != failed["instance"]
        assert second.statuses() == {"replayed": LETTERS}
        assert [each["state"] for each in second.ask("GET", "/jobs")] == ["done", "failed", "stopped"]
        assert other.stop() == 0
