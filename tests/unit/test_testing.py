"""The kit that users import for their own tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import penstock.testing
from penstock.config.problems import InvalidConfigError
from penstock.config.spec import PipelineSpec
from penstock.core.errors import ConfigError, PluginError
from penstock.testing import TestPipeline, given, run_pipeline

YAML = """
name: large-orders
source: {type: kafka, config: {topics: [orders], format: json}}
filters:
  - {type: match, config: {event: {status: [paid, shipped]}}}
  - {type: cel, config: {expression: "event.total > 100.0"}}
transform:
  - {type: map, config: {fields: {id: event.id, shout: "event.status.upperAscii()"}}}
action: {type: webhook, config: {url: "https://example.org/hook"}}
"""


def spec(action: dict[str, Any], **more: Any) -> dict[str, Any]:
    source = {"type": "kafka", "config": {"topics": ["orders"], "format": more.pop("format", "json")}}
    return {"name": "p", "source": source, "action": action, **more}


def test_the_public_names_are_pinned() -> None:
    assert penstock.testing.__all__ == ["Given", "Outcome", "Run", "TestPipeline", "given", "run_pipeline"]


def test_a_pipeline_runs_in_memory_and_sends_nothing() -> None:
    run = run_pipeline(
        YAML,
        [
            {"id": 1, "status": "paid", "total": 120},
            {"id": 2, "status": "new", "total": 120},
            {"id": 3, "status": "paid", "total": 5.5},
            {"id": 4, "status": "paid"},
            {"status": "paid", "total": 200},
            given(raw="{not json"),
        ],
    )
    assert [each.outcome for each in run] == ["acted", "filtered", "filtered", "failed", "failed", "failed"]
    assert run.acted == [{"id": 1, "shout": "PAID"}]
    assert run.filtered == 2
    assert [(each.stage, each.error_code) for each in run.failed] == [
        ("filter", "expression"),
        ("transform", "expression"),
        ("decode", "decode"),
    ]
    assert "no field 'total'" in str(run[3].error)
    assert run[4].value == {"status": "paid", "total": 200}
    assert len(run) == 6
    assert "acted" in repr(run)


def test_specs_come_as_file_text_map_or_model(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(YAML)
    loaded = TestPipeline(tmp_path / "p.yaml")
    loaded.close()
    assert isinstance(loaded.spec, PipelineSpec)
    for form in (tmp_path / "p.yaml", str(tmp_path / "p.yaml"), YAML, loaded.spec, spec({"type": "hello_world"})):
        assert run_pipeline(form, []).acted == []
    (tmp_path / "two.yaml").write_text(YAML + "---\n" + YAML.replace("large-orders", "other"))
    with pytest.raises(ConfigError, match=r"two\.yaml has 2"):
        run_pipeline(tmp_path / "two.yaml", [])
    with pytest.raises(InvalidConfigError, match="cannot be read"):
        run_pipeline("nowhere.yaml", [])
    with pytest.raises(InvalidConfigError, match="action"):
        run_pipeline({"name": "p", "source": {"type": "kafka"}}, [])


ACTIONS = """
from penstock import Action, BatchAction

class Batch(BatchAction):
    @classmethod
    def create(cls, config, ctx):
        return cls()

    def act_batch(self, events):
        return [ValueError("odd") if event.value % 2 else None for event in events]

    def close(self):
        pass

class Keeps(Action):
    def __init__(self, ctx):
        self.ctx, self.held, self.closed = ctx, [], False

    @classmethod
    def create(cls, config, ctx):
        return cls(ctx)

    def act(self, event):
        self.held.append(event)
        if len(self.held) % 2 == 0:
            for held in self.held:
                self.ctx.event_source.ack(held)
        return False

    async def close(self):
        self.closed = True

def nonsense(event):
    return {"not": "a result"}

async def later(event, config):
    if event.key == b"bad":
        raise config["error"] if "error" in config else KeyError("x")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "acts.py").write_text(ACTIONS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_actions_of_every_kind(folder: Path) -> None:
    run = run_pipeline(spec({"type": "acts.py:Batch"}), [1, 2])
    assert [each.outcome for each in run] == ["failed", "acted"]
    assert (run[0].stage, run[0].error, run[0].error_code) == ("act", "odd", "ValueError")
    run = run_pipeline(spec({"type": "python", "config": {"callable": "acts.py:nonsense"}}), [1])
    assert (run[0].outcome, run[0].error_code) == ("failed", "act-result")
    assert "act returned dict" in str(run[0].error)
    run = run_pipeline(spec({"type": "python", "config": {"callable": "acts.py:later"}}), [1, given(2, key="bad")])
    assert [each.error_code for each in run] == [None, "KeyError"]


def test_state_deferral_and_close(folder: Path) -> None:
    with TestPipeline(spec({"type": "acts.py:Keeps"})) as pipeline:
        assert [each.outcome for each in pipeline.send(1)] == ["deferred"]
        assert [each.outcome for each in pipeline.send(2)] == ["acted"]
        assert [event.meta["kafka"]["offset"] for event in pipeline.action.held] == [0, 1]
    assert pipeline.action.closed
    pipeline.close()


def test_what_reaches_out_runs_only_when_asked(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    action = {"type": "file", "config": {"path": str(out)}}
    assert run_pipeline(spec(action), [1]).acted == [1]
    assert not out.exists()
    assert run_pipeline(spec(action), [1], act="real").acted == [1]
    assert len(out.read_text().splitlines()) == 1
    with pytest.raises(ConfigError, match="did you mean `path`"):
        run_pipeline(spec({"type": "file", "config": {"pth": "x"}}), [1])
    with pytest.raises(PluginError, match="did you mean `webhook`"):
        run_pipeline(spec({"type": "webhok"}), [1])


def test_formats_that_need_a_registry_take_decoded_values(folder: Path) -> None:
    filters = [{"type": "event_type", "config": {"filter": {"orders.Paid": {"event": [{"n": 1}]}}}}]
    run = run_pipeline(
        spec({"type": "hello_world"}, format="avro", filters=filters),
        [given({"n": 1}, event_type="orders.Paid"), given({"n": 2}, event_type="orders.Paid"), {"n": 1}],
    )
    assert [each.outcome for each in run] == ["acted", "filtered", "filtered"]
    with pytest.raises(ConfigError, match="need a registry"):
        run_pipeline(spec({"type": "hello_world"}, format="avro"), [given(raw=b"\x00")])


def test_given_records_reach_the_action_as_they_are(folder: Path) -> None:
    record = given("text", key="k", headers={"a": "1"}, topic="t2", partition=4, timestamp=5)
    [outcome] = run_pipeline(spec({"type": "hello_world"}, format="text"), [record])
    event = outcome.event
    assert event
    assert (event.value, event.key, event.headers, event.timestamp) == ("text", b"k", [("a", b"1")], 5)
    assert (event.record.topic(), event.record.partition(), event.record.value()) == ("t2", 4, b"text")
    [empty] = run_pipeline(spec({"type": "hello_world"}), [given()])
    assert empty.outcome == "acted"
    assert empty.value is None


def test_the_kit_loads_no_spark() -> None:
    script = (
        "import sys\nfrom penstock.testing import run_pipeline\n"
        "source = {'type': 'kafka', 'config': {'topics': ['t'], 'format': 'json'}}\n"
        "action = {'type': 'webhook', 'config': {'url': 'http://a.b'}}\n"
        "run_pipeline({'name': 'p', 'source': source, 'action': action}, [1])\n"
        "print('pyspark' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
