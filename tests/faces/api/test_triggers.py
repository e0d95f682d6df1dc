"""Triggers over the API: made, changed, switched, deleted, tried and previewed; secrets go in and never come out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from penstock.core.net.guard import AddressGuard
from penstock.kafka.client import KafkaClientConfig
from penstock.kafka.embedded import EmbeddedCluster
from penstock.kafka.producer import NewRecord, produce
from penstock.service.connection_test import try_connection
from penstock.service.operations.trigger_lookup import compiled
from penstock.service.secrets import SecretBox
from penstock.store import MirrorRow
from tests.behaviour.store.letters import letter
from tests.faces.api.conftest import Api
from tests.faces.api.work import KAFKA, make_work
from tests.support.kafka import KafkaBroker

MASK = "********"
_LOG_IN = {"sasl": "plain", "username": "ada", "password": "sesame-5511"}
_PEM = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----"


def _new(**more: Any) -> dict[str, Any]:
    return {"workflow": "health/labs", "name": "more", "kafka_configuration": KAFKA | more}


def _made(api: Api, **more: Any) -> dict[str, Any]:
    answer = api.ask("POST", "/triggers", "member", json=_new(**more))
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_a_trigger_is_made_wired_changed_and_deleted(api: Api) -> None:
    answer = api.ask("POST", "/triggers", "operator", json=_new() | {"rate": "5/s", "comment": "new"})
    made = answer.json()
    assert (answer.status_code, made["enabled"], made["options"]) == (201, False, {"rate": 5.0})
    assert made["group_id"].startswith("lightning-")
    workflow = api.ask("GET", f"/workflows/{api.work.workflow}").json()
    assert workflow["triggers"] == ["kafka", "more"]
    assert {"source": "more", "target": "check", "when": "always"} in workflow["edges"]
    path, etag = f"/triggers/{made['id']}", answer.headers["etag"]
    change = {"kafka_configuration": KAFKA | {"topics": ["labs", "wards"]}, "accept": "any"}
    assert api.ask("PUT", path, json=change).status_code == 428
    changed = api.ask("PUT", path, json=change, headers={"If-Match": etag})
    assert (changed.json()["topics"], changed.json()["group_id"]) == ("labs, wards", made["group_id"])
    stale = api.ask("PUT", path, json=change, headers={"If-Match": etag})
    assert (stale.status_code, stale.json()["code"]) == (412, "changed")
    assert api.ask("DELETE", path, headers={"If-Match": etag}).status_code == 412
    assert api.ask("DELETE", path, headers={"If-Match": changed.headers["etag"]}).status_code == 204
    assert api.ask("GET", path).status_code == 404
    left = api.ask("GET", f"/workflows/{api.work.workflow}").json()
    assert (left["triggers"], {edge["source"] for edge in left["edges"]}) == (["kafka"], {"kafka", "check"})
    actions = {row.action for row in api.desk.store.audit.list(limit=10) if row.outcome == "done"}
    assert {"triggers.create", "triggers.replace", "triggers.delete"} <= actions


def test_triggers_that_are_made_and_deleted_at_once_leave_each_other_alone(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has looked at the workflow before another one changed it looks again."""
    first, workflows = _made(api), api.desk.store.workflows
    apply, begun = workflows.apply, []

    def late(*args: Any, **options: Any) -> Any:
        if not begun:
            begun.append(True)
            new = _new() | {"name": "between"}
            assert api.ask("POST", "/triggers", json=new).status_code == 201
            assert api.ask("POST", f"/triggers/{api.work.trigger}/disable").status_code == 200
        return apply(*args, **options)

    monkeypatch.setattr(workflows, "apply", late)
    gone = api.ask("DELETE", f"/triggers/{first['id']}", headers={"If-Match": "*"})
    assert gone.status_code == 204, gone.text
    left = api.ask("GET", f"/workflows/{api.work.workflow}").json()
    assert left["triggers"] == ["between", "kafka"]
    assert {edge["source"] for edge in left["edges"]} >= {"between", "kafka"}
    assert api.ask("GET", f"/triggers/{api.work.trigger}").json()["enabled"] is False


def test_names_steps_and_groups_are_checked(api: Api) -> None:
    assert api.ask("POST", "/triggers", json=_new() | {"name": "kafka"}).status_code == 409
    assert api.ask("POST", "/triggers", json=_new() | {"name": "check"}).status_code == 409
    assert api.ask("POST", "/triggers", json=_new() | {"steps": ["nowhere"]}).status_code == 422
    taken = api.ask("POST", "/triggers", json=_new() | {"group_id": "lightning-labs"})
    assert (taken.status_code, "is that of trigger" in taken.text) == (422, True)
    assert api.ask("POST", "/triggers", json=_new() | {"group_id": "g", "enabled": True}).status_code == 422
    assert [item["name"] for item in api.ask("GET", "/triggers").json()["items"]] == ["kafka"]
    made = api.ask("POST", "/triggers", json=_new() | {"steps": ["send"], "group_id": "mine"}).json()
    edges = api.ask("GET", f"/workflows/{api.work.workflow}").json()["edges"]
    assert [edge["target"] for edge in edges if edge["source"] == "more"] == ["send"]
    assert made["group_id"] == "mine"


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"hosts": [["localhost", "70000"]]}, "hosts"),
        ({"hosts": [], "hosts_string": "a:1, b"}, "hosts_string"),
        ({"topics": ["a", "a"]}, "topics"),
        ({"initial_offset_reset_policy": "123456789012"}, "initial_offset_reset_policy"),
        ({"connect_timeout": 0}, "connect_timeout"),
        ({"sasl": "kerberos"}, "sasl"),
        ({"sasl": "plain", "username": "u"}, "password"),
        ({"password": "sesame-5511"}, "password"),
        ({"sasl": "plain", "username": "u", "password": "${HOME}"}, "password"),
        ({"sasl": "plain", "username": "u", "password": {"$secret": "x"}}, "password"),
        ({"sasl": "plain", "username": "u", "password": MASK}, "password"),
        ({"ssl": True, "ssl_ca": "/etc/passwd"}, "ssl_ca"),
        ({"properties": {"sasl.oauthbearer.token.endpoint.url": "http://x"}}, "properties"),
        ({"properties": {"client.id": {"a": 1}}}, "properties.client.id"),
        ({"hosts": [["10.0.0.7", "9092"]]}, "hosts"),
        ({"hosts": [["169.254.169.254", "80"]]}, "hosts"),
        ({"hosts": [["0x7f000001", "80"]]}, "hosts"),
        ({"hosts": [["localhost", str(port)] for port in range(1, 30)]}, "hosts"),
        ({"unheard_of": 1}, "unheard_of"),
    ],
)
def test_each_mistake_is_told_at_its_field(shared_api: Api, given: dict[str, Any], field: str) -> None:
    answer = shared_api.ask("POST", "/triggers", "member", json=_new(**given))
    assert answer.status_code == 422
    assert f"kafka_configuration.{field}" in [problem["path"] for problem in answer.json()["problems"]]
    assert "sesame-5511" not in answer.text
    assert len(shared_api.desk.store.triggers.list(workflow_id=shared_api.work.workflow)) == 1


def test_secrets_stay_and_are_never_shown(api: Api) -> None:
    made = _made(api, **_LOG_IN, properties={"ssl.key.password": "sesame-5511", "client.id": "c"})
    shown = made["kafka_configuration"]
    assert (shown["username"], shown["password"], shown["properties"]) == (
        MASK,
        MASK,
        {"ssl.key.password": MASK, "client.id": "c"},
    )
    path, match = f"/triggers/{made['id']}", {"If-Match": "*"}
    back = {name: value for name, value in shown.items() if name != "group_id"}
    assert api.ask("PUT", path, "member", json={"kafka_configuration": back}, headers=match).status_code == 200
    left_out = {name: value for name, value in back.items() if name not in ("username", "password")}
    assert api.ask("PUT", path, "member", json={"kafka_configuration": left_out}, headers=match).status_code == 200
    row = api.desk.store.triggers.get(made["id"])
    assert row is not None
    box = SecretBox.of(api.desk.store, api.desk.settings)
    kept = box.resolved(row.kafka_configuration).value
    assert (kept["username"], kept["password"]) == ("ada", "sesame-5511")
    assert kept["properties"]["ssl.key.password"] == "sesame-5511"
    assert "sesame" not in str(row.kafka_configuration)
    without = back | {"sasl": None, "username": None, "password": None, "properties": None}
    assert api.ask("PUT", path, "member", json={"kafka_configuration": without}, headers=match).status_code == 200
    written = [(row.before or "") + (row.after or "") for row in api.desk.store.audit.list(limit=50)]
    assert "sesame" not in "".join(written) + api.ask("GET", path).text


@pytest.mark.parametrize(
    "elsewhere",
    [
        {"hosts": [["localhost", "9"], ["example.org", "9092"]]},
        {"ssl": True},
        {"sasl": "scram_sha_256"},
        {"properties": {"enable.ssl.certificate.verification": False}},
        {"ssl_ca": _PEM},
    ],
)
def test_a_kept_secret_is_not_led_elsewhere(shared_api: Api, elsewhere: dict[str, Any]) -> None:
    new = _new(**_LOG_IN) | {"name": f"more-{next(iter(elsewhere))}"}
    made = shared_api.ask("POST", "/triggers", "member", json=new).json()
    change = {"kafka_configuration": KAFKA | {"sasl": "plain"} | elsewhere}
    for method, path in (("PUT", ""), ("POST", "/test"), ("POST", "/preview")):
        answer = shared_api.ask(
            method, f"/triggers/{made['id']}{path}", "member", json=change, headers={"If-Match": "*"}
        )
        problems = {problem["path"]: problem["message"] for problem in answer.json()["problems"]}
        assert answer.status_code == 422
        assert "where it is sent to has changed" in problems["kafka_configuration.password"]
    shared_api.ask("DELETE", f"/triggers/{made['id']}", headers={"If-Match": "*"})


def test_triggers_of_others_are_not_there(api: Api) -> None:
    theirs = make_work(api.desk.store, api.other_project, "pumps")
    assert [item["id"] for item in api.ask("GET", "/triggers", "member").json()["items"]] == [api.work.trigger]
    change = {"kafka_configuration": KAFKA}
    for method, path in (
        ("GET", ""),
        ("PUT", ""),
        ("DELETE", ""),
        ("POST", "/enable"),
        ("POST", "/disable"),
        ("POST", "/test"),
        ("POST", "/preview"),
    ):
        sent = {} if method == "GET" else {"json": change} if path in ("", "/test", "/preview") else {}
        answer = api.ask(method, f"/triggers/{theirs.trigger}{path}", "member", headers={"If-Match": "*"}, **sent)
        assert answer.status_code == 404, (method, path, answer.text)
    for named in (theirs.workflow, "water/pumps", "pumps"):
        assert api.ask("POST", "/triggers", "member", json=_new() | {"workflow": named}).status_code == 404


def test_the_pipeline_of_a_trigger_belongs_to_its_project(api: Api) -> None:
    name = api.ask("GET", f"/triggers/{api.work.trigger}", "member").json()["pipeline"]
    api.desk.store.pipelines.put_state(name, "i-1", "running")
    api.desk.store.dead_letters.record([letter(77, pipeline=name)])
    api.desk.forget()
    assert [item["name"] for item in api.ask("GET", "/pipelines", "member").json()["items"]] == [name]
    assert len(api.ask("GET", f"/dead-letters?pipeline={name}", "member").json()["items"]) == 1
    assert api.ask("POST", f"/pipelines/{name}/pause", "member").status_code == 200
    assert api.ask("GET", f"/pipelines/{name}", "stranger").status_code == 404
    assert api.ask("GET", f"/dead-letters?pipeline={name}", "stranger").status_code == 404


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(1) as found:
        found.create_topic("labs")
        yield found


def _hosts(cluster: EmbeddedCluster) -> list[list[str]]:
    return [place.split(":") for place in cluster.bootstrap.split(",")]


@pytest.fixture
def at_home(make_client: Callable[..., Api]) -> Api:
    """Where callers may name this machine."""
    return make_client(PENSTOCK_HTTP_AUTH="local", PENSTOCK_API_NETWORKS="127.0.0.0/8,localhost")


def test_each_step_of_a_connection_is_told_apart(at_home: Api, cluster: EmbeddedCluster) -> None:
    good = at_home.ask("POST", "/triggers/test?timeout=3", "operator", json=_new(hosts=_hosts(cluster))).json()
    steps = {step["step"]: step["ok"] for step in good["steps"]}
    assert good["ok"]
    assert steps == {
        "config": True,
        "dns": True,
        "tcp": True,
        "metadata": True,
        "topic": True,
        "group": True,
    } | dict.fromkeys(("tls", "sasl", "registry"))
    absent = at_home.ask("POST", "/triggers/test", json=_new(hosts=_hosts(cluster), topics=["nowhere"])).json()
    assert [step["target"] for step in absent["steps"] if step["ok"] is False] == ["nowhere"]
    closed = at_home.ask("POST", f"/triggers/{at_home.work.trigger}/test", "operator").json()
    failed = [step for step in closed["steps"] if step["ok"] is False]
    assert {step["step"] for step in failed} == {"tcp"}
    unknown = at_home.ask("POST", "/triggers/test", json=_new(hosts=[["no.such.host.invalid", "1"]]))
    assert (unknown.status_code, unknown.json()["problems"][0]["path"]) == (422, "kafka_configuration.hosts")


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_a_wrong_password_is_told_and_a_corrected_one_logs_in(
    at_home: Api, secure_kafka: KafkaBroker, listener: str
) -> None:
    topic = secure_kafka.create_topic(f"labs-{listener.lower()}")
    place = secure_kafka.bootstrap_for(listener).split(":")
    log_in = {"sasl": "scram_sha_512", "username": "app", "password": "wrong-one"}
    secured: dict[str, Any] = {"ssl": listener.endswith("SSL")}
    assert secure_kafka.security is not None
    if secured["ssl"]:
        secured["ssl_ca"] = secure_kafka.security.certificates.ca_file.read_text()
    made = at_home.ask("POST", "/triggers", json=_new(hosts=[place], topics=[topic], **log_in, **secured)).json()
    path = f"/triggers/{made['id']}"
    wrong = at_home.ask("POST", f"{path}/test", "operator").json()
    steps = {step["step"]: step for step in wrong["steps"]}
    assert (wrong["ok"], steps["tcp"]["ok"], steps["sasl"]["ok"]) == (False, True, False)
    assert (steps["tls"]["ok"], steps["metadata"]["ok"]) == (True if secured["ssl"] else None, None)
    assert "wrong-one" not in str(wrong)
    change = {"kafka_configuration": made["kafka_configuration"] | {"password": "s3cret-app"}}
    del change["kafka_configuration"]["group_id"]
    right = at_home.ask("POST", f"{path}/test", "operator", json=change).json()
    assert right["ok"], right
    assert {step["step"]: step["ok"] for step in right["steps"]}["sasl"]
    saved = at_home.ask("PUT", path, "operator", json=change, headers={"If-Match": "*"})
    assert saved.status_code == 200
    assert at_home.ask("POST", f"{path}/test", "operator").json()["ok"]


def test_nothing_is_connected_to_that_callers_may_not_name(api: Api, cluster: EmbeddedCluster) -> None:
    row = api.desk.store.triggers.get(api.work.trigger)
    workflow = api.desk.store.workflows.by_id(api.work.workflow)
    assert row is not None
    assert workflow is not None
    row.kafka_configuration["hosts"] = _hosts(cluster)
    spec = compiled(api.desk, row, workflow)
    report = try_connection(spec, AddressGuard(), 1.0)
    assert [(step.step, step.ok) for step in report.steps if step.ok is not None] == [("dns", False)]
    assert "not a public address" in report.steps[0].detail
    # The address is let through, the one that the broker gives for itself is not.
    named = spec.source.config.connection.model_copy(update={"bootstrap": f"localhost:{_hosts(cluster)[0][1]}"})
    source = spec.source.model_copy(update={"config": spec.source.config.model_copy(update={"connection": named})})
    report = try_connection(spec.model_copy(update={"source": source}), AddressGuard(("localhost",)), 3.0)
    assert {step.step for step in report.steps if step.ok is False} == {"advertised"}
    assert all(step.ok is None for step in report.steps if step.step in ("topic", "group"))


def test_the_last_messages_are_shown_as_they_would_be_taken_in(at_home: Api, cluster: EmbeddedCluster) -> None:
    row = at_home.desk.store.triggers.get(at_home.work.trigger)
    workflow = at_home.desk.store.workflows.by_id(at_home.work.workflow)
    assert row is not None
    assert workflow is not None
    row.kafka_configuration["hosts"] = _hosts(cluster)
    client = KafkaClientConfig.of(compiled(at_home.desk, row, workflow).source.config.connection)
    values = [b'{"patient": "p-1", "configuration": 1}', b"[1]", None]
    produce(client, [NewRecord("labs", value, f"k{n}".encode(), []) for n, value in enumerate(values)])
    path, draft = "/triggers/preview?last=9", _new(hosts=_hosts(cluster))
    found = at_home.ask("POST", path, "operator", json=draft).json()
    by_key = {each["request"]["key"]: each for each in found}
    assert (by_key["k0"]["outcome"], by_key["k0"]["body"]) == ("work order", {"patient": "p-1"})
    assert (by_key["k1"]["outcome"], by_key["k2"]["outcome"]) == ("dead letter", "dead letter")
    assert "an array" in by_key["k1"]["why"]
    wrapped = at_home.ask("POST", path, json=draft | {"accept": "any", "tombstones": "skip"}).json()
    by_key = {each["request"]["key"]: each for each in wrapped}
    assert by_key["k1"]["body"] == {"value": [1]}
    assert by_key["k2"]["outcome"] == "skipped"


def test_a_trigger_is_switched(at_home: Api, cluster: EmbeddedCluster) -> None:
    change = {"kafka_configuration": KAFKA | {"hosts": _hosts(cluster)}}
    path = f"/triggers/{at_home.work.trigger}"
    assert at_home.ask("PUT", path, "operator", json=change, headers={"If-Match": "*"}).status_code == 200
    enabled = at_home.ask("POST", f"{path}/enable", "operator")
    assert (enabled.status_code, enabled.json()["trigger"]["enabled"]) == (200, True)
    disabled = at_home.ask("POST", f"{path}/disable", "operator").json()
    assert (disabled["enabled"], disabled["state"]) == (False, "disabled")
    wrong = at_home.ask("POST", f"{path}/enable", "operator", json={"resume": "some day"})
    assert (wrong.status_code, "--resume" in wrong.text) == (422, False)
    # The store remembers offsets that the broker has forgotten.
    at_home.desk.store.offsets.mirror(
        [MirrorRow(group="lightning-labs", topic="labs", topic_id="t", partition=0, offset=1)]
    )
    gone = at_home.ask("POST", f"{path}/enable", "operator")
    assert (gone.status_code, gone.json()["code"]) == (409, "offsets_gone")
    assert [choice.partition(":")[0] for choice in gone.json()["allowed"]] == [
        "committed",
        "earliest",
        "latest",
        "TIME",
    ]
    assert at_home.ask("GET", path).json()["enabled"] is False
