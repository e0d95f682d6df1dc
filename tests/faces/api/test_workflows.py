"""Workflows over the API: looked at, started by hand, kept as documents that may not name everything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.store.work.model import WorkflowRow
from tests.faces.api.conftest import Api
from tests.faces.api.work import DEFINITION, make_work

NEW = """\
kind: workflow
project: health
name: visits
steps:
  - name: look
    http: https://93.184.216.34/look
  - name: tell
    http: https://93.184.216.34/tell
    config: {headers: {authorization: {$ref: health/KEY}}}
edges:
  - {from: look, to: tell, when: success}
"""


def _keyed(api: Api) -> Api:
    """With the secret that the document refers to."""
    assert api.ask("PUT", "/secrets/health/KEY", json={"value": "sesame-5511"}).status_code == 200
    return api


@pytest.fixture
def api(api: Api) -> Api:
    return _keyed(api)


@pytest.fixture(scope="module")
def shared_api(shared_api: Api) -> Api:
    return _keyed(shared_api)


def _text(api: Api, workflow: str) -> str:
    found: str = api.ask("GET", f"/workflows/{workflow}").json()["text"]
    return found


def test_a_workflow_is_listed_and_shown_with_its_graph(api: Api) -> None:
    [item] = api.ask("GET", "/workflows?text=LAB&project=health", "viewer").json()["items"]
    assert (item["project"], item["name"], item["steps"], item["triggers"]) == (
        "health",
        "labs",
        ["check", "send"],
        ["kafka"],
    )
    answer = api.ask("GET", f"/workflows/{item['id']}", "viewer")
    found = answer.json()
    assert answer.headers["etag"] == f'"{found["revision"]}"'
    assert {"source": "check", "target": "send", "when": "success"} in found["edges"]
    assert [(step["name"], step["kind"]) for step in found["steps_detail"]] == [("check", "http"), ("send", "http")]
    assert found["trigger_items"][0]["id"] == api.work.trigger
    [version] = api.ask("GET", f"/workflows/{item['id']}/versions", "viewer").json()
    for name in (version["version"], version["id"]):
        told = api.ask("GET", f"/workflows/{item['id']}/versions/{name}", "viewer").json()
        assert (told["current"], told["text"]) == (True, found["text"])
    assert api.ask("GET", f"/workflows/{item['id']}/versions/x", "viewer").status_code == 404
    assert api.ask("GET", "/workflows/nobody", "viewer").status_code == 404
    assert api.ask("GET", "/workflows?project=nobody", "viewer").status_code == 404


def test_lists_are_pages_and_members_see_their_own(api: Api) -> None:
    make_work(api.desk.store, api.other_project, "pumps")
    first = api.ask("GET", "/workflows?limit=1", "viewer").json()
    rest = api.ask("GET", f"/workflows?limit=1&after={first['next']}", "viewer").json()
    assert [item["name"] for item in first["items"] + rest["items"]] == ["labs", "pumps"]
    assert [item["name"] for item in api.ask("GET", "/workflows", "stranger").json()["items"]] == ["pumps"]
    path, match = f"/workflows/{api.work.workflow}", {"If-Match": "*"}
    asked: list[tuple[str, str, dict[str, Any]]] = [
        ("GET", path, {}),
        ("PUT", path, {"json": {"text": NEW}}),
        ("DELETE", path, {}),
        ("POST", f"{path}/run", {}),
        ("GET", f"{path}/versions", {}),
        ("POST", "/workflows", {"json": {"text": NEW}}),
    ]
    for method, where, sent in asked:
        assert api.ask(method, where, "stranger", headers=match, **sent).status_code == 404, (method, where)


def test_one_is_started_by_hand(api: Api) -> None:
    path = f"/workflows/{api.work.workflow}/run"
    made = api.ask("POST", path, "operator", json={"input": {"data": {"n": 1}}, "name": "try", "step": "send"})
    assert made.status_code == 202
    order = api.ask("GET", f"/work-orders/{made.json()['work_order']}").json()
    assert order["runs"][0]["created_by"] == "token operator"
    assert order["dataclips"][made.json()["dataclip"]]["body"] == {"data": {"n": 1}}
    again = api.ask("POST", path, "operator", json={"dataclip": made.json()["dataclip"]})
    assert again.json()["dataclip"] == made.json()["dataclip"]
    refused = {"step": 422, "dataclip": 404}
    for name, status in refused.items():
        assert api.ask("POST", path, "operator", json={name: "nowhere"}).status_code == status
    assert api.ask("POST", path, "operator", json={"input": [1]}).status_code == 422
    assert api.desk.store.audit.list(limit=1)[0].action == "workflows.run"
    for more in ({"input": {"data": {}}}, {"name": "once more"}):
        both = api.ask("POST", path, "operator", json={"dataclip": api.work.dataclip} | more)
        assert (both.status_code, "not both" in both.json()["detail"]) == (422, True)


def test_documents_are_kept_replaced_and_taken_out_of_use(api: Api) -> None:
    valid = api.ask("POST", "/workflows/validate", "member", json={"text": NEW}).json()
    assert (valid["valid"], valid["name"]) == (True, "health/visits")
    made = api.ask("POST", "/workflows", "member", json={"text": NEW})
    assert made.status_code == 201
    assert api.ask("POST", "/workflows", "member", json={"text": NEW}).status_code == 409
    path, etag = f"/workflows/{made.json()['id']}", made.headers["etag"]
    text = made.json()["text"].replace("/look", "/see")
    assert api.ask("PUT", path, "member", json={"text": text}).status_code == 428
    changed = api.ask("PUT", path, "member", json={"text": text}, headers={"If-Match": etag})
    assert (changed.status_code, changed.json()["versions"]) == (200, 2)
    assert api.ask("PUT", path, "member", json={"text": text}, headers={"If-Match": etag}).status_code == 412
    renamed = api.ask("PUT", path, json={"text": text.replace("visits", "other")}, headers={"If-Match": "*"})
    assert (renamed.status_code, renamed.json()["problems"][0]["path"]) == (422, "name")
    assert api.ask("DELETE", path, "member", headers={"If-Match": changed.headers["etag"]}).status_code == 204
    assert api.ask("GET", path).status_code == 404
    actions = {row.action for row in api.desk.store.audit.list(limit=20) if row.outcome == "done"}
    assert {"workflows.create", "workflows.replace", "workflows.delete"} <= actions


def test_triggers_and_edges_from_them_outlive_a_new_document(api: Api) -> None:
    path, text = f"/workflows/{api.work.workflow}", _text(api, api.work.workflow)
    changed = api.ask("PUT", path, json={"text": text.replace("/send", "/post")}, headers={"If-Match": "*"}).json()
    assert (changed["triggers"], len(changed["edges"])) == (["kafka"], 2)
    assert changed["trigger_items"][0]["id"] == api.work.trigger
    assert changed["steps_detail"][1]["config"]["url"] == "https://93.184.216.34/post"


def test_a_project_that_is_not_there_is_made_by_those_whose_role_holds_everywhere(api: Api) -> None:
    text = NEW.replace("project: health", "project: fresh")
    assert api.ask("POST", "/workflows", "member", json={"text": text}).status_code == 404
    assert api.ask("POST", "/workflows", "operator", json={"text": text}).json()["project"] == "fresh"


@pytest.mark.parametrize(
    ("old", "new", "path"),
    [
        ("http: https://93.184.216.34/look", "python: os:getcwd", "steps[0].python"),
        ("http: https://93.184.216.34/look", "command: [id]", "steps[0].command"),
        ("http: https://93.184.216.34/look", "action: file", "steps[0].action"),
        ("http: https://93.184.216.34/look", "action: my.module:Act", "steps[0].action"),
        ("https://93.184.216.34/look", "http://169.254.169.254/latest", "steps[0].http"),
        ("https://93.184.216.34/look", "http://user:sesame-5511@example.org/", "steps[0].http"),
        ("https://93.184.216.34/look", "https://93.184.216.34/${HOME}", "steps[0].http"),
        ("{$ref: health/KEY}", "Bearer sesame-5511", "steps[1].config.headers.authorization"),
        ("{$ref: health/KEY}", "{$secret: abc}", "steps[1]"),
        ("{$ref: health/KEY}", '"********"', "steps[1]"),
        ("project: health", "project: {name: health, members: {a@example.org: owner}}", "project"),
        ("name: visits", "name: visits\nlimits: {soft: 1}", "limits"),
        ("name: visits", "name: visits\ntriggers: [{name: kafka}]", "triggers"),
        ("to: tell", "to: look", "edges[0]"),
        ("when: success", "when: state.", "edges[0].when"),
        ("kind: workflow", "kind: pipeline", ""),
    ],
)
def test_what_a_document_may_not_say_is_told_at_its_place(shared_api: Api, old: str, new: str, path: str) -> None:
    for where in ("/workflows", "/workflows/validate"):
        answer = shared_api.ask("POST", where, "member", json={"text": NEW.replace(old, new)})
        problems = answer.json()["problems"]
        assert answer.status_code == (422 if where == "/workflows" else 200)
        assert any(problem.get("path", "").startswith(path) for problem in problems), problems
        assert all(problem["line"] for problem in problems)
        assert "sesame-5511" not in answer.text
    assert len(shared_api.desk.store.workflows.list()) == 1


def test_steps_that_are_left_as_they_are_keep_their_secrets_and_others_do_not(api: Api) -> None:
    secret = {"name": "send", "kind": "http", "config": {"url": "https://93.184.216.34/send"}}
    secret["config"] |= {"headers": {"authorization": {"$secret": "cipher"}}}  # type: ignore[operator]  # a dict
    code = {"name": "check", "kind": "python", "config": {"callable": "json:dumps", "config": {}}}
    row = api.desk.store.workflows.by_id(api.work.workflow)
    assert isinstance(row, WorkflowRow)
    definition = DEFINITION | {"steps": [code, secret]}
    api.desk.store.workflows.apply(row, definition, "2", delete_others=False)
    path, text = f"/workflows/{api.work.workflow}", _text(api, api.work.workflow)
    assert "cipher" not in text
    reached = text.replace("when: success", "when: always")
    kept = api.ask("PUT", path, "member", json={"text": reached}, headers={"If-Match": "*"})
    assert kept.status_code == 200, kept.text
    saved = api.desk.store.workflows.by_id(api.work.workflow)
    assert saved is not None
    snapshot = api.desk.store.workflows.snapshot(saved.snapshot_id or "")
    assert snapshot is not None
    assert snapshot.definition["steps"] == [code, secret]
    elsewhere = text.replace("93.184.216.34/send", "93.184.216.35/send")
    refused = api.ask("PUT", path, "member", json={"text": elsewhere}, headers={"If-Match": "*"})
    assert (refused.status_code, refused.json()["problems"][0]["message"]) == (422, "the mask is not the secret")


def test_admins_may_name_code_where_the_machine_allows_it(make_client: Callable[..., Api]) -> None:
    api = _keyed(make_client(PENSTOCK_HTTP_AUTH="local", PENSTOCK_API_ALLOW="python"))
    text = NEW.replace("http: https://93.184.216.34/look", "python: json:dumps")
    assert api.ask("POST", "/workflows", "operator", json={"text": text}).status_code == 422
    assert api.ask("POST", "/workflows", "admin", json={"text": text}).status_code == 201
