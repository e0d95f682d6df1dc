"""With `penstock[datahub]` installed, in an environment of its own: the original's classes are what plug-ins get, and
the actions that its package brings run against a catalogue."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.catalogue import Catalogue
from tests.support.datahub import Records, dataset
from tests.support.engine import lines
from tests.support.instance import PenstockProcess
from tests.support.kafka import KafkaBroker
from tests.support.registry import RegistryServer
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

ROOT = Path(__file__).parents[2]
WAIT_S = 200.0


@pytest.fixture(scope="module")
def environment() -> Path:
    """Made by `make` from its lock: some 10 s from uv's cache, a minute without it."""
    subprocess.run(["make", "--silent", "setup-datahub"], cwd=ROOT, check=True, timeout=600)
    return ROOT / ".cache" / "datahub" / "bin"


def test_events_made_the_short_way_are_those_of_the_generic_way(environment: Path) -> None:
    done = subprocess.run(
        [environment / "python", "-m", "tests.compat.datahub.compare_classes"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["compared"] > 150
    assert told["short"] > 3 * told["generic"], told


class Site:
    """A broker with a catalogue's topics, and an instance with pipelines as DataHub's users write them."""

    def __init__(self, kafka: KafkaBroker, records: Records, catalogue: Catalogue, folder: Path) -> None:
        self.kafka, self.records, self.catalogue, self.folder = kafka, records, catalogue, folder
        self.out = folder / "out"
        self.changes = kafka.create_topic(f"changes-{folder.name}")
        self.platform = kafka.create_topic(f"platform-{folder.name}")

    def write(self, name: str, action: dict[str, Any], **more: Any) -> None:
        connection = {
            "bootstrap": self.kafka.bootstrap,
            "schema_registry_url": self.records.registry_url,
            "consumer_config": {"auto.offset.reset": "earliest"},
        }
        source = {"connection": connection, "topic_routes": {"mcl": self.changes, "pe": self.platform}}
        document = {
            "name": f"{name}-{self.folder.name}",
            "source": {"type": "kafka", "config": source},
            "action": action,
            "options": {"failed_events_dir": str(self.folder / "failed")},
            "datahub": {"server": self.catalogue.url, "token": "a-token-of-ours"},
            **more,
        }
        (self.folder / "pipelines").mkdir(exist_ok=True)
        (self.folder / "pipelines" / f"{name}.yaml").write_text(json.dumps(document))


@pytest.fixture(scope="module")
def site(kafka: KafkaBroker, environment: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("package")
    with RegistryServer() as registry, Catalogue() as catalogue:
        made = Site(kafka, Records(registry), catalogue, folder)
        (folder / "pipelines").mkdir()
        (folder / "pipelines" / "plugins.py").write_text((Path(__file__).parent / "datahub" / "plugins.py").read_text())
        catalogue.downstreams = {dataset(1): [dataset(7), dataset(8)]}
        made.write("custom", {"type": "plugins:CustomAction", "config": {"out": str(made.out)}})
        made.write(
            "sync", {"type": "metadata_change_sync", "config": {"gms_server": catalogue.url, "urn_regex": ".*table2"}}
        )
        made.write("tags", {"type": "tag_propagation", "config": {"tag_prefixes": ["pii"]}})
        made.write("executor", {"type": "executor", "config": {"executor_id": "default"}})
        process = PenstockProcess(
            ["run", folder / "pipelines"],
            folder=folder / "run",
            env={"DATAHUB_TELEMETRY_ENABLED": "false"},
            executable=environment / "penstock",
        )
        with process:
            yield made
        assert "a-token-of-ours" not in process.log_file.read_text()


def test_the_originals_classes_reach_plugins_and_its_actions_call_the_catalogue(site: Site) -> None:
    request = {
        "task": "NO_SUCH_TASK",
        "executorId": "default",
        "args": {},
        "source": {"type": "MANUAL"},
        "requestedAt": 1,
    }
    site.kafka.produce(
        site.changes,
        [
            site.records.change_log(1, {"owners": []}, "ownership"),
            site.records.change_log(2, {"owners": []}, "ownership", changeType="RESTATE"),
            site.records.change_log(2, {"value": "x"}, "dataHubSecretValue"),
            site.records.change_log(
                3,
                request,
                "dataHubExecutionRequestInput",
                entityType="dataHubExecutionRequest",
                entityUrn="urn:li:dataHubExecutionRequest:run-1",
            ),
        ],
    )
    site.kafka.produce(
        site.platform,
        [
            site.records.entity_change(1, "TAG", modifier="urn:li:tag:pii.name"),
            site.records.entity_change(1, "TAG", modifier="urn:li:tag:other"),
        ],
    )
    until(lambda: len(lines(site.out)) == 6, WAIT_S, lambda: (lines(site.out), site.catalogue.calls))
    facts = sorted(line["facts"][:4] for line in lines(site.out))
    assert facts[0] == ["dataclass", "change log", "dataHubExecutionRequest", "dataHubExecutionRequestInput"]
    assert facts[-1] == ["dataclass", "entity change", "TAG", "urn:li:corpuser:user1"]

    proposals = until(_complete(site), WAIT_S, lambda: site.catalogue.calls)
    [sync] = proposals["ownership"]
    assert (sync["entityUrn"], sync["changeType"]) == (dataset(2), "UPSERT")
    assert [(each["entityUrn"], each["changeType"]) for each in proposals["globalTags"]] == [
        (dataset(7), "PATCH"),
        (dataset(8), "PATCH"),
    ]
    assert "urn:li:tag:pii.name" in proposals["globalTags"][0]["aspect"]["value"]
    states = [json.loads(each["aspect"]["value"])["status"] for each in proposals["dataHubExecutionRequestResult"]]
    assert states == ["RUNNING", "FAILURE"]
    tokens = {call.path.partition("?")[0]: call.token for call in site.catalogue.calls}
    assert tokens["/relationships"] == "Bearer a-token-of-ours"


def _complete(site: Site) -> Any:
    def look() -> dict[str, list[dict[str, Any]]] | None:
        found: dict[str, list[dict[str, Any]]] = {}
        for proposal in site.catalogue.proposals():
            found.setdefault(proposal["aspectName"], []).append(proposal)
        counts = {name: len(each) for name, each in found.items()}
        wanted = {"ownership": 1, "globalTags": 2, "dataHubExecutionRequestResult": 2}
        return found if counts == wanted else None

    return look
