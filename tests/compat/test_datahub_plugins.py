"""Classes and files written for DataHub Actions, unchanged, on a real broker and the real engine, without DataHub's
package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.engine.pipelines.runner import PipelineRunner
from tests.support.datahub import Records, dataset
from tests.support.engine import Engine, lines
from tests.support.home import prepared_home
from tests.support.kafka import KafkaBroker
from tests.support.registry import RegistryServer
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

WAIT_S = 60.0
PLUGINS = Path(__file__).parent / "datahub" / "plugins.py"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with Engine(tmp_path_factory.mktemp("engine")) as running:
        # Beside the pipelines' files, as users have them.
        (running.folder / "plugins.py").write_text(PLUGINS.read_text())
        yield running


@pytest.fixture(scope="module")
def records() -> Iterator[Records]:
    with RegistryServer() as registry:
        yield Records(registry)


class Site:
    """Topics of a catalogue, and pipelines as its users write them."""

    def __init__(self, engine: Engine, kafka: KafkaBroker, records: Records, topic: Callable[..., str]) -> None:
        self.engine, self.kafka, self.records = engine, kafka, records
        self.changes, self.platform = topic(), topic()

    def document(self, name: str, action: dict[str, Any], **more: Any) -> dict[str, Any]:
        connection = {
            "bootstrap": self.kafka.bootstrap,
            "schema_registry_url": self.records.registry_url,
            "consumer_config": {"auto.offset.reset": "earliest"},
        }
        routes = {"mcl": self.changes, "pe": self.platform}
        options = {"failed_events_dir": str(self.engine.folder / "failed")} | more.pop("options", {})
        source = {"type": "kafka", "config": {"connection": connection, "topic_routes": routes}}
        return {"name": name, "source": source, "action": action, "options": options, **more}

    def stop(self, flow: PipelineRunner, out: Path) -> list[Any]:
        """End a pipeline; what its action wrote before it was closed."""
        self.engine.stop(flow)
        until(lambda: lines(out)[-1:] == ["closed"], WAIT_S, lambda: lines(out))
        return lines(out)[:-1]

    def run(self, name: str, action: dict[str, Any], **more: Any) -> PipelineRunner:
        return self.engine.run(self.document(f"{name}-{self.changes}", action, **more))


@pytest.fixture
def site(engine: Engine, kafka: KafkaBroker, records: Records, topic: Callable[..., str]) -> Site:
    return Site(engine, kafka, records, topic)


def test_a_custom_action_gets_what_it_relies_on(site: Site, tmp_path: Path) -> None:
    out = tmp_path / "out"
    tag = {"tagUrn": "urn:li:tag:pii"}
    site.kafka.produce(site.changes, [site.records.change_log(1, {"tags": []}, "globalTags")])
    site.kafka.produce(site.platform, [site.records.entity_change(2, "TAG", modifier="urn:li:tag:pii", parameters=tag)])
    flow = site.run(
        "custom",
        {"type": "plugins:CustomAction", "config": {"out": str(out)}},
        transform=[{"type": "plugins.CustomTransformer"}, {"type": "./plugins.py:CustomTransformer"}],
    )
    until(lambda: len(lines(out)) == 2, WAIT_S, lambda: (lines(out), flow.state, flow.reason))
    entity, change = sorted(site.stop(flow, out), key=lambda line: line["type"])
    assert change["pipeline"] == flow.name
    assert change["meta"] == {"kafka": {"topic": site.changes, "offset": 0, "partition": 0}, "touched": 2}
    assert change["facts"][:4] == ["dataclass", "change log", "dataset", "globalTags"]
    assert change["envelope"]["event"]["entityUrn"] == dataset(1)
    assert entity["facts"] == ["dataclass", "entity change", "TAG", "urn:li:corpuser:user1", "tagUrn"]
    assert entity["envelope"]["event"]["parameters"] == tag


def test_filters_by_tag_owner_domain_and_term(site: Site, tmp_path: Path) -> None:
    made = {
        "tag": site.records.entity_change(1, "TAG", modifier="urn:li:tag:pii"),
        "other tag": site.records.entity_change(2, "TAG", modifier="urn:li:tag:other"),
        "owner": site.records.entity_change(3, "OWNERSHIP", modifier="urn:li:corpuser:user2"),
        "domain": site.records.entity_change(4, "DOMAIN", modifier="urn:li:domain:sales"),
        "domain removed": site.records.entity_change(5, "DOMAIN", "REMOVE", modifier="urn:li:domain:sales"),
        "term": site.records.entity_change(6, "GLOSSARY_TERM", modifier="urn:li:glossaryTerm:secret"),
    }
    site.kafka.produce(site.platform, made.values())
    site.kafka.produce(site.changes, [site.records.change_log(9, {}, "ownership")])
    legacy = {
        "event_type": "EntityChangeEvent_v1",
        "event": {"category": "TAG", "operation": "ADD", "modifier": "urn:li:tag:pii"},
    }
    wanted = {
        "EntityChangeEvent_v1": {
            "event": [
                {"category": ["OWNERSHIP", "GLOSSARY_TERM"]},
                {"category": "DOMAIN", "operation": "ADD", "modifier": "urn:li:domain:sales"},
            ]
        }
    }
    outs = {"legacy": tmp_path / "legacy", "filters": tmp_path / "filters"}
    flows = [
        site.run("legacy", {"type": "plugins:CustomAction", "config": {"out": str(outs["legacy"])}}, filter=legacy),
        site.run(
            "filters",
            {"type": "plugins:CustomAction", "config": {"out": str(outs["filters"])}},
            filters=[{"type": "event_type", "config": {"filter": wanted}}],
        ),
    ]
    for flow in flows:
        until(lambda flow=flow: flow.stats.counts.read == 7, WAIT_S, lambda flow=flow: flow.stats.counts)
    seen = {name: site.stop(flow, out) for flow, (name, out) in zip(flows, outs.items(), strict=True)}
    urns = {name: [line["envelope"]["event"]["entityUrn"] for line in written] for name, written in seen.items()}
    assert urns == {"legacy": [dataset(1)], "filters": [dataset(3), dataset(4), dataset(6)]}


def test_a_retry_sees_nothing_of_the_attempt_before(site: Site, tmp_path: Path) -> None:
    out = tmp_path / "out"
    site.kafka.produce(site.changes, [site.records.change_log(number, {}, "ownership") for number in range(3)])
    flow = site.run(
        "again",
        {"type": "plugins:FailsFirst", "config": {"out": str(out)}},
        transform=[{"type": "plugins:CustomTransformer"}],
        options={"retry_count": 1},
    )
    until(lambda: len(lines(out)) == 3, WAIT_S, lambda: (lines(out), flow.state, flow.reason))
    for number, line in enumerate(site.stop(flow, out)):
        assert line["envelope"]["event"]["entityUrn"] == dataset(number)
        assert line["meta"] == {"kafka": {"topic": site.changes, "offset": number, "partition": 0}, "touched": 1}
    assert site.engine.dead_letters(flow.name) == []


def test_a_batch_is_acknowledged_when_it_is_full_and_the_rest_at_the_end(site: Site, tmp_path: Path) -> None:
    out = tmp_path / "out"
    site.kafka.produce(site.changes, [site.records.change_log(number, {}, "ownership") for number in range(25)])
    flow = site.run("batches", {"type": "plugins:Batcher", "config": {"out": str(out), "size": 10}})
    until(lambda: len(lines(out)) == 2, WAIT_S, lambda: (lines(out), flow.state, flow.reason))
    until(lambda: _committed(site, flow) == 20, WAIT_S, lambda: _committed(site, flow))
    until(lambda: flow.stats.counts.read == 25, WAIT_S, lambda: flow.stats.counts)
    site.engine.stop(flow)
    assert _committed(site, flow) == 25
    assert lines(out) == [list(range(10)), list(range(10, 20)), list(range(20, 25))]


def _committed(site: Site, flow: PipelineRunner) -> int | None:
    return site.kafka.offsets(flow.spec.group).get((site.changes, 0))


LIBRARY = """
import json, sys, threading, time
from pathlib import Path

import penstock.testing
from datahub_actions.pipeline.pipeline import Pipeline

pipeline = Pipeline.create(json.loads(Path("pipeline.json").read_text()))

def stop_when_written():
    while not Path(sys.argv[1]).exists():
        time.sleep(0.1)
    pipeline.stop()

threading.Thread(target=stop_when_written, daemon=True).start()
pipeline.run()
pipeline.close()
print(pipeline.stats().as_string())
"""


def test_code_that_runs_a_pipeline_itself_gets_the_engine(site: Site, tmp_path: Path) -> None:
    out = tmp_path / "out"
    site.kafka.produce(site.changes, [site.records.change_log(1, {}, "ownership")])
    document = site.document("library", {"type": f"{PLUGINS}:CustomAction", "config": {"out": str(out)}})
    (tmp_path / "pipeline.json").write_text(json.dumps(document))
    done = subprocess.run(
        [sys.executable, "-c", LIBRARY, str(out)],
        cwd=tmp_path,
        env=os.environ | {"PENSTOCK_HOME": str(prepared_home(tmp_path / "home"))},
        capture_output=True,
        text=True,
        check=False,
        timeout=140,
    )
    assert done.returncode == 0, done.stderr
    assert [line if line == "closed" else line["facts"][1] for line in lines(out)] == ["change log", "closed"]
    stats = json.loads(done.stdout[done.stdout.index("{") :])
    assert (stats["success_count"], stats["action_stats"]["success_count"]) == (1, 1)
    assert site.kafka.offsets("library")[site.changes, 0] == 1


def test_errors_name_the_plug_in_and_spare_the_others(site: Site, tmp_path: Path) -> None:
    out = tmp_path / "out"
    good = site.run("good", {"type": "plugins:CustomAction", "config": {"out": str(out)}})
    bad = site.engine.run(site.document(f"bad-{site.changes}", {"type": "plugins:Refuses"}), assigned=False)
    site.kafka.produce(site.changes, [site.records.change_log(1, {}, "ownership")])
    until(lambda: bad.state == "failed", WAIT_S, lambda: (bad.state, bad.reason))
    assert "plugins:Refuses` could not be created: ValueError: no such channel" in (bad.reason or "")
    until(lambda: len(lines(out)) == 1, WAIT_S, lambda: (good.state, good.reason))
    assert json.loads(out.read_text().splitlines()[0])["type"] == "MetadataChangeLogEvent_v1"
    for flow in (good, bad):
        site.engine.stop(flow)
