"""Named secrets: set and removed by admins, shown to nobody, and what documents refer to."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.service.access import system_actor
from penstock.service.operations import tokens
from penstock.service.operations.tokens import NewToken
from penstock.service.secrets import SecretBox
from tests.faces.api.conftest import DOCUMENT, Api
from tests.faces.api.work import KAFKA

CANARY = "canary-sesame-8841"


def test_a_secret_is_kept_encrypted_and_told_to_nobody(api: Api) -> None:
    box = SecretBox.of(api.desk.store, api.desk.settings)  # as an instance that runs already has it
    made = api.ask("PUT", "/secrets/kafka", json={"value": CANARY})
    assert (made.status_code, made.json()) == (200, {"name": "kafka"})
    assert api.ask("GET", "/secrets").json() == [{"name": "kafka"}]
    assert box.named() == {"kafka": CANARY}
    assert CANARY.encode() not in b"".join(api.desk.store.secrets.all().values())
    record = api.ask("GET", "/audit?subject=secret/kafka")
    assert [entry["action"] for entry in record.json()["items"]] == ["secrets.set"]
    assert CANARY not in record.text
    assert api.ask("DELETE", "/secrets/kafka").status_code == 204
    assert api.ask("DELETE", "/secrets/kafka").status_code == 404
    assert box.named() == {}


def test_what_cannot_be_a_secret_is_refused_without_repeating_it(api: Api) -> None:
    for name, body in (
        ("%20", {"value": CANARY}),
        ("a%07b", {"value": CANARY}),
        ("a", {"value": ""}),
        ("a", {"value": CANARY * 2_000}),
        ("a", {"value": {"text": CANARY}}),
        ("a", {"valeu": CANARY}),
    ):
        refused = api.ask("PUT", f"/secrets/{name}", json=body)
        assert refused.status_code == 422, refused.text
        assert CANARY not in refused.text
    assert api.ask("GET", "/secrets").json() == []


def _by(api: Api, secret: str) -> dict[str, tuple[str, dict[str, Any]]]:
    """Whatever can refer to a secret: its path, and what is sent there."""
    hook = "{type: webhook, config: {url: 'https://93.184.216.34/', headers: {authorization: {$ref: SECRET}}}}"
    bootstrap, action = "93.184.216.34:9092", hook.replace("SECRET", secret)
    pipeline = DOCUMENT.replace("localhost:9092", bootstrap).replace("{type: hello_world}", action)
    step = f"steps: [{{name: tell, http: 'https://93.184.216.34/', config: {{headers: {{x: {{$ref: {secret}}}}}}}}}]"
    workflow = f"kind: workflow\nproject: health\nname: visits\n{step}\n"
    log_in = {"sasl": "plain", "username": "ada", "password": {"$ref": secret}}
    trigger = {"workflow": "health/labs", "name": "more", "kafka_configuration": KAFKA | log_in}
    return {
        "pipeline": ("/pipelines", {"text": pipeline, "project": api.project}),
        "workflow": ("/workflows", {"text": workflow}),
        "trigger": ("/triggers", trigger),
    }


@pytest.fixture
def kept(api: Api) -> Api:
    """With some that are there."""
    for name in ("kafka", "water/kafka", "health/kafka"):
        assert api.ask("PUT", f"/secrets/{name}", json={"value": CANARY}).status_code == 200
    return api


@pytest.mark.parametrize("kind", ["pipeline", "workflow", "trigger"])
def test_who_has_a_role_in_a_project_refers_to_its_secrets_only(kept: Api, kind: str) -> None:
    for secret in ("kafka", "water/kafka", "health/nested/kafka", "health"):
        path, body = _by(kept, secret)[kind]
        refused = kept.ask("POST", path, "member", json=body)
        assert refused.status_code == 422, refused.text
        (problem,) = refused.json()["problems"]
        assert f"{secret!r} is not one of your project" in problem["message"]
        assert "health/NAME" in problem["hint"]
    path, body = _by(kept, "health/nothing")[kind]
    missing = kept.ask("POST", path, "member", json=body)
    assert (missing.status_code, "no secret named 'health/nothing'" in missing.text) == (422, True)
    assert "water" not in missing.text
    path, body = _by(kept, "health/kafka")[kind]
    made = kept.ask("POST", path, "member", json=body)
    assert made.status_code == 201, made.text


@pytest.mark.parametrize("kind", ["pipeline", "workflow", "trigger"])
def test_whose_role_holds_everywhere_refers_to_all_of_them(kept: Api, kind: str) -> None:
    path, body = _by(kept, "kafka")[kind]
    made = kept.ask("POST", path, "operator", json=body)
    assert made.status_code == 201, made.text


def test_a_secret_of_others_that_a_trigger_refers_to_is_not_led_elsewhere(kept: Api) -> None:
    path, body = _by(kept, "kafka")["trigger"]
    made = kept.ask("POST", path, "operator", json=body)
    shown = made.json()["kafka_configuration"]
    assert shown["password"] == {"$ref": "kafka"}
    where, etag = f"/triggers/{made.json()['id']}", {"If-Match": made.headers["etag"]}
    for password in (shown["password"], "********"):
        elsewhere = shown | {"hosts": [["93.184.216.35", 9092]], "password": password}
        refused = kept.ask("PUT", where, "member", json={"kafka_configuration": elsewhere}, headers=etag)
        assert refused.status_code == 422, refused.text
        assert "kafka_configuration.password" in [each["path"] for each in refused.json()["problems"]]
    other = kept.ask("PUT", where, "member", json={"kafka_configuration": shown | {"topics": ["wards"]}}, headers=etag)
    assert (other.status_code, "the topics have changed" in other.text) == (422, True)
    same = kept.ask("PUT", where, "member", json={"kafka_configuration": shown | {"connect_timeout": 9}}, headers=etag)
    assert same.status_code == 200, same.text


def test_secrets_of_a_project_are_its_admins_matter(api: Api) -> None:
    new = NewToken(name="head", role="admin", project=api.project)
    api.tokens["head"] = tokens.create_token(api.desk, system_actor("test"), new).token
    for name in ("kafka", "water/kafka"):
        assert api.ask("PUT", f"/secrets/{name}", json={"value": CANARY}).status_code == 200
    assert api.ask("PUT", "/secrets/health/kafka", "head", json={"value": CANARY}).json() == {"name": "health/kafka"}
    for name in ("kafka", "water/kafka", "nowhere/kafka"):
        assert api.ask("PUT", f"/secrets/{name}", "head", json={"value": "other"}).status_code == 403
        assert api.ask("DELETE", f"/secrets/{name}", "head").status_code == 403
    assert api.ask("GET", "/secrets", "head").json() == [{"name": "health/kafka"}]
    assert len(api.ask("GET", "/secrets").json()) == 3
    assert api.ask("GET", "/secrets", "member").status_code == 403
    unknown = api.ask("PUT", "/secrets/nowhere/kafka", json={"value": CANARY})
    assert (unknown.status_code, "no such project" in unknown.text) == (422, True)
    assert api.ask("PUT", "/secrets/health/", json={"value": CANARY}).status_code == 422
    assert api.ask("DELETE", "/secrets/health/kafka", "head").status_code == 204
