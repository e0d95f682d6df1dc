"""Who may do what: every route, every role."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import FastAPI

from penstock.api.app import PREFIX, mount_api
from penstock.api.server import make_app
from penstock.service.health import STARTING
from tests.faces.api.conftest import DOCUMENT, Api, Template, build

_MOVE = {"to": "earliest"}
_SPEC = {"text": DOCUMENT}
_CHOICE = {"ids": [1]}
_MATCH = {"If-Match": "*"}
# Neither is right: whether callers may is decided before a cluster is asked.
_TRIGGER: dict[str, Any] = {"kafka_configuration": {"hosts": []}}
_NEW_TRIGGER = _TRIGGER | {"workflow": "health/labs", "name": "more"}
_ORDERS = {"filter": {"state": ["lost"]}}

MATRIX: list[tuple[str, str, str | None, dict[str, Any]]] = [
    # Method, path, the least role, and what is sent. None: whoever is logged in.
    ("GET", "/session", None, {}),
    ("DELETE", "/session", None, {}),
    ("GET", "/pipelines", "viewer", {}),
    ("GET", "/pipelines/{name}", "viewer", {}),
    ("GET", "/pipelines/{name}/partitions", "viewer", {}),
    ("GET", "/pipelines/{name}/history", "viewer", {}),
    ("POST", "/pipelines/{name}/pause", "operator", {}),
    ("POST", "/pipelines/{name}/resume", "operator", {}),
    ("POST", "/pipelines/{name}/stop", "operator", {}),
    ("POST", "/pipelines/{name}/restart", "operator", {}),
    ("PUT", "/pipelines/{name}/rate-limit", "operator", {"json": {"rate": "10/s"}}),
    ("POST", "/pipelines/validate", "operator", {"json": _SPEC}),
    ("POST", "/pipelines", "operator", {"json": _SPEC}),
    ("PUT", "/pipelines/{name}", "operator", {"json": _SPEC, "headers": _MATCH}),
    ("DELETE", "/pipelines/{name}", "operator", {"headers": _MATCH}),
    ("GET", "/pipelines/{name}/versions", "viewer", {}),
    ("GET", "/pipelines/{name}/versions/{version}", "viewer", {}),
    ("GET", "/pipelines/{name}/versions/{version}/diff/{other}", "viewer", {}),
    ("POST", "/pipelines/{name}/versions/{version}/rollback", "operator", {"headers": _MATCH}),
    ("GET", "/pipelines/{name}/offsets", "viewer", {}),
    ("POST", "/pipelines/{name}/offsets/preview", "viewer", {"json": _MOVE}),
    ("POST", "/pipelines/{name}/offsets/reset", "operator", {"json": _MOVE}),
    ("GET", "/pipelines/{name}/topics", "viewer", {}),
    ("GET", "/pipelines/{name}/topics/{topic}/records", "viewer", {}),
    ("GET", "/pipelines/{name}/topics/{topic}/records/{partition}/{offset}/decoders", "viewer", {}),
    ("GET", "/pipelines/{name}/topics/{topic}/tail", "viewer", {"params": {"seconds": 1}}),
    ("GET", "/pipelines/{name}/tap", "viewer", {"params": {"seconds": 1}}),
    ("GET", "/notices", "viewer", {}),
    ("GET", "/notices/pending", "viewer", {}),
    ("GET", "/dead-letters", "viewer", {}),
    ("GET", "/dead-letters/facets", "viewer", {}),
    ("GET", "/dead-letters/{letter}", "viewer", {}),
    ("POST", "/dead-letters/{letter}/replay", "operator", {}),
    ("POST", "/dead-letters/{letter}/discard", "operator", {"json": {"reason": "x"}}),
    ("POST", "/dead-letters/replay", "operator", {"json": _CHOICE}),
    ("POST", "/dead-letters/discard", "operator", {"json": _CHOICE | {"reason": "x"}}),
    ("GET", "/dead-letters/jobs", "viewer", {}),
    ("GET", "/dead-letters/jobs/{job}", "viewer", {}),
    ("POST", "/dead-letters/jobs/{job}/stop", "operator", {}),
    ("GET", "/events", "viewer", {"params": {"seconds": 0.01}}),
    ("GET", "/plugins", "viewer", {}),
    ("GET", "/plugins/{kind}/{plugin}", "viewer", {}),
    ("GET", "/schemas/pipeline", "viewer", {}),
    ("GET", "/schemas/trigger", "viewer", {}),
    ("GET", "/schemas/workflow", "viewer", {}),
    ("GET", "/workflows", "viewer", {}),
    ("POST", "/workflows", "operator", {"json": {"text": "kind: workflow"}}),
    ("POST", "/workflows/validate", "operator", {"json": {"text": "kind: workflow"}}),
    ("GET", "/workflows/{workflow}", "viewer", {}),
    ("PUT", "/workflows/{workflow}", "operator", {"json": {"text": "kind: workflow"}, "headers": _MATCH}),
    ("POST", "/workflows/{workflow}/run", "operator", {"json": {"input": {"data": {}}}}),
    ("GET", "/workflows/{workflow}/versions", "viewer", {}),
    ("GET", "/workflows/{workflow}/versions/{version}", "viewer", {}),
    ("GET", "/triggers", "viewer", {}),
    ("POST", "/triggers", "operator", {"json": _NEW_TRIGGER}),
    ("POST", "/triggers/test", "operator", {"json": _NEW_TRIGGER}),
    ("POST", "/triggers/preview", "operator", {"json": _NEW_TRIGGER}),
    ("GET", "/triggers/{trigger}", "viewer", {}),
    ("PUT", "/triggers/{trigger}", "operator", {"json": _TRIGGER, "headers": _MATCH}),
    ("POST", "/triggers/{trigger}/enable", "operator", {"json": {"resume": "some day"}}),
    ("POST", "/triggers/{trigger}/disable", "operator", {}),
    ("POST", "/triggers/{trigger}/test", "operator", {"json": _TRIGGER}),
    ("POST", "/triggers/{trigger}/preview", "operator", {"json": _TRIGGER}),
    ("GET", "/work-orders", "viewer", {}),
    ("GET", "/work-orders/count", "viewer", {}),
    ("GET", "/work-orders/export", "viewer", {}),
    ("GET", "/work-orders/jobs", "viewer", {}),
    ("GET", "/work-orders/jobs/{job}", "viewer", {}),
    ("POST", "/work-orders/jobs/{job}/stop", "operator", {}),
    ("POST", "/work-orders/retry", "operator", {"json": _ORDERS}),
    ("POST", "/work-orders/cancel", "operator", {"json": _ORDERS}),
    ("GET", "/work-orders/{work_order}", "viewer", {}),
    ("GET", "/work-orders/{work_order}/dataclips/{dataclip}", "viewer", {}),
    ("POST", "/work-orders/{work_order}/retry", "operator", {}),
    ("POST", "/work-orders/{work_order}/cancel", "operator", {}),
    ("GET", "/runs", "viewer", {}),
    ("GET", "/runs/{run}", "viewer", {}),
    ("GET", "/runs/{run}/logs", "viewer", {}),
    ("POST", "/runs/{run}/retry", "operator", {}),
    ("POST", "/runs/{run}/cancel", "operator", {}),
    ("GET", "/api/work_orders", "viewer", {}),
    ("GET", "/api/work_orders/{work_order}", "viewer", {}),
    ("GET", "/api/runs", "viewer", {}),
    ("GET", "/api/runs/{run}", "viewer", {}),
    ("GET", "/api/log_lines", "viewer", {}),
    ("GET", "/api/projects/{project}/work_orders", "viewer", {}),
    ("GET", "/api/projects/{project}/runs", "viewer", {}),
    ("POST", "/projects/{project}/runs/{run}/retry", "operator", {}),
    ("DELETE", "/triggers/{trigger}", "operator", {"headers": _MATCH}),
    ("DELETE", "/workflows/{workflow}", "operator", {"headers": _MATCH}),
    ("GET", "/instances", "viewer", {}),
    ("GET", "/audit", "admin", {}),
    ("GET", "/users", "admin", {}),
    ("POST", "/users", "admin", {"json": {"email": "new@example.org"}}),
    ("GET", "/users/{user}", "admin", {}),
    ("PATCH", "/users/{user}", "admin", {"json": {"name": "N"}, "headers": _MATCH}),
    ("DELETE", "/users/{user}", "admin", {"headers": _MATCH}),
    ("PUT", "/users/{user}/password", "admin", {"json": {"password": "another long sentence"}}),
    ("GET", "/projects", None, {}),
    ("GET", "/secrets", "admin", {}),
    ("PUT", "/secrets/{secret}", "admin", {"json": {"value": "sesame-5511"}}),
    ("DELETE", "/secrets/{secret}", "admin", {}),
    ("GET", "/tokens", "viewer", {}),
    ("POST", "/tokens", "admin", {"json": {"name": "t", "role": "viewer"}}),
    ("DELETE", "/tokens/{token}", "viewer", {}),
]
"""`POST /tokens`: a token makes others only where it is an admin's; people make their own, see the log-in tests."""
_ANYONE = [
    ("POST", "/session"),
    ("GET", "/session/oidc"),
    ("GET", "/session/oidc/callback"),
    ("GET", "/openapi.json"),
    ("GET", "/metrics"),
    ("HEAD", "/metrics"),
    ("GET", "/health/live"),
    ("HEAD", "/health/live"),
    ("GET", "/health/ready"),
    ("HEAD", "/health/ready"),
]
"""Routes that answer without a log-in."""
_CATCH_ALL = {"/api", "/api/{path:path}", "/projects/{path:path}"}
"""Say that nothing is there."""
_ORDER = ("viewer", "operator", "admin")


def _path(api: Api, template: str) -> str:
    user = api.desk.store.people.by_email("someone@example.org") or api.desk.store.people.create("someone@example.org")
    parts = {
        "name": "orders",
        "version": "v-orders",
        "other": "v-orders",
        "topic": "orders-in",
        "partition": 0,
        "offset": 0,
        "letter": 1,
        "job": "discard-999",
        "kind": "action",
        "plugin": "webhook",
        "user": user.id,
        "workflow": api.work.workflow,
        "trigger": api.work.trigger,
        "work_order": api.work.work_order,
        "run": api.work.run,
        "dataclip": api.work.dataclip,
        "project": api.work.project,
        "secret": "kafka",
        "token": api.desk.store.tokens.all()[-1].id if template.startswith("/tokens") else "",
    }
    return template.format(**parts)


def routes_of(app: FastAPI) -> Iterator[tuple[str, str]]:
    """All that the app answers, also what OpenAPI does not describe."""
    for route in app.routes:
        many = route.effective_route_contexts() if hasattr(route, "effective_route_contexts") else [route]
        for each in many:
            if each.path not in _CATCH_ALL:
                path = each.path.removeprefix(PREFIX).replace(":path}", "}")
                yield from ((method, path) for method in each.methods)


def test_every_route_is_in_the_matrix(api: Api) -> None:
    app = make_app(lambda: STARTING, bytes)
    mount_api(app, api.desk, api.auth)
    known = list(routes_of(app))
    assert len(known) > 100
    assert set(known) == {(method, path) for method, path, _, _ in MATRIX} | set(_ANYONE), (
        "name a new one, and its role"
    )
    described = api.client.get(f"{PREFIX}/openapi.json").json()["paths"]
    shown = {(method.upper(), path.removeprefix(PREFIX)) for path, item in described.items() for method in item}
    assert shown <= set(known)


@pytest.mark.parametrize(("method", "path", "least", "sent"), MATRIX, ids=lambda value: str(value)[:60])
def test_a_route_lets_in_who_has_the_role_and_nobody_else(
    shared_api: Api, method: str, path: str, least: str | None, sent: dict[str, Any]
) -> None:
    api = shared_api
    nobody = api.ask(method, _path(api, path), None, **sent)
    assert nobody.status_code == 401
    assert nobody.headers["content-type"] == "application/problem+json"
    for role in _ORDER:
        answer = api.ask(method, _path(api, path), role, **sent)
        if least is None or _ORDER.index(role) >= _ORDER.index(least):
            # What is asked for may not be there, or not be possible; it is not a matter of rights.
            assert answer.status_code not in (401, 403, 500), (role, answer.text)
        elif path == "/dead-letters/jobs/{job}/stop":
            assert answer.status_code == 404
        else:
            assert answer.status_code == 403, (role, answer.text)
            assert answer.json()["code"] == "forbidden"
            assert least in answer.json()["allowed"] if answer.json().get("allowed") else True


@pytest.mark.parametrize(
    ("method", "path", "sent"),
    [(method, path, sent) for method, path, _, sent in MATRIX if "{name}" in path],
    ids=lambda value: str(value)[:60],
)
def test_another_projects_things_are_as_if_they_were_not_there(
    shared_api: Api, method: str, path: str, sent: dict[str, Any]
) -> None:
    api = shared_api
    text = DOCUMENT.replace("kept", "theirs")
    api.ask("POST", "/pipelines", "member", json={"text": text, "project": api.project})
    parts = {"name": "theirs", "version": "1", "other": "1", "topic": "orders", "partition": 0, "offset": 0}
    stranger = api.ask(method, path.format(**parts), "stranger", **sent)
    assert stranger.status_code == 404, stranger.text
    kept = api.desk.store.managed.get("theirs")
    assert kept is not None
    assert kept.revision == 1


_OF_A_PROJECT = ("{workflow}", "{trigger}", "{work_order}", "{run}", "{dataclip}", "{project}")


@pytest.mark.parametrize(
    ("method", "path", "sent"),
    [(method, path, sent) for method, path, _, sent in MATRIX if any(part in path for part in _OF_A_PROJECT)],
    ids=lambda value: str(value)[:60],
)
def test_another_projects_workflows_triggers_and_work_orders_are_as_if_they_were_not_there(
    foreign_api: Api, method: str, path: str, sent: dict[str, Any]
) -> None:
    before = len(foreign_api.desk.store.audit.list(limit=1_000))
    answer = foreign_api.ask(method, _path(foreign_api, path), "stranger", **sent)
    assert answer.status_code == 404, answer.text
    assert len(foreign_api.desk.store.audit.list(limit=1_000)) == before, "nothing was read or begun"


@pytest.fixture(scope="module")
def foreign_api(template: Template, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """With all that it was filled with: nobody but a stranger asks it."""
    made = build(template, tmp_path_factory.mktemp("foreign"), PENSTOCK_HTTP_AUTH="local")
    yield made
    made.close()


def test_members_see_their_projects_pipelines_and_no_others(api: Api) -> None:
    api.ask("POST", "/pipelines", "member", json={"text": DOCUMENT, "project": api.project})
    assert [item["name"] for item in api.ask("GET", "/pipelines", "member").json()["items"]] == ["kept"]
    assert api.ask("GET", "/pipelines", "stranger").json()["items"] == []
    assert api.ask("POST", "/pipelines/kept/pause", "member").status_code == 200
    assert api.ask("GET", "/pipelines/orders", "member").status_code == 404
    assert api.ask("GET", "/dead-letters/1", "member").status_code == 404
    assert api.ask("POST", "/dead-letters/1/discard", "member", json={"reason": "x"}).status_code == 404
    assert api.ask("GET", "/dead-letters", "member").json()["items"] == []
    assert api.ask("GET", "/dead-letters?pipeline=kept", "member").json()["items"] == []
    assert api.ask("GET", "/dead-letters?pipeline=orders", "member").status_code == 404
    assert [item["name"] for item in api.ask("GET", "/projects", "member").json()] == ["health"]
    said = api.ask("GET", "/instances", "member").json()
    assert [instance["pipelines"] for instance in said] == [[]]
