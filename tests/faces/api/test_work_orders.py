"""Work orders and runs over the API: pages, filters, retries, cancellations, jobs, exports, masks."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.service.access import system_actor
from penstock.service.bulk_jobs import new_worker, work_on_next
from penstock.service.operations import tokens
from penstock.service.operations.tokens import NewToken
from tests.faces.api.conftest import Api
from tests.faces.api.work import add_order, make_work


@pytest.fixture
def filled(api: Api) -> Api:
    """Three failed work orders, one that succeeded, and one that waits."""
    for state in ("failed", "failed", "success", "pending"):
        add_order(api.desk.store, api.work, state)
    return api


def test_lists_are_pages_to_the_end_in_both_orders(filled: Api) -> None:
    for order in ("created", "activity"):
        seen, after = [], ""
        for _ in range(3):
            page = filled.ask("GET", f"/work-orders?limit=2&order={order}{after}", "viewer").json()
            seen += [item["id"] for item in page["items"]]
            after = f"&after={page['next']}"
        assert seen == sorted(seen, reverse=True)
        assert len(set(seen)) == 5
        assert page["next"] is None
    runs = filled.ask("GET", "/runs?limit=3", "viewer").json()
    rest = filled.ask("GET", f"/runs?limit=3&after={runs['next']}", "viewer").json()
    assert len({item["id"] for item in runs["items"] + rest["items"]}) == 5
    assert rest["next"] is None


def test_filters_narrow_down_and_say_what_is_not_there(filled: Api) -> None:
    work = filled.work

    def number(query: str) -> int:
        return len(filled.ask("GET", f"/work-orders?{query}", "viewer").json()["items"])

    assert number("state=failed") == 3
    assert number("state=failed&state=pending") == 4
    assert number(f"workflow={work.workflow}&trigger={work.trigger}&project={work.project}") == 5
    assert number("workflow=health/labs&received_after=1h") == 5
    assert number("received_before=1h") == 0
    assert number(f"ids={work.work_order}") == 1
    assert number("ids=nonsense") == 0
    while filled.desk.store.search.index_some(100):
        pass
    assert number("search=p-88&within=body") == 5
    assert number("search=nobody") == 0
    assert filled.ask("GET", "/work-orders/count?state=failed", "viewer").json() == {"number": 3, "capped": False}
    assert len(filled.ask("GET", f"/runs?state=available&work_order={work.work_order}").json()["items"]) == 1
    refused = {
        "workflow=nobody": 404,
        "project=nobody": 404,
        f"trigger={work.workflow}": 404,
        "state=done": 422,
        "received_after=soon": 422,
        "received_after=2h&received_before=3h": 422,
        f"received_after={10**30}": 422,
        "within=body": 422,
        "after=x": 422,
    }
    for query, status in refused.items():
        answer = filled.ask("GET", f"/work-orders?{query}", "viewer")
        assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json"), query
        assert "--" not in answer.text


def test_a_work_order_and_a_run_are_shown_with_all_that_belongs_to_them(api: Api) -> None:
    work = api.work
    for identifier in (work.work_order, work.run):
        found = api.ask("GET", f"/work-orders/{identifier}", "viewer").json()
        assert (found["id"], found["state"], found["workflow"], found["trigger"]) == (
            work.work_order,
            "failed",
            "labs",
            "kafka",
        )
        [run] = found["runs"]
        assert (run["steps"][0]["name"], run["logs"][0]["message"]) == ("check", "<b>no</b> answer")
        assert found["dataclips"][work.dataclip]["body"] == {"patient": "p-88"}
    run = api.ask("GET", f"/runs/{work.run}", "viewer").json()
    assert (run["workflow"], run["duration_ms"], list(run["dataclips"])) == ("labs", 250.0, [work.dataclip])
    logs = api.ask("GET", f"/runs/{work.run}/logs?limit=1", "viewer").json()
    assert ([line["level"] for line in logs["items"]], logs["next"]) == (["error"], None)
    for path in ("/work-orders/x", f"/runs/{work.work_order}", "/runs/x/logs", f"/work-orders/{work.run[:-1]}0/retry"):
        method = "POST" if path.endswith("retry") else "GET"
        assert api.ask(method, path).status_code == 404


def test_large_bodies_are_given_when_they_are_asked_for_alone(api: Api) -> None:
    add_order(api.desk.store, api.work, body=f'{{"text": "{"x" * 200_000}"}}')
    clip = api.ask("GET", f"/work-orders/{api.work.work_order}").json()["dataclips"][api.work.dataclip]
    assert (clip["cut"], clip["body"]) == (True, None)
    whole = api.ask("GET", f"/work-orders/{api.work.work_order}/dataclips/{api.work.dataclip}").json()
    assert len(whole["body"]["text"]) == 200_000
    assert api.ask("GET", f"/work-orders/{api.work.work_order}/dataclips/{api.work.run}").status_code == 404


def test_rules_mask_inputs_and_keep_exports_for_admins(make_client: Callable[..., Api], tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("masking: {rules: [{topic: labs, fields: [patient]}]}\n")
    api = make_client(PENSTOCK_HTTP_AUTH="local", PENSTOCK_CONFIG=str(file))
    clip = api.ask("GET", f"/work-orders/{api.work.work_order}").json()["dataclips"][api.work.dataclip]
    assert (clip["body"], clip["masked"]) == ({"patient": "********"}, True)
    assert "p-88" not in api.ask("GET", f"/runs/{api.work.run}").json()["dataclips"][api.work.dataclip]["body"].values()
    assert api.ask("GET", "/work-orders/export", "viewer").status_code == 403
    assert api.ask("GET", "/work-orders/export", "admin").status_code == 200


def test_one_is_retried_and_cancelled(api: Api) -> None:
    work = api.work
    retried = api.ask("POST", f"/work-orders/{work.work_order}/retry", "operator", json={"step": "check"})
    assert retried.status_code == 200
    again = api.ask("POST", f"/work-orders/{work.work_order}/retry", "operator")
    assert (again.status_code, again.json()["code"]) == (409, "retry-refused")
    detail = api.ask("GET", f"/runs/{retried.json()['run']}").json()
    assert (detail["starting_step"], detail["created_by"], detail["state"]) == ("check", "token operator", "available")
    cancelled = api.ask("POST", f"/runs/{retried.json()['run']}/cancel", "operator").json()
    assert cancelled == {"work_order": work.work_order, "runs": [retried.json()["run"]]}
    nothing = api.ask("POST", f"/work-orders/{work.work_order}/cancel", "operator")
    assert (nothing.status_code, nothing.json()["code"]) == (409, "nothing-to-cancel")
    unknown = api.ask("POST", f"/work-orders/{work.work_order}/retry", "operator", json={"step": "nowhere"})
    assert unknown.status_code == 409
    kept = [(row.action, row.outcome) for row in api.desk.store.audit.list(limit=10)]
    assert ("work_orders.retry", "done") in kept
    assert ("work_orders.cancel", "done") in kept


def test_many_are_retried_in_the_background_after_a_count(filled: Api) -> None:
    store, choice = filled.desk.store, {"filter": {"workflow": "labs", "state": ["failed"]}}
    plan = filled.ask("POST", "/work-orders/retry", "operator", json=choice | {"dry_run": True}).json()
    assert plan == {"work_orders": 3}
    some = filled.ask("POST", "/work-orders/retry", "operator", json={"filter": {"workflow": "labs"}})
    assert (some.status_code, some.json()["code"]) == (409, "work-order-state")
    job = filled.ask("POST", "/work-orders/retry", "operator", json=choice | {"step": "check"}).json()
    assert (job["state"], job["total"], job["by"]) == ("waiting", 3, "token operator")
    assert work_on_next(store, new_worker(), lambda: True) is not None
    done = filled.ask("GET", f"/work-orders/jobs/{job['id']}", "viewer").json()
    assert (done["state"], done["done"], done["skipped"]) == ("done", 3, 0)
    assert "from step check" in done["what"]
    assert done["what"] == job["what"], "as it was told when it was asked for"
    assert "states=failed" in done["what"]
    cancel = filled.ask("POST", "/work-orders/cancel", "operator", json={"filter": {"state": ["pending"]}}).json()
    stopped = filled.ask("POST", f"/work-orders/jobs/{cancel['id']}/stop", "operator").json()
    assert (stopped["kind"], stopped["state"]) == ("cancel", "stopped")
    assert [each["id"] for each in filled.ask("GET", "/work-orders/jobs").json()] == [cancel["id"], job["id"]]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 422),
        ({"filter": {}}, 422),
        ({"ids": ["x"], "filter": {"state": ["failed"]}}, 422),
        ({"ids": ["00000000-0000-7000-8000-000000000000"]}, 404),
        ({"filter": {"state": ["lost"]}}, 404),
        ({"filter": {"state": ["failed"]}, "step": "check"}, 422),
        ({"filter": {"state": ["failed"], "workflow": "labs"}, "step": "nowhere"}, 404),
    ],
)
def test_what_cannot_be_retried_changes_nothing(shared_api: Api, body: dict[str, object], status: int) -> None:
    answer = shared_api.ask("POST", "/work-orders/retry", "operator", json=body)
    assert answer.status_code == status, answer.text
    assert "--" not in answer.json().get("hint", ""), "options are the command line's"
    assert shared_api.desk.store.bulk_jobs.list() == []


def test_an_export_is_a_zip_and_is_written_down(api: Api) -> None:
    answer = api.ask("GET", "/work-orders/export?state=failed", "viewer")
    assert answer.headers["content-type"] == "application/zip"
    with zipfile.ZipFile(io.BytesIO(answer.content)) as packed:
        [row] = csv.DictReader(io.StringIO(packed.read("work_orders.csv").decode()))
    assert row["id"] == api.work.work_order
    assert api.desk.store.audit.list(limit=1)[0].action == "work_orders.export"
    assert api.ask("GET", "/work-orders/jobs").json()[0]["kind"] == "export"


def test_members_see_and_change_their_projects_work_only(api: Api) -> None:
    theirs = make_work(api.desk.store, api.other_project, "pumps")
    for role, own, other in (("member", api.work, theirs), ("stranger", theirs, api.work)):
        listed = api.ask("GET", "/work-orders", role).json()["items"]
        assert [item["id"] for item in listed] == [own.work_order]
        assert [item["id"] for item in api.ask("GET", "/runs", role).json()["items"]] == [own.run]
        for path in (f"/work-orders/{other.work_order}", f"/runs/{other.run}", f"/runs/{other.run}/logs"):
            assert api.ask("GET", path, role).status_code == 404
        for path in (f"/work-orders/{other.work_order}/retry", f"/runs/{other.run}/cancel"):
            assert api.ask("POST", path, role).status_code == 404
        assert api.ask("GET", f"/work-orders?project={other.project}", role).status_code == 404
        assert api.ask("GET", f"/work-orders?workflow={other.workflow}", role).status_code == 404
        assert api.ask("GET", f"/work-orders?trigger={other.trigger}", role).status_code == 404
        many = api.ask("POST", "/work-orders/retry", role, json={"ids": [other.work_order]})
        assert many.status_code == 404
        job = api.ask("POST", "/work-orders/retry", role, json={"ids": [own.work_order]}).json()
        seen = "stranger" if role == "member" else "member"
        assert api.ask("GET", f"/work-orders/jobs/{job['id']}", seen).status_code == 404
        assert api.ask("POST", f"/work-orders/jobs/{job['id']}/stop", seen).status_code == 404


def test_roles_in_projects_are_kept_apart(api: Api) -> None:
    system = system_actor("test")
    looks = NewToken(name="looks", role="viewer", project=api.project)
    api.tokens = api.tokens | {"looks": tokens.create_token(api.desk, system, looks).token}
    choice = {"filter": {"state": ["failed"], "project": "health"}}
    assert api.ask("POST", "/work-orders/retry", "looks", json=choice).status_code == 403
    assert api.ask("POST", f"/work-orders/{api.work.work_order}/retry", "looks").status_code == 403
    assert api.ask("GET", "/work-orders?project=health", "looks").status_code == 200
