"""Projects of OpenFn Lightning: every shape is read, nothing that matters is lost, and what is not used is said."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ruamel.yaml
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from penstock.config.problems import InvalidConfigError
from penstock.core.errors import ConfigError
from penstock.service.lightning.choices import forwarding, steps_of
from penstock.service.lightning.cloak import Cloak, CloakError, is_cloaked
from penstock.service.lightning.exporting import export_project
from penstock.service.lightning.importing import ImportChoices, ImportReport, import_project
from penstock.service.lightning.reading import OtherShape
from penstock.service.secrets import SecretBox
from penstock.service.workflows import find_workflow
from penstock.store.store import Store

TRIGGER = "0d1e8f6c-3a5b-4c2d-9e7f-1a2b3c4d5e6f"
WORKFLOW = "9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d"
KEY = bytes(range(32))

YAML = """\
name: Clinic
description: null
collections: null
credentials:
  a-b: {name: a b, owner: x@example.org}
workflows:
  Lab-results:
    name: Lab results
    jobs:
      Parse:
        name: Parse
        adaptor: '@openfn/language-common@latest'
        credential: a-b
        body: |
          fn(state => ({ ...state, text: `${state.data.patient}` }));
    triggers:
      kafka:
        type: kafka
        enabled: true
        kafka_configuration:
          hosts:
            - 'broker-a:9092'
          topics:
            - lab-results
          initial_offset_reset_policy: earliest
          connect_timeout: 20000
      webhook:
        type: webhook
        enabled: true
    edges:
      kafka->Parse:
        source_trigger: kafka
        target_job: Parse
        condition_type: always
        enabled: true
"""


def cloaked(text: str, key: bytes = KEY) -> str:
    iv = os.urandom(16)
    sealed = AESGCM(key).encrypt(iv, text.encode(), b"AES256GCM")
    return base64.b64encode(b"\x01\x0aAES.GCM.V1" + iv + sealed[-16:] + sealed[:-16]).decode()


ROW: dict[str, Any] = {
    "id": TRIGGER,
    "type": "kafka",
    "enabled": True,
    "workflow_id": WORKFLOW,
    "kafka_configuration": {
        "hosts": [["broker-a", "9092"]],
        "topics": ["lab-results"],
        "initial_offset_reset_policy": "1755000000123",
        "connect_timeout": 30,
        "group_id": "lightning-4f2c",
        "ssl": None,
        "sasl": "scram_sha_256",
        "username": cloaked("reader"),
        "password": cloaked("hunter22"),
    },
}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(f"sqlite:///{tmp_path / 'penstock.db'}") as opened:
        yield opened


@pytest.fixture
def box(store: Store, tmp_path: Path) -> SecretBox:
    return SecretBox(store, tmp_path, {})


def imported(store: Store, box: SecretBox, folder: Path, content: Any, **choices: Any) -> ImportReport:
    file = folder / ("p.yaml" if isinstance(content, str) else "p.json")
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return import_project(store, box, file, ImportChoices(**choices))


def test_a_project_as_yaml(store: Store, box: SecretBox, tmp_path: Path) -> None:
    report = imported(store, box, tmp_path, YAML, groups={"Lab results/kafka": "lightning-77"})

    assert report.created == ["Lab results"]
    trigger = store.triggers.list()[0]
    assert not trigger.enabled
    assert trigger.kafka_configuration == {
        "hosts": [["broker-a", "9092"]],
        "topics": ["lab-results"],
        "initial_offset_reset_policy": "earliest",
        "connect_timeout": 20000,
        "ssl": False,
        "group_id": "lightning-77",
    }
    assert any("only Kafka triggers" in said for said in report.ignored)
    assert any(said.startswith("credentials: ") for said in report.ignored)
    assert "--divide-timeouts" in report.triggers[0].remarks[0]
    assert any("nothing is chosen" in said for said in report.warnings)
    workflow = find_workflow(store, "Clinic/Lab results")
    kept = store.workflows.snapshot(workflow.snapshot_id or "")
    assert kept is not None
    assert "${state.data.patient}" in kept.definition["lightning"]["jobs"][0]["body"]
    assert kept.definition["lightning"]["jobs"][0]["credential"] == "a-b"

    again = imported(store, box, tmp_path, YAML, divide_timeouts=True)
    assert again.changed == ["Lab results"]
    assert store.triggers.list()[0].kafka_configuration["connect_timeout"] == 20
    assert store.triggers.list()[0].kafka_configuration["group_id"] == "lightning-77"


def test_a_project_as_the_provisioning_api_gives_it(store: Store, box: SecretBox, tmp_path: Path) -> None:
    trigger = {key: ROW[key] for key in ("id", "type", "enabled")} | {
        "kafka_configuration": {
            "hosts": [["::1", "9092"]],
            "topics": ["a"],
            "initial_offset_reset_policy": "latest",
            "connect_timeout": 30,
        }
    }
    workflow = {"id": WORKFLOW, "name": "Lab", "jobs": [], "edges": [], "triggers": [trigger]}
    project = {"data": {"id": WORKFLOW, "name": "Clinic", "workflows": [workflow]}}

    imported(
        store, box, tmp_path, project, steps=lambda w: forwarding(w, "https://app.openfn.org/", allow_private=False)
    )

    row = store.triggers.list()[0]
    assert row.id == TRIGGER
    workflow_row = find_workflow(store, "Clinic/Lab")
    snapshot = store.workflows.snapshot(workflow_row.snapshot_id or "")
    assert snapshot is not None
    step = snapshot.definition["steps"][0]
    assert step["config"]["url"] == f"https://app.openfn.org/i/{TRIGGER}"
    assert step["config"]["body"] == "state.data"
    assert step["config"]["header_expressions"]["X-Kafka-Offset"] == "state.request.offset"
    assert snapshot.definition["edges"] == [{"from": "kafka", "to": step["name"], "when": "always"}]

    gone = {"id": WORKFLOW, "name": "Clinic", "workflows": [{"id": WORKFLOW, "delete": True}]}
    assert imported(store, box, tmp_path, gone).deleted == ["Lab"]
    assert store.triggers.list() == []
    both = {"name": "Clinic", "workflows": [{"id": WORKFLOW, "name": "Lab", "delete": True, "jobs": [1]}]}
    with pytest.raises(ConfigError, match="may not be combined"):
        imported(store, box, tmp_path, both)


def test_rows_with_credentials(store: Store, box: SecretBox, tmp_path: Path) -> None:
    key = base64.b64encode(KEY).decode()
    report = imported(store, box, tmp_path, [ROW], project="Clinic", cloak=Cloak(key))

    row = store.triggers.list()[0]
    assert report.triggers[0].was_enabled
    assert not row.enabled
    assert row.kafka_configuration["group_id"] == "lightning-4f2c"
    assert row.options == {"taken_over": True}
    plain = box.resolved(row.kafka_configuration).value
    assert (plain["username"], plain["password"], plain["ssl"]) == ("reader", "hunter22", False)
    assert "hunter22" not in str(row)


def test_rows_without_the_key_wait_for_credentials(store: Store, box: SecretBox, tmp_path: Path) -> None:
    report = imported(store, box, tmp_path, {"triggers": [ROW]})

    assert any("PRIMARY_ENCRYPTION_KEY" in said for said in report.triggers[0].remarks)
    assert any("--username and --password" in said for said in report.triggers[0].remarks)
    row = store.triggers.list()[0]
    assert not row.enabled
    assert row.kafka_configuration["password"] is None

    imported(store, box, tmp_path, {"triggers": [ROW]}, username="reader", password="${KAFKA_PASSWORD}")
    assert store.triggers.list()[0].kafka_configuration["password"] == "${KAFKA_PASSWORD}"


def test_snapshots_give_the_last_version_that_had_kafka(store: Store, box: SecretBox, tmp_path: Path) -> None:
    kafka = {"workflow_id": WORKFLOW, "name": "Lab", "lock_version": 3, "triggers": [ROW], "jobs": [{"name": "P"}]}
    old = kafka | {"lock_version": 2, "name": "Old"}
    new = kafka | {"lock_version": 4, "triggers": [{"id": TRIGGER, "type": "webhook", "enabled": False}]}

    imported(store, box, tmp_path, {"workflow_snapshots": [kafka, new, old]}, project="Clinic")

    assert [row.name for row in store.workflows.list()] == ["Lab"]
    assert store.triggers.list()[0].id == TRIGGER


def test_one_object_per_line(store: Store, box: SecretBox, tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    second = ROW | {"id": WORKFLOW, "workflow_id": TRIGGER}
    file.write_text(json.dumps(ROW) + "\n" + json.dumps(second) + "\n")

    with pytest.raises(InvalidConfigError, match="is that of another trigger"):
        import_project(store, box, file, ImportChoices(project="Clinic"))
    assert store.workflows.list() == []

    second["kafka_configuration"] = ROW["kafka_configuration"] | {"group_id": "lightning-2"}
    file.write_text(json.dumps(ROW) + "\n" + json.dumps(second) + "\n")
    import_project(store, box, file, ImportChoices(project="Clinic"))
    assert len(store.triggers.list()) == 2


def test_another_key_is_noticed() -> None:
    other = Cloak(base64.b64encode(b"x" * 32).decode())
    with pytest.raises(CloakError, match="cannot be decrypted"):
        other.decrypt(cloaked("hunter22"))
    with pytest.raises(CloakError, match="no key of 256 bits"):
        Cloak("c2hvcnQ=")
    assert not is_cloaked("reader")
    assert not is_cloaked(None)


@pytest.mark.parametrize(
    "content",
    ["- 1\n- 2\n", "hello: world\n", "name: x\nworkflows: 3\n", "workflows: {}\n", "name: x\nworkflows: {a: [1]}\n"],
)
def test_another_shape_is_refused(store: Store, box: SecretBox, tmp_path: Path, content: str) -> None:
    with pytest.raises(OtherShape) as error:
        imported(store, box, tmp_path, content)
    assert "provisioning API" in str(error.value.allowed)


def test_mistakes_are_named_where_they_stand_and_nothing_is_imported(
    store: Store, box: SecretBox, tmp_path: Path
) -> None:
    with pytest.raises(InvalidConfigError) as error:
        imported(store, box, tmp_path, YAML.replace("broker-a:9092", "broker-a:x").replace("earliest", "earlyest"))

    found = [(problem.line, problem.path.rpartition(".")[2]) for problem in error.value.problems]
    assert found == [(21, "hosts"), (25, "initial_offset_reset_policy")]
    assert store.workflows.list() == []


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_a_round_trip_loses_nothing(store: Store, box: SecretBox, tmp_path: Path, form: Any) -> None:
    key = base64.b64encode(KEY).decode()
    snapshot = {"workflow_id": WORKFLOW, "name": "Lab results", "triggers": [ROW], "jobs": [{"name": "P", "body": "x"}]}
    chosen = {
        "steps": [
            {"name": "tell", "http": "https://example.org", "config": {"headers": {"authorization": "secret-1"}}}
        ],
        "edges": [],
        "timeout": 7,
    }
    imported(store, box, tmp_path, [snapshot], project="Clinic", cloak=Cloak(key), steps=lambda _: chosen)
    store.triggers.set_enabled(TRIGGER, True)

    def content() -> Any:
        workflow, trigger = store.workflows.list()[0], store.triggers.list()[0]
        kept = store.workflows.snapshot(workflow.snapshot_id or "")
        assert kept is not None
        definition = dict(kept.definition)
        jobs = [{k: v for k, v in job.items() if k != "key"} for job in definition.pop("lightning")["jobs"]]
        return (
            workflow.name,
            trigger.id,
            trigger.enabled,
            trigger.kafka_configuration,
            trigger.options,
            jobs,
            definition,
        )

    before = content()
    text = export_project(store, "Clinic", form)
    for secret in ("hunter22", "reader", "secret-1"):
        assert secret not in text
    assert "lightning-4f2c" in text
    file = tmp_path / f"export.{form}"
    file.write_text(text)

    import_project(store, box, file, ImportChoices())
    assert content() == before
    assert export_project(store, "Clinic", form) == text

    with Store.open(f"sqlite:///{tmp_path / 'other.db'}") as other:
        report = import_project(other, SecretBox(other, tmp_path / "other", {}), file, ImportChoices())
        assert any("is not in this store" in said for said in report.warnings + report.triggers[0].remarks)
        assert other.triggers.list()[0].kafka_configuration["group_id"] == "lightning-4f2c"


def test_jobs_and_edges_are_named_in_yaml_and_have_ids_in_json(store: Store, box: SecretBox, tmp_path: Path) -> None:
    job = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
    edge = {"id": TRIGGER, "source_trigger_id": TRIGGER, "target_job_id": job, "condition_type": "always"}
    workflow = {"id": WORKFLOW, "name": "Lab results", "triggers": [ROW], "edges": [edge]}
    workflow["jobs"] = [{"id": job, "name": "Parse it", "body": "fn()"}]
    imported(store, box, tmp_path, {"name": "Clinic", "workflows": [workflow]})

    written = ruamel.yaml.YAML(typ="safe").load(export_project(store, "Clinic"))["workflows"]["Lab-results"]
    assert list(written["jobs"]) == ["Parse-it"]
    assert written["edges"] == {
        "kafka->Parse-it": {"source_trigger": "kafka", "target_job": "Parse-it", "condition_type": "always"}
    }

    imported(store, box, tmp_path, YAML)
    by_id = json.loads(export_project(store, "Clinic", "json"))["workflows"]
    parse = next(each for each in by_id if each["jobs"][0]["name"] == "Parse")
    assert parse["edges"][0]["target_job_id"] == parse["jobs"][0]["id"]
    assert parse["edges"][0]["source_trigger_id"] == parse["triggers"][0]["id"]


def test_steps_of_a_workflow_of_the_store_can_be_chosen(store: Store, box: SecretBox, tmp_path: Path) -> None:
    imported(
        store, box, tmp_path, [ROW], project="One", steps=lambda w: forwarding(w, "https://a.org", allow_private=True)
    )
    chosen = steps_of(store, find_workflow(store, f"One/{WORKFLOW}").id)
    other = ROW | {"id": WORKFLOW, "kafka_configuration": ROW["kafka_configuration"] | {"group_id": None}}

    imported(store, box, tmp_path, [other], project="Two", steps=lambda _: chosen)

    row = find_workflow(store, f"Two/{WORKFLOW}")
    kept = store.workflows.snapshot(row.snapshot_id or "")
    assert kept is not None
    assert kept.definition["steps"][0]["config"]["url"] == f"https://a.org/i/{TRIGGER}"
    assert kept.definition["edges"][0]["from"] == "kafka"
