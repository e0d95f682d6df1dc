"""Notices over the API: what went out, to whom, what waits, and for how long."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import sqlalchemy as sa

from penstock.core.ids import new_id
from penstock.service.notices import Notices
from penstock.service.secrets import SecretBox
from penstock.store.workflow_tables import members, projects, triggers, workflows
from penstock.workflows.notices import gather
from tests.faces.api.conftest import Api

ADDRESS = "json://user:canary-5511@127.0.0.1:1/"


@dataclass
class Scene:
    """A trigger of the member's project."""

    api: Api
    trigger: str

    def fail(self, *offsets: int) -> None:
        with self.api.desk.store.database.write() as connection:
            at = 1_700_000_000_000_000
            gather(connection, self.trigger, [("lab", 0, offset) for offset in offsets], at)

    def tell(self) -> int:
        return Notices(self.api.desk.store, self.api.desk.settings).look()


@pytest.fixture
def scene(make_client: Callable[..., Api]) -> Scene:
    api = make_client(PENSTOCK_HTTP_AUTH="local", PENSTOCK_SMTP_URL="smtp://127.0.0.1:1")
    workflow, trigger, store = new_id(), new_id(), api.desk.store
    times = {"inserted_at": 1, "updated_at": 1}
    ada = store.people.create("ada@example.org")
    with store.database.write() as connection:
        row = {"id": workflow, "project_id": api.project, "name": "Lab results", **times}
        connection.execute(sa.insert(workflows), row)
        connection.execute(sa.insert(triggers), {"id": trigger, "workflow_id": workflow, "name": "kafka", **times})
        connection.execute(sa.insert(members), {"project_id": api.project, "user_id": ada.id, "role": "owner"})
    return Scene(api, trigger)


def test_what_waits_is_shown_with_its_embargo_and_who_would_be_told(scene: Scene) -> None:
    api = scene.api
    assert api.ask("GET", "/notices/pending", "viewer").json() == []
    hidden = SecretBox.of(api.desk.store, api.desk.settings).hidden({"notify": [ADDRESS]})
    with api.desk.store.database.write() as connection:
        connection.execute(sa.update(projects).where(projects.c.id == api.project).values(settings=hidden))
    scene.fail(3, 4)
    answer = api.ask("GET", "/notices/pending", "viewer")
    (state,) = answer.json()
    assert (state["waiting"], state["named"]) == (2, ["lab/0@3", "lab/0@4"])
    assert (state["recipients"], state["services"], state["mails"]) == (["ada@example.org"], ["json"], True)
    assert (state["last_told_at"], state["embargo_until"]) == (None, None)
    assert "canary-5511" not in answer.text


def test_notices_that_went_out_are_listed_newest_first_and_in_pages(scene: Scene) -> None:
    api = scene.api
    with api.desk.store.database.write() as connection:
        connection.execute(sa.delete(members))
    for offset in (1, 2, 3):
        scene.fail(offset)
        assert scene.tell() == 1
        with api.desk.store.database.write() as connection:
            mine = sa.update(triggers).where(triggers.c.id == scene.trigger)
            connection.execute(mine.values(notified_at=1_000_000))
    first = api.ask("GET", "/notices?limit=2", "viewer").json()
    assert [item["named"] for item in first["items"]] == [["lab/0@3"], ["lab/0@2"]]
    last = api.ask("GET", f"/notices?limit=2&after={first['next']}", "viewer").json()
    assert ([item["named"] for item in last["items"]], last["next"]) == ([["lab/0@1"]], None)
    item = last["items"][0]
    assert (item["told"], item["messages"], item["since"]) == (False, 1, "2023-11-14T22:13:20.000Z")
    assert (item["workflow_name"], item["pipeline"]) == ("Lab results", f"trigger-{scene.trigger}")
    (state,) = api.ask("GET", "/notices/pending", "viewer").json()
    assert (state["waiting"], state["embargo_until"]) == (0, "1970-01-01T01:00:01.000Z")


def test_another_projects_notices_are_not_shown(scene: Scene) -> None:
    scene.fail(1)
    api = scene.api
    assert len(api.ask("GET", "/notices/pending", "member").json()) == 1
    assert api.ask("GET", "/notices/pending", "stranger").json() == []
    assert api.ask("GET", "/notices", "stranger").json()["items"] == []
    assert api.ask("GET", f"/notices/pending?project={api.other_project}", "viewer").json() == []
    assert api.ask("GET", "/notices?after=nonsense", "viewer").status_code == 422
