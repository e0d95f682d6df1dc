"""What belongs to another project, or to the whole installation, is not there for those who have a role elsewhere."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from penstock.console.data import Data
from penstock.core.ids import new_id
from penstock.service.access import Actor
from penstock.service.trigger_specs import pipeline_name
from penstock.store import InstanceRow
from penstock.store.workflow_tables import projects
from tests.faces.api.conftest import DOCUMENT, Api


@pytest.mark.parametrize("role", ["stranger", "operator", "admin"])
def test_the_names_of_triggers_pipelines_are_reserved(api: Api, role: str) -> None:
    name = pipeline_name(api.work.trigger)
    text = DOCUMENT.replace("name: kept", f"name: {name}")
    project = api.other_project if role == "stranger" else None
    answer = api.ask("POST", "/pipelines", role, json={"text": text, "project": project})
    assert answer.status_code == 422, answer.text
    assert "reserved" in answer.text or "for what triggers run" in answer.text
    assert api.ask("POST", "/pipelines/validate", role, json={"text": text}).json()["valid"] is False


def test_a_trigger_wins_where_its_name_was_taken_before(api: Api) -> None:
    name = pipeline_name(api.work.trigger)
    text = DOCUMENT.replace("name: kept", f"name: {name}")
    api.desk.store.managed.create(name, text, by="mallory", project_id=api.other_project)
    api.desk.forget()
    assert api.desk.project_of(name) == api.project
    assert api.ask("GET", f"/pipelines/{name}", "stranger").status_code == 404
    assert api.ask("GET", f"/pipelines/{name}", "member").status_code == 200
    assert api.desk.spec(name).action.type != "hello_world"


def test_another_projects_id_is_as_if_it_were_not_there_on_lightnings_paths(api: Api) -> None:
    unknown = api.work.run
    for path in ("/api/projects/{}/work_orders", "/api/projects/{}/runs", "/api/work_orders?project_id={}"):
        theirs = api.ask("GET", path.format(api.project), "stranger")
        nobodys = api.ask("GET", path.format(unknown), "stranger")
        assert theirs.status_code == nobodys.status_code == 404
        assert theirs.json()["detail"] == nobodys.json()["detail"]
    retried = api.ask("POST", f"/projects/{api.project}/runs/{api.work.run}/retry", "stranger")
    assert retried.status_code == 404


def test_titles_are_those_of_pipelines_that_one_may_see(api: Api) -> None:
    data, name = Data(api.desk, api.auth), pipeline_name(api.work.trigger)
    mine = Actor(name="m", projects={api.project: "viewer"})
    other = Actor(name="s", projects={api.other_project: "viewer"})
    assert name in data.titles(api.desk, mine)
    assert name not in data.titles(api.desk, other)
    assert name in data.titles(api.desk, Actor(name="all", role="viewer"))


def test_hosts_and_processes_of_instances_are_for_those_whose_role_holds_everywhere(api: Api) -> None:
    row = InstanceRow(
        id="canary-host-4711-ab12cd",
        host="canary-host",
        pid=4711,
        version="1",
        started_at=1,
        http_address="http://10.9.8.7:8642",
    )
    api.desk.store.instances.heartbeat(row)
    api.ask("POST", "/pipelines", "member", json={"text": DOCUMENT, "project": api.project})
    api.desk.store.pipelines.put_state("kept", row.id, "running", events=1)
    api.desk.forget()
    for path in (
        "/instances",
        "/pipelines/kept",
        "/pipelines",
        "/pipelines/kept/partitions",
        "/pipelines/kept/history",
    ):
        said = api.ask("GET", path, "member").text
        for hidden in ("canary-host", "4711", "10.9.8.7"):
            assert hidden not in said, path
    tap = api.ask("GET", "/pipelines/kept/tap", "member")
    assert tap.status_code == 409
    assert "10.9.8.7" not in tap.text
    shown = api.ask("GET", "/instances", "viewer").text
    assert all(each in shown for each in ("canary-host", "4711", "10.9.8.7"))


def test_a_project_that_takes_an_old_name_does_not_inherit_its_secrets(api: Api) -> None:
    store = api.desk.store
    assert api.ask("PUT", "/secrets/water/kafka", json={"value": "canary-1"}).status_code == 200
    assert api.ask("PUT", "/secrets/kafka", json={"value": "canary-2"}).status_code == 200
    store.projects.save(api.other_project, "water")
    assert store.secrets.names() == ["kafka", "water/kafka"], "it is the same project"
    with store.database.write() as connection:
        connection.execute(sa.delete(projects).where(projects.c.id == api.other_project))
    store.projects.save(new_id(), "water")
    assert store.secrets.names() == ["kafka"]
