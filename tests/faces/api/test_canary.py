"""I8: a secret that is set wherever one can be set appears in no answer of the API, no error and no log."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.config.loading import load
from penstock.config.stored import stored
from penstock.service.logs import configure_logs
from penstock.service.passwords import hash_password
from tests.faces.api.conftest import DOCUMENT, Api
from tests.faces.api.test_roles import MATRIX
from tests.faces.api.work import KAFKA

CANARY = "canary-5e1f-9b77-sesame"

_PIPELINE = """\
name: secretive
source:
  type: kafka
  config:
    connection:
      bootstrap: "127.0.0.1:1"
      schema_registry_url: "http://user:%(canary)s@127.0.0.1:1"
      consumer_config: {security.protocol: SASL_PLAINTEXT, sasl.mechanism: PLAIN, sasl.username: u,
                        sasl.password: "%(canary)s"}
    topics: [orders]
action:
  type: webhook
  config: {url: "https://example.org/?token=%(canary)s", headers: {authorization: "Bearer %(canary)s",
           x-note: "${file:secret.txt}"}}
"""


_LOG_IN = {"sasl": "plain", "username": CANARY, "password": CANARY, "properties": {"ssl.key.password": CANARY}}
_TRIGGER: dict[str, Any] = {"workflow": "labs", "name": "more", "kafka_configuration": KAFKA | _LOG_IN}
_WORKFLOW = """\
kind: workflow
project: health
name: secretive
steps:
  - name: send
    http: https://93.184.216.34/
    config: {headers: {authorization: %s}}
"""


@pytest.fixture
def loaded(make_client: Callable[..., Api], tmp_path: Path) -> Api:
    (tmp_path / "secret.txt").write_text(CANARY)
    file = tmp_path / "pipeline.yaml"
    file.write_text(_PIPELINE % {"canary": CANARY})
    api = make_client(PENSTOCK_HTTP_AUTH="local", PENSTOCK_API_NETWORKS="localhost", PENSTOCK_OIDC_CLIENT_SECRET=CANARY)
    [spec] = load([file]).specs
    store = api.desk.store
    store.pipelines.save_spec(spec.name, spec.version, stored(spec))
    store.pipelines.put_state(spec.name, "i-1", "running")
    store.people.create("ada@example.org", role="admin", password=hash_password(CANARY))
    made = api.ask("POST", "/triggers", json=_TRIGGER)
    assert made.status_code == 201, made.text
    api.work.trigger = made.json()["id"]
    configure_logs(level="debug", format="json", secrets=api.desk.settings.secrets | spec.secrets)
    return api


def test_i08_no_answer_and_no_log_holds_a_secret(loaded: Api, capfd: pytest.CaptureFixture[str]) -> None:
    api, said = loaded, []
    parts = {
        "secret": "kafka",
        "name": "secretive",
        "version": "x",
        "other": "x",
        "topic": "orders",
        "partition": 0,
        "offset": 0,
    }
    parts |= {"letter": 1, "job": "discard-1", "kind": "action", "plugin": "webhook", "token": "x"}
    parts |= {name: getattr(api.work, name) for name in ("workflow", "trigger", "work_order", "run", "dataclip")}
    parts["project"] = api.work.project
    parts["user"] = api.desk.store.people.all()[0].id
    for method, path, _, sent in MATRIX:
        if not path.endswith(("/tail", "/records", "/topics", "/decoders", "/offsets", "/preview", "/reset")):
            said.append(api.ask(method, path.format(**parts), **sent))
    logins = [
        {"user": "ada@example.org", "password": CANARY},
        {"user": "ada@example.org", "password": CANARY + "x"},
        {"user": "ada@example.org", "password": {"is": CANARY}},
        {"user": "ada@example.org", "password": [CANARY], "more": 1},
    ]
    said += [api.client.post("/api/v1/session", json=body) for body in logins]
    people = [{"email": "b", "password": CANARY}, {"email": "b@example.org", "password": {"x": CANARY}}]
    said += [api.ask("POST", "/users", json=body) for body in people]
    documents = [
        DOCUMENT.replace('"localhost:9092"', f'"localhost:9092", consumer_config: {{sasl.password: {CANARY}}}'),
        DOCUMENT.replace('"localhost:9092"', f'"localhost:9092", schema_registry_url: "http://u:{CANARY}@localhost"'),
        DOCUMENT.replace("hello_world}", f"webhook, config: {{url: 'https://x:{CANARY}@example.org'}}}}"),
        DOCUMENT.replace("hello_world}", f"webhook, config: {{headers: {{authorization: [{CANARY}]}}}}}}"),
        DOCUMENT.replace("hello_world}", f"table, config: {{url: 'postgresql://u:{CANARY}@localhost/d', table: t}}}}"),
    ]
    for path in ("/pipelines/validate", "/pipelines"):
        said += [api.ask("POST", path, json={"text": text}) for text in documents]
    wrong = [{"password": [CANARY]}, {"username": {"x": CANARY}}, {"sasl": None}, {"ssl_key": CANARY}, {"sasl": "x"}]
    for more in wrong:
        draft = _TRIGGER | {"name": "wrong", "kafka_configuration": KAFKA | _LOG_IN | more}
        said += [api.ask("POST", path, json=draft) for path in ("/triggers", "/triggers/test?timeout=0.5")]
    said.append(api.ask("POST", f"/triggers/{api.work.trigger}/test?timeout=0.5"))
    for secret in (CANARY, f"[{CANARY}]", f"{{$secret: {CANARY}}}"):
        texts = [_WORKFLOW % secret, _WORKFLOW.replace("https://", f"https://u:{CANARY}@") % "x"]
        said += [
            api.ask("POST", path, json={"text": t}) for t in texts for path in ("/workflows", "/workflows/validate")
        ]
    said.append(api.client.get("/api/v1/pipelines", headers={"Authorization": f"Bearer {CANARY}"}))
    said.append(api.client.get("/api/v1/openapi.json"))
    for answer in said:
        assert CANARY not in answer.text, (answer.request.url, answer.text)
        assert answer.status_code != 500, (answer.request.url, answer.text)
    written = capfd.readouterr()
    assert CANARY not in written.out + written.err
    kept = json.dumps([row.data | {"b": row.before, "a": row.after} for row in api.desk.store.audit.list(limit=1_000)])
    assert CANARY not in kept
    # Tokens and sessions are shown once, to whoever made them, and kept nowhere.
    made = api.ask("POST", "/tokens", json={"name": "t", "role": "viewer"}).json()["token"]
    for path in ("/tokens", "/audit?limit=1000", "/users"):
        assert made not in api.ask("GET", path).text
