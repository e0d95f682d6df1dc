"""Dead letters and pipelines over the API: pages, facets, discards, masks, commands and what is written down."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from penstock.api.app import make_api
from penstock.core.clock import SYSTEM
from penstock.service.authentication import Authentication
from penstock.service.operations.desk import Desk
from penstock.store import DeadLetterFilter, Store
from tests.behaviour.store.letters import failed_at, letter
from tests.faces.api.conftest import DOCUMENT, Api
from tests.support.waiting import until


def test_lists_are_pages_to_the_end(shared_api: Api) -> None:
    seen, after = [], ""
    for _ in range(3):
        page = shared_api.ask("GET", f"/dead-letters?limit=2{after}", "viewer").json()
        seen += [item["id"] for item in page["items"]]
        after = f"&after={page['next']}"
    assert seen == [5, 4, 3, 2, 1]
    assert page["next"] is None
    first = shared_api.ask("GET", "/pipelines?limit=1", "viewer").json()
    rest = shared_api.ask("GET", f"/pipelines?limit=1&after={first['next']}", "viewer").json()
    assert [item["name"] for item in first["items"] + rest["items"]] == ["orders", "payments"]
    assert rest["next"] is None


def test_filters_facets_and_details(shared_api: Api) -> None:
    assert len(shared_api.ask("GET", "/dead-letters?pipeline=orders&stage=act", "viewer").json()["items"]) == 5
    assert shared_api.ask("GET", "/dead-letters?pipeline=payments", "viewer").json()["items"] == []
    assert len(shared_api.ask("GET", "/dead-letters?text=4111", "viewer").json()["items"]) == 5
    facets = shared_api.ask("GET", "/dead-letters/facets", "viewer").json()
    assert (facets["letters"], facets["counts"]["stage"]) == (5, {"act": 5})
    assert facets["errors"][0]["error"] == "no such order"
    found = shared_api.ask("GET", "/dead-letters/1", "viewer").json()
    assert found["value"] == {"text": '{"card": "4111", "total": 3}', "base64": None}
    assert (found["key"]["text"], found["history"][0]["kind"], found["masked"]) == ("k", "failed", False)


def test_who_belongs_to_a_project_sees_the_letters_of_its_pipelines_and_no_others(api: Api) -> None:
    names = ("kept", "kept-too")
    for name in names:
        document = DOCUMENT.replace("name: kept", f"name: {name}")
        made = api.ask("POST", "/pipelines", "member", json={"text": document, "project": api.project})
        assert made.status_code == 201, made.text
    api.desk.store.dead_letters.record(
        [
            letter(n, pipeline=names[n % 2], topic_id=names[n % 2], fingerprint=f"f{n % 3}", **failed_at(n))
            for n in range(7)
        ]
    )
    seen, after = [], ""
    for _ in range(4):
        page = api.ask("GET", f"/dead-letters?limit=3{after}", "member").json()
        seen += [(item["pipeline"], item["offset"]) for item in page["items"]]
        after = f"&after={page['next']}"
        if page["next"] is None:
            break
    assert seen == [(names[n % 2], n) for n in reversed(range(7))]
    facets = api.ask("GET", "/dead-letters/facets", "member").json()
    assert (facets["letters"], facets["complete"]) == (7, True)
    assert facets["counts"]["pipeline"] == {"kept": 4, "kept-too": 3}
    assert {group["fingerprint"]: group["letters"] for group in facets["errors"]} == {"f0": 3, "f1": 2, "f2": 2}
    assert api.ask("GET", "/dead-letters", "stranger").json()["items"] == []
    assert api.ask("GET", "/dead-letters?pipeline=kept", "stranger").status_code == 404
    every = {"filter": {"status": "new"}, "reason": "all of them"}
    assert api.ask("POST", "/dead-letters/discard", "member", json=every).status_code == 422, (
        "others' letters are new, too"
    )


def test_letters_are_discarded_in_the_background_with_a_reason(api: Api) -> None:
    plan = api.ask("POST", "/dead-letters/discard", json={"filter": {"pipeline": "orders"}, "dry_run": True}).json()
    assert (plan["letters"], plan["statuses"]) == (5, {"new": 5})
    unsaid = api.ask("POST", "/dead-letters/discard", json={"filter": {"pipeline": "orders"}})
    assert unsaid.status_code == 422
    assert api.desk.store.dead_letters.counts_by_status() == {"new": 5}
    one = api.ask("POST", "/dead-letters/2/discard", "operator", json={"reason": "test data"})
    assert one.status_code == 202

    def ended(job: str) -> dict[str, object] | None:
        found = api.ask("GET", f"/dead-letters/jobs/{job}").json()
        return found if found["state"] == "done" else None

    assert until(lambda: ended(one.json()["id"]), 20, "the letter is discarded")["done"] == 1
    many = api.ask("POST", "/dead-letters/discard", json={"filter": {"pipeline": "orders"}, "reason": "all of them"})
    assert until(lambda: ended(many.json()["id"]), 20, "all are discarded")["done"] == 4
    assert api.desk.store.dead_letters.counts_by_status() == {"discarded": 5}
    history = api.ask("GET", "/dead-letters/2").json()["history"]
    assert (history[-1]["kind"], history[-1]["by"], history[-1]["text"]) == ("discarded", "token operator", "test data")
    jobs = api.ask("GET", "/dead-letters/jobs").json()
    assert [job["kind"] for job in jobs] == ["discard", "discard"]
    entries = api.ask("GET", "/audit?action=dead_letters.discard").json()["items"]
    assert [entry["outcome"] for entry in entries] == ["done", "done"]
    assert entries[1]["subject"] == "dead-letter/2"


def test_what_fails_while_letters_are_discarded_stays(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    letters = api.desk.store.dead_letters
    close_page = letters.discard_page

    def fail_meanwhile(*given: Any, **more: Any) -> Any:
        if more["after"] == 0:
            letters.record([letter(77, **failed_at(SYSTEM.now_ms() + 1_000))])
        return close_page(*given, **more)

    monkeypatch.setattr(letters, "discard_page", fail_meanwhile)
    body = {"filter": {"pipeline": "orders"}, "reason": "all that I have seen"}
    planned = api.ask("POST", "/dead-letters/discard", json=body | {"dry_run": True}).json()["letters"]
    job = api.ask("POST", "/dead-letters/discard", json=body).json()

    def ended() -> dict[str, Any] | None:
        found: dict[str, Any] = api.ask("GET", f"/dead-letters/jobs/{job['id']}").json()
        return found if found["state"] == "done" else None

    assert until(ended, 20, "the letters are discarded")["done"] == planned == 5
    [left] = api.ask("GET", "/dead-letters?status=new").json()["items"]
    assert left["offset"] == 77


def test_a_job_is_known_at_another_instance_to_whom_its_pipelines_are(api: Api) -> None:
    """The second address answers from a store of its own connections, as an instance behind the same name does."""
    api.ask("POST", "/pipelines", "member", json={"text": DOCUMENT, "project": api.project})
    api.desk.store.dead_letters.record([letter(n, pipeline="kept", topic_id="kept") for n in range(3)])
    mine = [row.id for row in api.desk.store.dead_letters.list(DeadLetterFilter(pipeline="kept"))]
    begun = api.ask("POST", "/dead-letters/discard", "member", json={"ids": mine, "reason": "test data"})
    assert begun.status_code == 202, begun.text
    job = begun.json()["id"]
    settings = api.desk.settings
    with Store.open(settings.store_url) as store:
        desk, auth = Desk(store, settings), Authentication(store, settings)
        other = replace(api, desk=desk, auth=auth, client=TestClient(make_api(desk, auth), base_url="http://127.0.0.1"))

        def ended() -> dict[str, object] | None:
            found = other.ask("GET", f"/dead-letters/jobs/{job}", "member").json()
            return found if found["state"] == "done" else None

        assert until(ended, 20, "the letters are discarded")["done"] == 3
        assert [each["id"] for each in other.ask("GET", "/dead-letters/jobs", "member").json()] == [job]
        assert other.ask("POST", f"/dead-letters/jobs/{job}/stop", "member").json()["state"] == "done"
        assert other.ask("GET", "/dead-letters/jobs", "stranger").json() == []
        for method, path in (("GET", f"/dead-letters/jobs/{job}"), ("POST", f"/dead-letters/jobs/{job}/stop")):
            assert other.ask(method, path, "stranger").status_code == 404
        [entry] = other.ask("GET", "/audit?action=dead_letters.discard").json()["items"]
        assert (entry["data"]["job"], entry["outcome"]) == (job, "done")


def test_masked_fields_are_shown_to_admins_who_ask_and_that_is_written_down(
    make_client: Callable[..., Api], tmp_path: Path
) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("masking: {rules: [{topic: orders-*, fields: [card]}]}\n")
    api = make_client(PENSTOCK_HTTP_AUTH="local", PENSTOCK_CONFIG=str(file))
    for role in ("viewer", "operator", "admin"):
        answer = api.ask("GET", "/dead-letters/1", role)
        assert "4111" not in answer.text
        assert answer.json()["masked"]
        assert '"total":3' in answer.json()["value"]["text"]
    assert api.ask("GET", "/dead-letters/1?reveal=true", "operator").status_code == 403
    revealed = api.ask("GET", "/dead-letters/1?reveal=true", "admin").json()
    assert (revealed["masked"], "4111" in revealed["value"]["text"]) == (False, True)
    assert [entry["subject"] for entry in api.ask("GET", "/audit?action=dead_letters.reveal").json()["items"]] == [
        "dead-letter/1"
    ]


def test_commands_are_obeyed_told_and_written_down(api: Api) -> None:
    paused = api.ask("POST", "/pipelines/orders/pause", "operator", json={"reason": "maintenance"})
    assert (paused.json()["desired"], paused.json()["set_by"]) == ("paused", "token operator")
    late = api.ask("POST", "/pipelines/orders/resume", "operator", json={"wait": 0.2})
    assert (late.status_code, late.json()["code"]) == (503, "not_obeyed")
    limited = api.ask("PUT", "/pipelines/orders/rate-limit", "operator", json={"rate": "10/s"})
    assert limited.json()["rate_limit"] == 10.0
    kinds = [entry["kind"] for entry in api.ask("GET", "/pipelines/orders/history", "viewer").json()]
    assert kinds == ["rate-limit", "resumed", "paused"]
    entries = api.ask("GET", "/audit?subject=pipeline/orders").json()["items"]
    assert [(entry["action"], entry["before"], entry["after"]) for entry in entries] == [
        ("pipelines.rate-limit", "running", "running"),
        ("pipelines.resume", "paused", "running"),
        ("pipelines.pause", "running", "paused"),
    ]
    assert entries[2]["data"] == {"reason": "maintenance"}


def test_changes_come_as_server_sent_events(api: Api) -> None:
    answer = api.ask("GET", "/events?seconds=0.2", "viewer")
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = [line.removeprefix("event: ") for line in answer.text.splitlines() if line.startswith("event: ")]
    assert events == ["pipelines", "jobs", "work_order_jobs", "end"]
    assert '"name":"orders"' in answer.text


def test_users_are_changed_by_version(api: Api) -> None:
    made = api.ask("POST", "/users", json={"email": "Ada@Example.org", "role": "viewer"})
    assert (made.status_code, made.json()["email"], made.headers["etag"]) == (201, "ada@example.org", '"1"')
    path = f"/users/{made.json()['id']}"
    assert api.ask("PATCH", path, json={"role": "operator"}).status_code == 428
    assert api.ask("PATCH", path, json={"role": "operator"}, headers={"If-Match": '"9"'}).status_code == 412
    changed = api.ask(
        "PATCH", path, json={"role": None, "projects": {api.project: "admin"}}, headers={"If-Match": '"1"'}
    )
    assert (changed.json()["role"], changed.json()["projects"]) == (None, {api.project: "admin"})
    assert changed.headers["etag"] == '"2"'
    unknown = api.ask("PATCH", path, json={"projects": {"nothing": "viewer"}}, headers={"If-Match": "*"})
    assert unknown.status_code == 422
    taken = api.ask("POST", "/users", json={"email": "ada@example.org"})
    assert (taken.status_code, taken.json()["code"]) == (409, "taken")
    assert api.ask("DELETE", path, headers={"If-Match": '"2"'}).status_code == 204
