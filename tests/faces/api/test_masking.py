"""What rules mask stays hidden in all that is said of an event: errors, histories, logs, the record of changes; and
no search finds it out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from penstock.service.masking import UNTOLD
from penstock.store.tables import dead_letter_steps
from penstock.store.workflow_tables import log_lines
from tests.behaviour.store.letters import letter
from tests.faces.api.conftest import DOCUMENT, Api
from tests.faces.api.work import KAFKA

CARD = "4111-CANARY-77"
RULES = "masking: {rules: [{topic: orders-*, fields: [card]}, {topic: labs, fields: [patient]}]}\n"


@pytest.fixture
def api(make_client: Callable[..., Api], tmp_path: Path) -> Api:
    file = tmp_path / "settings.yaml"
    file.write_text(RULES)
    api = make_client(PENSTOCK_HTTP_AUTH="local", PENSTOCK_CONFIG=str(file))
    value = b'{"card": "4111-CANARY-77", "total": 3}'
    said = f"card {CARD} is blocked"
    letters = api.desk.store.dead_letters
    letters.record([letter(100, value=value, value_seen=value, error=said, traceback=f"ValueError: {said}")])
    letters.record([letter(101, value=f"no JSON {CARD}".encode(), value_seen=b'"4111-CANARY-77"', error=said)])
    letters.record([letter(102, value=value, topic="open", error="nothing of note")])
    return api


def _last(api: Api, offset: int) -> int:
    items = api.ask("GET", "/dead-letters").json()["items"]
    return int(next(item["id"] for item in items if item["offset"] == offset))


def test_errors_say_nothing_of_masked_fields(api: Api) -> None:
    first, raw = _last(api, 100), _last(api, 101)
    for path in ("/dead-letters", "/dead-letters/facets", f"/dead-letters/{first}", f"/dead-letters/{raw}"):
        for role in ("viewer", "admin"):
            assert CARD not in api.ask("GET", path, role).text, path
    shown = api.ask("GET", f"/dead-letters/{first}").json()
    assert (shown["error"], shown["traceback"]) == ("card ******** is blocked", "ValueError: card ******** is blocked")
    assert api.ask("GET", f"/dead-letters/{raw}").json()["error"] == UNTOLD
    revealed = api.ask("GET", f"/dead-letters/{first}?reveal=true").json()
    assert revealed["error"] == f"card {CARD} is blocked"


def test_what_a_letter_was_edited_to_is_masked_where_it_is_kept(api: Api) -> None:
    found = api.desk.store.dead_letters.get(_last(api, 100))
    assert found is not None
    row = {"letter_id": found.row.id, "at": 1, "kind": "replayed", "text": "said 5500-CANARY", "taken_by": "ada"}
    with api.desk.store.database.write() as connection:
        connection.execute(sa.insert(dead_letter_steps), row | {"data": {"edited_value": '{"card": "5500-CANARY"}'}})
    shown = api.ask("GET", f"/dead-letters/{found.row.id}").json()
    step = shown["history"][-1]
    assert (step["edited_value"], step["text"]) == ('{"card":"********"}', "said ********")


@pytest.mark.parametrize("name", ["text", "error"])
def test_nobody_searches_for_what_they_may_not_see(api: Api, name: str) -> None:
    for path in ("/dead-letters", "/dead-letters/facets"):
        for params in ({name: "4111"}, {name: "4111", "topic": "orders-in"}, {name: "4111", "pipeline": "orders"}):
            refused = api.ask("GET", path, "operator", params=params)
            assert (refused.status_code, refused.json()["code"]) == (403, "forbidden"), params
    bulk = api.ask("POST", "/dead-letters/replay", "operator", json={"filter": {name: "4111"}, "dry_run": True})
    assert bulk.status_code == 403
    assert api.ask("GET", "/dead-letters", "operator", params={name: "note", "topic": "open"}).status_code == 200
    assert len(api.ask("GET", "/dead-letters", "admin", params={name: "4111-CANARY"}).json()["items"]) >= 2


def test_log_lines_and_results_say_nothing_of_masked_fields(api: Api) -> None:
    work = api.work
    with api.desk.store.database.write() as connection:
        connection.execute(sa.update(log_lines).values(message="patient p-88 is unknown"))
    for path in (f"/work-orders/{work.work_order}", f"/runs/{work.run}", f"/runs/{work.run}/logs", "/api/log_lines"):
        answer = api.ask("GET", path, "viewer")
        assert "patient ******** is unknown" in answer.text, path
        assert "p-88 is unknown" not in answer.text


def test_work_orders_are_not_searched_for_what_is_masked(api: Api) -> None:
    while api.desk.store.search.index_some(100):
        pass
    search = {"search": "p-88", "any_time": True}
    refused = api.ask("GET", "/work-orders", "operator", params=search | {"within": "body"})
    assert (refused.status_code, refused.json()["allowed"]) == (403, ["id", "name"])
    assert api.ask("GET", "/work-orders", "operator", params=search).json()["items"] == []
    assert len(api.ask("GET", "/work-orders", "admin", params=search).json()["items"]) == 1
    by_id = {"search": api.work.work_order[:13], "any_time": True}
    assert len(api.ask("GET", "/work-orders", "operator", params=by_id).json()["items"]) == 1


@pytest.mark.parametrize(
    ("topics", "allowed"),
    [("topics: [open]", True), ("topics: [open, orders-in]", False), ("topic_pattern: '^open.*'", False)],
)
def test_a_masked_topic_is_not_read_by_pipelines_of_those_who_may_not_reveal_it(
    api: Api, topics: str, *, allowed: bool
) -> None:
    text = DOCUMENT.replace("topics: [orders]", topics).replace("localhost:9092", "1.1.1.1:9092")
    for role, project in (("operator", None), ("member", api.project)):
        answer = api.ask("POST", "/pipelines", role, json={"text": text, "project": project})
        assert answer.status_code == (201 if allowed else 403), answer.text
        if allowed:
            assert api.ask("DELETE", "/pipelines/kept", headers={"If-Match": "*"}).status_code == 204
            return
    assert api.ask("POST", "/pipelines", "admin", json={"text": text}).status_code == 201
    other = text.replace("hello_world", "notify, config: {urls: [x]}")
    changed = api.ask("PUT", "/pipelines/kept", "operator", json={"text": text}, headers={"If-Match": "*"})
    assert changed.status_code == 403, other


def test_a_masked_topic_is_not_read_by_triggers_of_those_who_may_not_reveal_it(api: Api) -> None:
    def new(topic: str) -> dict[str, object]:
        return {"kafka_configuration": KAFKA | {"hosts": [["1.1.1.1", 9092]], "topics": [topic]}}

    for role in ("operator", "member"):
        made = new("labs") | {"workflow": api.work.workflow, "name": "more"}
        assert api.ask("POST", "/triggers", role, json=made).status_code == 403
        path = f"/triggers/{api.work.trigger}"
        assert api.ask("PUT", path, role, json=new("labs"), headers={"If-Match": "*"}).status_code == 403
    made = api.ask("POST", "/triggers", "member", json=new("open") | {"workflow": api.work.workflow, "name": "more"})
    assert made.status_code == 201, made.text


def test_steps_that_are_given_a_masked_topic_are_not_changed_by_those_who_may_not_reveal_it(api: Api) -> None:
    text = api.ask("GET", f"/workflows/{api.work.workflow}").json()["text"]
    path = f"/workflows/{api.work.workflow}"
    for role, status in (("member", 403), ("operator", 403), ("admin", 200)):
        answer = api.ask("PUT", path, role, json={"text": text}, headers={"If-Match": "*"})
        assert answer.status_code == status, answer.text
