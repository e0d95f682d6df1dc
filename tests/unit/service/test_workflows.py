"""Workflows in the store: applied as often as one likes, found by name, compiled to pipelines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.config.loading import load
from penstock.config.spec import PipelineSpec
from penstock.config.trigger_environment import TriggerDefaults
from penstock.config.workflow import WorkflowSpec
from penstock.core.errors import ConfigError
from penstock.service.dry_run import dry_run
from penstock.service.secrets import SecretBox
from penstock.service.trigger_specs import compile_trigger
from penstock.service.workflows import apply_workflow, delete_workflow, find_workflow
from penstock.store.store import Store
from penstock.store.work.model import NotThere

FILE = """\
kind: workflow
project: {name: lab, notify: ["json://user:notify-secret@example.org"], members: {ada@example.org: owner}}
name: results
triggers:
  - name: k
    hosts: ["a:1", "[::1]:2"]
    topics: [t]
    initial_offset_reset_policy: "1755000000123"
    connect_timeout: 20
    ssl: true
    sasl: scram_sha_256
    username: reader
    password: ${LAB_PASSWORD}
    ordering: key
    limits: {soft: 5}
steps:
  - {name: a, http: "https://example.org", config: {headers: {authorization: "Bearer literal-token"}}}
limits: {hard: 100, per: day}
"""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(f"sqlite:///{tmp_path / 'penstock.db'}") as opened:
        yield opened


@pytest.fixture
def box(store: Store, tmp_path: Path) -> SecretBox:
    return SecretBox(store, tmp_path, {"LAB_PASSWORD": "hunter22"})


@pytest.fixture
def spec(tmp_path: Path) -> WorkflowSpec:
    return read(tmp_path, FILE)


def read(folder: Path, text: str) -> WorkflowSpec:
    (folder / "w.yaml").write_text(text)
    loaded = load([folder / "w.yaml"], {"LAB_PASSWORD": "hunter22"})
    assert not loaded.problems, loaded.problems
    return loaded.workflows[0]


def compiled(store: Store, box: SecretBox, **defaults: Any) -> PipelineSpec:
    trigger = store.triggers.list()[0]
    workflow = store.workflows.by_id(trigger.workflow_id)
    assert workflow is not None
    project = store.projects.get(workflow.project_id)
    assert project is not None
    url = "postgresql://u:store-secret@db/penstock"
    return compile_trigger(trigger, workflow, project, box=box, store_url=url, defaults=TriggerDefaults(**defaults))


def test_applying_again_changes_nothing(store: Store, box: SecretBox, spec: WorkflowSpec) -> None:
    first = apply_workflow(store, box, spec)
    again = apply_workflow(store, box, spec)

    assert first.is_new
    assert first.changed
    assert not again.changed
    assert again.workflow.snapshot_id == first.workflow.snapshot_id
    assert again.triggers[0].kafka_configuration == first.triggers[0].kafka_configuration
    assert again.triggers[0].kafka_configuration["group_id"].startswith("lightning-")


def test_the_project_takes_what_the_file_says(store: Store, box: SecretBox, spec: WorkflowSpec) -> None:
    applied = apply_workflow(store, box, spec)

    project = store.projects.get("lab")
    assert project is not None
    assert (project.hard_limit, project.soft_limit, project.limit_period) == (100, None, "day")
    assert box.resolved(project.settings).value["notify"] == ["json://user:notify-secret@example.org"]
    assert [(member.email, member.role) for member in store.users.members(project.id)] == [("ada@example.org", "owner")]
    assert applied.triggers[0].options == {"ordering": "key", "limits": {"soft": 5}}


def test_no_secret_reaches_the_store(store: Store, box: SecretBox, spec: WorkflowSpec, tmp_path: Path) -> None:
    apply_workflow(store, box, spec)
    store.close()

    kept = b"".join(file.read_bytes() for file in tmp_path.glob("penstock.db*"))
    for secret in (b"hunter22", b"literal-token", b"notify-secret"):
        assert secret not in kept
    assert b"${LAB_PASSWORD}" in kept


def test_a_person_who_switched_a_trigger_is_stronger_than_a_silent_file(
    store: Store, box: SecretBox, spec: WorkflowSpec, tmp_path: Path
) -> None:
    row = apply_workflow(store, box, spec).triggers[0]
    store.triggers.set_enabled(row.id, False)

    assert not apply_workflow(store, box, spec).triggers[0].enabled
    loud = read(tmp_path, FILE.replace("  - name: k\n", "  - name: k\n    enabled: true\n"))
    assert apply_workflow(store, box, loud).triggers[0].enabled


def test_the_group_never_changes(store: Store, box: SecretBox, spec: WorkflowSpec, tmp_path: Path) -> None:
    taken = read(tmp_path, FILE.replace("    topics:", "    group_id: lightning-old\n    topics:"))
    first = apply_workflow(store, box, taken)
    assert first.triggers[0].kafka_configuration["group_id"] == "lightning-old"

    other = read(tmp_path, FILE.replace("    topics:", "    group_id: lightning-new\n    topics:"))
    again = apply_workflow(store, box, other)
    assert again.triggers[0].kafka_configuration["group_id"] == "lightning-old"
    assert "lightning-new is not used" in again.warnings[0]

    delete_workflow(store, "lab/results")
    assert apply_workflow(store, box, spec).triggers[0].kafka_configuration["group_id"] == "lightning-old"


def test_a_group_belongs_to_one_trigger(store: Store, box: SecretBox, tmp_path: Path) -> None:
    taken = FILE.replace("    topics:", "    group_id: lightning-old\n    topics:")
    apply_workflow(store, box, read(tmp_path, taken))

    with pytest.raises(ConfigError, match="the group lightning-old is that of trigger k"):
        apply_workflow(store, box, read(tmp_path, taken.replace("name: results", "name: other")))


def test_connections_of_files_are_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_PASSWORD", "hunter22")
    (tmp_path / "w.yaml").write_text(FILE.replace('"a:1", "[::1]:2"', '"nowhere.invalid:1"'))

    found = dry_run([tmp_path / "w.yaml"], 0.5)

    steps = {finding.step: finding.ok for finding in found.findings["lab/results/k"]}
    assert steps["config"] is True
    assert steps["dns"] is False
    assert steps["group"] is None
    assert found.unreachable


def test_a_trigger_that_is_no_longer_in_the_file_goes(
    store: Store, box: SecretBox, spec: WorkflowSpec, tmp_path: Path
) -> None:
    apply_workflow(store, box, spec)
    apply_workflow(store, box, read(tmp_path, FILE.replace("name: k", "name: other")))

    assert [row.name for row in store.triggers.list()] == ["other"]


def test_workflows_are_found_by_what_people_call_them(store: Store, box: SecretBox, spec: WorkflowSpec) -> None:
    row = apply_workflow(store, box, spec).workflow

    assert find_workflow(store, "results").id == find_workflow(store, "lab/results").id == row.id
    assert find_workflow(store, row.id).id == row.id
    with pytest.raises(NotThere, match="'lab/result'") as error:
        find_workflow(store, "lab/result")
    assert error.value.hint == "did you mean 'lab/results'?"
    elsewhere = spec.model_copy(update={"project": spec.project.model_copy(update={"name": "clinic"})})
    apply_workflow(store, box, elsewhere)
    with pytest.raises(ConfigError, match="several projects"):
        find_workflow(store, "results")
    delete_workflow(store, "clinic/results")
    assert find_workflow(store, "results").id == row.id


def test_a_trigger_becomes_a_pipeline(store: Store, box: SecretBox, spec: WorkflowSpec) -> None:
    row = apply_workflow(store, box, spec).triggers[0]

    made = compiled(store, box)

    source = made.source.config
    assert made.name == f"trigger-{row.id}"
    assert made.group == row.kafka_configuration["group_id"]
    assert source.connection.bootstrap == "a:1,[::1]:2"
    assert source.connection.consumer_config == {
        "socket.connection.setup.timeout.ms": 20_000,
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "SCRAM-SHA-256",
        "sasl.username": "reader",
        "sasl.password": "hunter22",
    }
    assert (source.topics, source.format, source.start) == (["t"], "raw", 1_755_000_000_123)
    config = made.action.config
    assert config["trigger"] == row.id
    assert config["names"] == {"project": "lab", "workflow": "results", "trigger": "k"}
    assert (config["ordering"], config["limits"]) == ("key", {"soft": 5})
    assert "snapshot" not in config
    assert {"hunter22", "store-secret"} <= made.secrets
    assert made.options.rate_limit is None


def test_defaults_of_the_environment_hold_where_a_trigger_says_nothing(
    store: Store, box: SecretBox, tmp_path: Path
) -> None:
    apply_workflow(store, box, read(tmp_path, FILE))
    assert compiled(store, box, rate=2.5, consumers=3).options.rate_limit == 2.5
    assert compiled(store, box, rate=2.5, consumers=3).options.parallelism == 3
    assert compiled(store, box, alternate_storage=tmp_path).action.config["alternate_storage"] == str(tmp_path)

    apply_workflow(store, box, read(tmp_path, FILE.replace("    ordering: key", "    ordering: key\n    rate: 7/s")))
    assert compiled(store, box, rate=2.5).options.rate_limit == 7


def test_a_secret_that_is_not_here_is_named(store: Store, box: SecretBox, spec: WorkflowSpec, tmp_path: Path) -> None:
    apply_workflow(store, box, spec)

    with pytest.raises(ConfigError, match="LAB_PASSWORD is not set"):
        compiled(store, SecretBox(store, tmp_path, {}))


def test_the_key_of_copies_is_a_secret_of_the_pipeline(
    store: Store, box: SecretBox, spec: WorkflowSpec, tmp_path: Path
) -> None:
    apply_workflow(store, box, spec)
    plain = compiled(store, box, alternate_storage=tmp_path)
    assert "storage_secret" not in plain.action.config
    made = compiled(store, box, alternate_storage=tmp_path, encrypts_copies=True)
    key = made.action.config["storage_secret"]
    assert box.needed().text not in key, "M11: the key of the store does not travel to executors"
    assert key == box.needed().derived("alternate-storage").text
    assert key in made.secrets
