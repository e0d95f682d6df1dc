"""What the record of changes has besides changes: log-ins that failed, refusals, reads of payloads, tests; each of it
with its project, and as a line of the log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from structlog.testing import capture_logs

from penstock.service.passwords import hash_password
from tests.behaviour.store.letters import letter
from tests.faces.api.conftest import DOCUMENT, PASSWORD, Api
from tests.faces.api.test_tap import Tapped, sample
from tests.faces.api.work import KAFKA


def rows(api: Api, action: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.ask("GET", f"/audit?action={action}").json()["items"]
    return found


def log_in(api: Api, password: str, user: str = "ada@example.org") -> int:
    status: int = api.client.post("/api/v1/session", json={"user": user, "password": password}).status_code
    return status


def test_failed_log_ins_lock_outs_and_log_outs_are_written_down(make_client: Callable[..., Api]) -> None:
    api = make_client(PENSTOCK_HTTP_AUTH="local", PENSTOCK_HTTP_ATTEMPTS="2")
    api.desk.store.people.create("ada@example.org", role="viewer", password=hash_password(PASSWORD))
    assert log_in(api, PASSWORD) == 200
    csrf = api.ask("GET", "/session", None).json()["csrf"]
    assert api.ask("DELETE", "/session", None, headers={"x-csrf-token": csrf}).status_code == 204
    assert [(row["actor"], row["outcome"]) for row in rows(api, "session.end")] == [("ada@example.org", "done")]
    assert log_in(api, "typed-canary") == 401
    assert rows(api, "session.locked") == []
    assert [log_in(api, "typed-canary") for _ in range(5)] == [401, *[429] * 4]
    failed = rows(api, "session.failed")
    assert [(row["subject"], row["outcome"], row["address"]) for row in failed] == [
        ("user/ada@example.org", "failed", "testclient")
    ] * 2
    assert len(rows(api, "session.locked")) == 1, "once, however often it is tried then"
    assert "typed-canary" not in api.ask("GET", "/audit").text


def test_what_was_typed_for_a_user_is_not_written_down(api: Api) -> None:
    assert log_in(api, "x", user="typed-canary") == 401
    assert [row["subject"] for row in rows(api, "session.failed")] == ["user/unknown"]
    assert "typed-canary" not in api.ask("GET", "/audit").text


def test_tokens_that_are_not_good_are_written_down_once_in_a_while(api: Api) -> None:
    made = api.ask("POST", "/tokens", json={"name": "ci", "role": "viewer"}).json()
    api.ask("DELETE", f"/tokens/{made['id']}")
    api.tokens = api.tokens | {"old": made["token"], "bad": "pst_nonsense"}
    for _ in range(3):
        assert api.ask("GET", "/pipelines", "old").status_code == 401
    assert api.ask("GET", "/pipelines", "bad").status_code == 401
    assert sorted(row["subject"] for row in rows(api, "session.failed")) == ["token/ci", "token/unknown"]


def test_refusals_are_written_down(api: Api) -> None:
    for _ in range(3):
        assert api.ask("POST", "/pipelines/orders/pause", "viewer").status_code == 403
    [row] = rows(api, "refused")
    assert (row["actor"], row["subject"], row["outcome"], row["data"]) == (
        "token viewer",
        "POST /pipelines/{name}/pause",
        "failed",
        {"error": "forbidden", "path": "/api/v1/pipelines/orders/pause"},
    )


def test_reads_of_payloads_are_written_down_with_their_project(api: Api) -> None:
    for _ in range(2):
        assert api.ask("GET", "/dead-letters/1", "viewer").status_code == 200
        assert api.ask("GET", f"/work-orders/{api.work.work_order}", "member").status_code == 200
    [read] = rows(api, "dead_letters.read")
    assert (read["subject"], read["actor"]) == ("dead-letter/1", "token viewer")
    [order] = rows(api, "work_orders.read")
    assert (order["subject"], order["project"]) == (f"work-order/{api.work.work_order}", api.project)
    path = f"/work-orders/{api.work.work_order}/dataclips/{api.work.dataclip}"
    for each in (path, f"/runs/{api.work.run}"):
        assert api.ask("GET", each, "viewer").status_code == 200
    assert {row["actor"] for row in rows(api, "work_orders.read")} == {"token member", "token viewer"}
    Tapped(api).look([sample("decode", "{}")])
    assert [row["subject"] for row in rows(api, "pipelines.tap")] == ["pipeline/orders"]
    # No cluster answers; that it was asked for is written down before.
    api.ask("GET", "/pipelines/orders/topics/orders-in/records", "viewer")
    api.ask("GET", "/pipelines/orders/topics/orders-in/tail?seconds=1", "viewer")
    assert [row["subject"] for row in rows(api, "topics.read")] == ["topic/orders-in"]
    assert [row["subject"] for row in rows(api, "topics.tail")] == ["topic/orders-in"]


def test_tests_of_connections_and_previews_are_written_down(api: Api) -> None:
    new = {"workflow": "health/labs", "name": "more", "kafka_configuration": KAFKA | {"hosts": [["localhost", 1]]}}
    api.ask("POST", "/triggers/test?timeout=0.1", "member", json=new)
    api.ask("POST", "/triggers/preview", "member", json=new)
    for action in ("triggers.test", "triggers.preview"):
        [row] = rows(api, action)
        assert (row["project"], row["data"]["bootstrap"]) == (api.project, "localhost:1")


def test_letters_rows_have_their_project(api: Api) -> None:
    api.ask("POST", "/pipelines", "member", json={"text": DOCUMENT.replace("kept", "orders2"), "project": api.project})
    api.desk.store.dead_letters.record([letter(900, pipeline="orders2")])
    [item] = api.ask("GET", "/dead-letters?pipeline=orders2", "member").json()["items"]
    answer = api.ask("POST", f"/dead-letters/{item['id']}/discard", "member", json={"reason": "x"})
    assert answer.is_success, answer.text
    assert [row["project"] for row in rows(api, "dead_letters.discard")] == [api.project]


def test_each_row_is_a_line_of_the_log(api: Api) -> None:
    with capture_logs() as lines:
        api.ask("POST", "/pipelines/orders/pause", "operator")
        log_in(api, "wrong")
        api.ask("GET", "/users", "viewer")
    said = {line["action"]: line for line in lines if line["event"] == "audit"}
    assert set(said) == {"pipelines.pause", "session.failed", "refused"}
    assert (said["pipelines.pause"]["actor"], said["pipelines.pause"]["outcome"]) == ("token operator", "done")
    numbers = {row["id"] for row in api.ask("GET", "/audit").json()["items"]}
    assert {line["row"] for line in said.values()} <= numbers
