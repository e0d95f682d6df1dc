"""An API in this process, with people of every role, and pipelines and dead letters to look at."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from starlette.testclient import TestClient

from penstock.api.app import make_api
from penstock.config.settings import Settings
from penstock.core.ids import new_id
from penstock.service.access import ROLES, system_actor
from penstock.service.authentication import Authentication
from penstock.service.operations import tokens
from penstock.service.operations.desk import Desk
from penstock.service.operations.tokens import NewToken
from penstock.store import InstanceRow, Store
from penstock.store.workflow_tables import projects
from tests.behaviour.store.letters import letter
from tests.faces.api.work import Work, make_work

PASSWORD = "correct horse battery staple"
DOCUMENT = """\
name: kept
source:
  type: kafka
  config:
    connection: {bootstrap: "localhost:9092"}
    topics: [orders]
action: {type: hello_world}
"""


@dataclass
class Api:
    """The app, and how to ask it."""

    desk: Desk
    auth: Authentication
    client: TestClient
    tokens: dict[str, str] = field(default_factory=dict)
    """By role."""
    project: str = ""
    other_project: str = ""
    work: Work = field(default_factory=lambda: Work("", "", ""))
    """Of the project."""

    def close(self) -> None:
        self.desk.close()
        self.desk.store.close()

    def ask(self, method: str, path: str, role: str | None = "admin", **options: Any) -> Any:
        headers = dict(options.pop("headers", {}))
        if role is not None:
            headers["Authorization"] = f"Bearer {self.tokens[role]}"
        return self.client.request(method, full_path(path), headers=headers, **options)


def full_path(path: str) -> str:
    """Paths are below the API's prefix, but for Lightning's own."""
    return path if path.startswith(("/api/", "/projects/")) else f"/api/v1{path}"


def make(home: Path, **variables: str) -> tuple[Desk, Authentication]:
    settings = Settings.load({"PENSTOCK_HOME": str(home)} | variables)
    store = Store.open(settings.store_url)
    return Desk(store, settings), Authentication(store, settings)


def fill(store: Store) -> None:
    """Two pipelines on one instance, with dead letters of the first."""
    store.instances.heartbeat(InstanceRow(id="i-1", host="h", pid=7, version="0.1", started_at=1))
    for name in ("orders", "payments"):
        store.pipelines.put_state(name, "i-1", "running", events=10)
        text = f'{{"file": "/x/{name}.yaml", "spec": {{"name": "{name}"}}}}'
        store.pipelines.save_spec(name, f"v-{name}", text)
    store.dead_letters.record([letter(n, value=b'{"card": "4111", "total": 3}') for n in range(5)])


def make_project(store: Store, name: str) -> str:
    project = new_id()
    with store._database.write() as connection:
        connection.execute(sa.insert(projects), {"id": project, "name": name, "inserted_at": 1, "updated_at": 1})
    return project


@dataclass
class Template:
    """A store that was filled once, to be copied."""

    folder: Path
    tokens: dict[str, str]
    project: str
    other_project: str
    work: Work


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Template:
    """Tokens of every role, of a project's operator, and of another project's."""
    folder = tmp_path_factory.mktemp("api")
    desk, _ = make(folder)
    fill(desk.store)
    mine, other = make_project(desk.store, "health"), make_project(desk.store, "water")
    system, made = system_actor("test"), {}
    for role in ROLES:
        made[role] = tokens.create_token(desk, system, NewToken(name=role, role=role)).token
    for name, project in (("member", mine), ("stranger", other)):
        new = NewToken(name=name, role="operator", project=project)
        made[name] = tokens.create_token(desk, system, new).token
    work = make_work(desk.store, mine)
    desk.store.close()
    return Template(folder, made, mine, other, work)


def build(template: Template, home: Path, **variables: str) -> Api:
    home.mkdir(parents=True, exist_ok=True)
    shutil.copy(template.folder / "penstock.db", home / "penstock.db")
    desk, auth = make(home, **variables)
    desk.store.instances.heartbeat(InstanceRow(id="i-1", host="h", pid=7, version="0.1", started_at=1))
    client = TestClient(make_api(desk, auth), base_url="http://127.0.0.1")
    return Api(desk, auth, client, template.tokens, template.project, template.other_project, replace(template.work))


@pytest.fixture
def make_client(template: Template, penstock_home: Path) -> Iterator[Callable[..., Api]]:
    """APIs with settings of the test's own."""
    made: list[Api] = []

    def one(**variables: str) -> Api:
        made.append(build(template, penstock_home, **variables))
        return made[-1]

    yield one
    for each in made:
        each.close()


@pytest.fixture
def api(make_client: Callable[..., Api]) -> Api:
    """With log-ins."""
    return make_client(PENSTOCK_HTTP_AUTH="local", PENSTOCK_API_NETWORKS="localhost")


@pytest.fixture(scope="module")
def shared_api(template: Template, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """One for a whole module, where it does not matter what others did."""
    made = build(
        template, tmp_path_factory.mktemp("home"), PENSTOCK_HTTP_AUTH="local", PENSTOCK_API_NETWORKS="localhost"
    )
    yield made
    made.close()
