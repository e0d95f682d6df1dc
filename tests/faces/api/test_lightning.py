"""Lightning's own paths: the shape of its answers, pages by number, projects, and a retry."""

from __future__ import annotations

from tests.faces.api.conftest import Api
from tests.faces.api.work import add_order, make_work


def test_work_orders_and_runs_have_lightnings_shape(api: Api) -> None:
    for _ in range(4):
        add_order(api.desk.store, api.work, "success")
    page = api.ask("GET", "/api/work_orders?page=2&page_size=2", "viewer").json()
    assert page["meta"] == {"total_entries": 5, "total_pages": 3, "page_number": 2, "page_size": 2}
    assert page["links"]["next"] == "/api/work_orders?page=3&page_size=2"
    assert page["links"]["prev"] == "/api/work_orders?page=1&page_size=2"
    one = page["data"][0]
    assert (one["type"], set(one["attributes"])) == (
        "work_orders",
        {"state", "last_activity", "inserted_at", "updated_at"},
    )
    assert one["relationships"]["workflow"]["data"] == {"type": "workflows", "id": api.work.workflow}
    single = api.ask("GET", one["links"]["self"], "viewer").json()
    assert single["data"]["id"] == one["id"]
    assert single["included"][0]["type"] == "runs"
    runs = api.ask("GET", "/api/runs?state=success,failed&page_size=3", "viewer").json()
    assert (len(runs["data"]), runs["meta"]["total_entries"]) == (3, 5)
    assert api.ask("GET", runs["data"][0]["links"]["self"]).json()["data"]["attributes"]["state"] == "success"
    lines = api.ask("GET", f"/api/log_lines?run_id={api.work.run}", "viewer").json()
    assert [line["attributes"]["message"] for line in lines["data"]] == ["<b>no</b> answer"]
    assert api.ask("GET", f"/api/log_lines?id={lines['data'][0]['id']}").json()["meta"]["total_entries"] == 1


def test_parameters_narrow_down_and_are_checked(shared_api: Api) -> None:
    work = shared_api.work

    def total(query: str) -> int:
        found: int = shared_api.ask("GET", f"/api/work_orders?{query}").json()["meta"]["total_entries"]
        return found

    assert total("state=failed,crashed") == 1
    assert total("state=success") == 0
    assert total(f"id={work.work_order},x&workflow_id={work.workflow}&project_id={work.project}") == 1
    assert total("inserted_after=2020-01-01T00:00:00Z&updated_before=2020-01-02T00:00:00Z") == 0
    for query in ("inserted_after=yesterday", "state=done", "page=0", "page_size=1000", "page=100000&page_size=100"):
        for path in ("/api/work_orders", "/api/runs"):
            assert shared_api.ask("GET", f"{path}?{query}").status_code == 422, query
    for query in ("id=", "id=,", "state=", "state=%20,"):
        for path in ("/api/work_orders", "/api/runs", "/api/log_lines"):
            refused = shared_api.ask("GET", f"{path}?{query}")
            assert (refused.status_code, refused.json()["detail"]) == (422, "a list has nothing in it"), query
    for name in ("inserted_after", "updated_before"):
        for path in ("/api/work_orders", "/api/runs"):
            assert shared_api.ask("GET", f"{path}?{name}=soon").json()["detail"] == f"{name} is no time"
    for path in (f"/api/work_orders/{work.run}", f"/api/runs/{work.work_order}", "/api/runs/x", "/api/nothing"):
        assert shared_api.ask("GET", path).status_code == 404


def test_projects_are_found_refused_or_unknown(api: Api) -> None:
    theirs = make_work(api.desk.store, api.other_project, "pumps")
    for kind, identifier in (("work_orders", api.work.work_order), ("runs", api.work.run)):
        mine = api.ask("GET", f"/api/projects/{api.project}/{kind}", "member").json()
        assert [one["id"] for one in mine["data"]] == [identifier]
        assert [one["id"] for one in api.ask("GET", f"/api/{kind}", "member").json()["data"]] == [identifier]
        assert api.ask("GET", f"/api/projects/{api.other_project}/{kind}", "member").status_code == 404
        assert api.ask("GET", f"/api/projects/{api.work.run}/{kind}", "member").status_code == 404
        path = f"/api/projects/{api.project}/{kind}?project_id="
        assert api.ask("GET", path + api.project.upper(), "member").json()["meta"]["total_entries"] == 1
        assert api.ask("GET", path + api.other_project, "viewer").status_code == 422, "one of them is not meant"
    assert api.ask("GET", f"/api/log_lines?run_id={theirs.run}", "member").json()["data"] == []
    assert api.ask("POST", f"/projects/{api.project}/runs/{theirs.run}/retry", "member").status_code == 404


def test_a_run_is_retried_from_one_of_its_steps(api: Api) -> None:
    path = f"/projects/{api.project}/runs/{api.work.run}/retry"
    wrong = api.ask("POST", path, "operator", json={"step_id": api.work.run})
    assert wrong.status_code == 404
    made = api.ask("POST", path, "operator", json={"step_id": api.work.step})
    assert made.status_code == 200
    run = api.ask("GET", f"/runs/{made.json()['data']['run']}").json()
    assert (run["starting_step"], run["work_order_id"]) == ("check", api.work.work_order)
    assert made.headers["content-security-policy"].startswith("default-src 'none'")


def test_what_the_original_did_not_look_at_is_let_through(api: Api) -> None:
    assert api.ask("GET", "/api/work_orders?page=1&expand=all").status_code == 200
    assert api.ask("GET", "/work-orders?expand=all").status_code == 422
