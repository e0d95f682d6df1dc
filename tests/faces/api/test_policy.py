"""What is checked is what will run: validated models with their secrets in place, for every kind of document."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.config.loading import Loaded
from penstock.config.spec import PipelineSpec
from penstock.service.managed_running import ManagedRunning
from tests.faces.api.conftest import DOCUMENT, Api
from tests.faces.api.work import KAFKA

CANARY = "canary-mellon-4471"
PUBLIC = DOCUMENT.replace("localhost:9092", "93.184.216.34:9092")
PEM = f"-----BEGIN PRIVATE KEY-----\n{CANARY}\n-----END PRIVATE KEY-----"
COLUMNS = "table: t, columns: {a: id}"


def _with_action(action: str, text: str = PUBLIC) -> str:
    return text.replace("{type: hello_world}", action)


def _flow(step: str) -> str:
    return f"kind: workflow\nproject: health\nname: visits\nsteps: [{{name: s, {step}}}]\n"


def _keep(api: Api, value: str, name: str = "health/x") -> None:
    assert api.ask("PUT", f"/secrets/{name}", json={"value": value}).status_code == 200


def _problems(api: Api, path: str, text: str, role: str = "operator") -> list[dict[str, Any]]:
    report = api.ask("POST", f"{path}/validate", role, json={"text": text}).json()
    assert report["valid"] is not bool(report["problems"]), report
    found: list[dict[str, Any]] = report["problems"]
    return found


class Taker:
    """What an instance would run, and why it would not."""

    def __init__(self) -> None:
        self.running: dict[str, PipelineSpec] = {}
        self.refused: dict[str, str | None] = {}

    def take(self, spec: PipelineSpec, loaded: Loaded) -> None:
        self.running[spec.name] = spec

    def drop(self, name: str) -> None:
        self.running.pop(name)

    def refuse(self, name: str, why: str | None) -> None:
        self.refused[name] = why


def _taken_in(api: Api) -> Taker:
    taker = Taker()
    ManagedRunning(api.desk.store, api.desk.settings, taker, list, api.desk.named_secrets).look()
    return taker


# -- H1: quoted truth values, and hosts hidden behind commas -------------------------------

_HIDDEN = (
    "http://1.1.1.1,x@127.0.0.1:8080/latest/meta-data/iam",
    "http://1.1.1.1;x@127.0.0.1:8080/",
    "http://user@127.0.0.1/",
    "http://169.254.169.254/latest",
    "http://[::ffff:169.254.169.254]/",
    "http://2130706433/",
    "http://0x7f.1/",
)


@pytest.mark.parametrize("written", ['"true"', '"yes"', "'1'", "1", '"on"'])
def test_a_truth_value_in_quotes_is_none(shared_api: Api, written: str) -> None:
    hook = f"{{type: webhook, config: {{url: 'https://93.184.216.34/', allow_private: {written}}}}}"
    step = f"http: 'https://93.184.216.34/', config: {{allow_private: {written}}}"
    for path, text, at in (
        ("/pipelines", _with_action(hook), "action.config.allow_private"),
        ("/workflows", _flow(step), "steps[0].config.allow_private"),
    ):
        problems = _problems(shared_api, path, text)
        assert at in [problem["path"] for problem in problems], problems
        assert shared_api.ask("POST", path, "operator", json={"text": text}).status_code == 422


@pytest.mark.parametrize("url", _HIDDEN)
def test_one_url_is_one_url(shared_api: Api, url: str) -> None:
    for path, text, at in (
        ("/pipelines", _with_action(f"{{type: webhook, config: {{url: '{url}'}}}}"), "action.config.url"),
        ("/workflows", _flow(f"http: '{url}'"), "steps[0].http"),
        ("/workflows", _flow(f"action: webhook, config: {{url: '{url}'}}"), "steps[0].config.url"),
    ):
        problems = _problems(shared_api, path, text)
        assert at in [problem["path"] for problem in problems], problems


def test_the_attack_of_the_review_is_refused_in_every_part(shared_api: Api) -> None:
    step = "http: 'http://1.1.1.1,x@127.0.0.1:9/latest', config: {method: GET, allow_private: \"true\"}"
    places = {problem["path"] for problem in _problems(shared_api, "/workflows", _flow(step))}
    assert places >= {"steps[0].http", "steps[0].config.allow_private"}


# -- H2: what a secret says ----------------------------------------------------------------


def test_what_a_secret_says_is_never_expanded(api: Api, tmp_path: Path) -> None:
    file = tmp_path / "secret.key"
    file.write_text("CONTENT-OF-A-FILE-ON-THE-SERVER")
    for number, value in enumerate((f"${{file:{file}}}", "$HOME", "${PATH}", "pa\\ss${word", "back\\slash\\")):
        _keep(api, value, f"health/x{number}")
        headers = f"headers: {{x-a: {{$ref: health/x{number}}}}}"
        hook = f"{{type: webhook, config: {{url: 'https://93.184.216.34/', {headers}}}}}"
        text = _with_action(hook).replace("kept", f"kept{number}")
        made = api.ask("POST", "/pipelines", "member", json={"text": text, "project": api.project})
        assert made.status_code == 201, made.text
        spec = _taken_in(api).running[f"kept{number}"]
        assert spec.action.config["headers"] == {"x-a": value}


@pytest.mark.parametrize(
    ("action", "options", "at"),
    [
        ("{type: hello_world}", "options: {dead_letter: {file: REF}}", "options.dead_letter.file"),
        ("{type: hello_world}", "options: {failed_events_dir: REF}", "options.failed_events_dir"),
        (
            "{type: webhook, config: {url: 'https://93.184.216.34/', allow_private: REF}}",
            "",
            "action.config.allow_private",
        ),
        ("{type: REF}", "", "action.type"),
        ("{type: hello_world}", "filters: [{type: REF}]", "filters[0].type"),
        ("{type: file, config: {path: REF}}", "", "action.config.path"),
        ("{type: command, config: {argv: [REF]}}", "", "action.config.argv[0]"),
        ("{type: python, config: {callable: REF}}", "", "action.config.callable"),
        ("{type: kafka, config: {topic: t, connection: {bootstrap: REF}}}", "", "action.config.connection.bootstrap"),
        ("{type: hello_world}", "name2: REF", "name2"),
        (
            "{type: hello_world}",
            "datahub: {server: 'https://93.184.216.34', client_key_path: REF}",
            "datahub.client_key_path",
        ),
    ],
)
def test_references_stand_at_fields_that_are_declared_secret_and_nowhere_else(
    api: Api, action: str, options: str, at: str
) -> None:
    _keep(api, CANARY)
    text = (_with_action(action) + options + "\n").replace("REF", "{$ref: health/x}")
    problems = [problem for problem in _problems(api, "/pipelines", text) if problem["path"] == at]
    assert "the reference of a secret is not taken here" in [problem["message"] for problem in problems], problems


@pytest.mark.parametrize("key", ["bootstrap", "schema_registry_url"])
def test_a_cluster_is_no_secret(api: Api, key: str) -> None:
    _keep(api, "10.0.0.1:9092")
    text = PUBLIC.replace('bootstrap: "93.184.216.34:9092"', f"{key}: {{$ref: health/x}}")
    problems = _problems(api, "/pipelines", text)
    assert any(problem["path"].endswith(key) and "reference" in problem["message"] for problem in problems)


@pytest.mark.parametrize("property_name", ["security.protocol", "client.id", "ssl.ca.location", "bootstrap.servers"])
def test_client_properties_that_are_no_secrets_are_no_references(api: Api, property_name: str) -> None:
    _keep(api, CANARY)
    given = f'"93.184.216.34:9092", consumer_config: {{{property_name}: {{$ref: health/x}}}}'
    problems = _problems(api, "/pipelines", PUBLIC.replace('"93.184.216.34:9092"', given))
    assert any(property_name in problem["path"] for problem in problems), problems


@pytest.mark.parametrize(
    ("value", "action"),
    [
        ("http://169.254.169.254/latest/{canary}", "webhook, config: {url: REF}"),
        ("http://1.1.1.1,x@127.0.0.1/{canary}", "webhook, config: {url: REF}"),
        ("http://10.0.0.1/{canary}", "teams, config: {webhook_url: REF}"),
        ("json://10.0.0.1/{canary}", "notify, config: {urls: REF}"),
        ("rsyslog://127.0.0.1/{canary}", "notify, config: {urls: [REF]}"),
        ("mailto://user:{canary}@gmail.com?smtp=10.0.0.1", "notify, config: {urls: [REF]}"),
        ("postgresql://u:{canary}@10.0.0.1/db", f"table, config: {{url: REF, {COLUMNS}}}"),
        ("sqlite:////etc/{canary}.db", f"table, config: {{url: REF, {COLUMNS}}}"),
        ("postgresql://u:{canary}@93.184.216.34/db?host=10.0.0.1", f"table, config: {{url: REF, {COLUMNS}}}"),
    ],
)
def test_what_a_secret_leads_to_is_checked_and_not_repeated(api: Api, value: str, action: str) -> None:
    _keep(api, value.replace("{canary}", CANARY))
    pipeline = _with_action(f"{{type: {action}}}".replace("REF", "{$ref: health/x}"))
    step = f"action: {action}".replace("REF", "{$ref: health/x}")
    for path, text in (("/pipelines", pipeline), ("/workflows", _flow(step))):
        answer = api.ask(
            "POST",
            path,
            "member",
            json={"text": text, "project": api.project} if path == "/pipelines" else {"text": text},
        )
        assert answer.status_code == 422, answer.text
        assert CANARY not in answer.text
        assert not any(host in answer.text for host in ("169.254.169.254", "127.0.0.1", "10.0.0.1")), answer.text


def test_a_secret_that_is_changed_later_is_checked_when_it_is_taken_in(api: Api) -> None:
    _keep(api, "https://93.184.216.34/hook")
    text = _with_action("{type: webhook, config: {url: {$ref: health/x}}}")
    made = api.ask("POST", "/pipelines", "member", json={"text": text, "project": api.project})
    assert made.status_code == 201, made.text
    assert _taken_in(api).running["kept"].action.config["url"] == "https://93.184.216.34/hook"
    _keep(api, f"http://169.254.169.254/{CANARY}")
    taken = _taken_in(api)
    assert taken.running == {}
    why = taken.refused["kept"] or ""
    assert "what the secret 'health/x' says: is not a public address" in why
    assert CANARY not in why
    assert "169.254" not in why


@pytest.mark.parametrize("value", ["/etc/passwd", "~/key.pem", "relative.pem"])
def test_a_key_in_a_secret_is_no_path(api: Api, value: str) -> None:
    _keep(api, value)
    kafka = KAFKA | {"hosts": [["93.184.216.34", 9092]], "ssl": True, "ssl_key": {"$ref": "health/x"}}
    body = {"workflow": "health/labs", "name": "more", "kafka_configuration": kafka}
    refused = api.ask("POST", "/triggers", "member", json=body)
    assert (refused.status_code, "a file is not taken" in refused.text, value in refused.text) == (422, True, False)
    _keep(api, PEM)
    made = api.ask("POST", "/triggers", "member", json=body)
    assert made.status_code == 201, made.text
    assert CANARY not in made.text
    _keep(api, value)
    enabled = api.ask("POST", f"/triggers/{made.json()['id']}/enable", "member")
    assert (enabled.status_code, "holds no PEM text" in enabled.text) == (422, True)


# -- the canary in every place where references stand --------------------------------------

_PLACES = {
    "header": (CANARY, "webhook, config: {url: 'https://93.184.216.34/', headers: {x-plain: REF}}"),
    "webhook": (f"https://93.184.216.34/{CANARY}", "webhook, config: {url: REF}"),
    "teams": (f"https://93.184.216.34/{CANARY}", "teams, config: {webhook_url: REF}"),
    "slack": (
        CANARY,
        "slack, config: {bot_token: REF, signing_secret: REF, default_channel: c, api_url: 'https://93.184.216.34/'}",
    ),
    "notify": (f"json://93.184.216.34/{CANARY}", "notify, config: {urls: [REF]}"),
    "notify, one": (f"json://93.184.216.34/{CANARY}", "notify, config: {urls: REF}"),
    "table": (f"postgresql://u:{CANARY}@93.184.216.34/db", f"table, config: {{url: REF, {COLUMNS}}}"),
    "processor": (
        f"mysql://u:{CANARY}@93.184.216.34/db",
        "processor, config: {url: REF, topics: {orders: {processor: metadata-change, table: t}}}",
    ),
}


@pytest.mark.parametrize("place", _PLACES)
def test_a_secret_is_told_nowhere_wherever_it_may_stand(api: Api, place: str) -> None:
    value, action = _PLACES[place]
    _keep(api, value)
    action = action.replace("REF", "{$ref: health/x}")
    text = _with_action(f"{{type: {action}}}")
    told = [api.ask("POST", "/pipelines/validate", "member", json={"text": text})]
    assert told[0].json()["valid"], told[0].text
    assert "$ref" in json.dumps(told[0].json()["spec"])
    told.append(api.ask("POST", "/pipelines", "member", json={"text": text, "project": api.project}))
    assert told[-1].status_code == 201, told[-1].text
    told += [api.ask("GET", path) for path in ("/pipelines/kept", "/pipelines/kept/versions/1", "/audit", "/pipelines")]
    if place != "processor":
        told.append(api.ask("POST", "/workflows/validate", "member", json={"text": _flow(f"action: {action}")}))
        assert told[-1].json()["valid"], told[-1].text
    wrong = text + "options: {concurrency: many}\n"
    told.append(api.ask("POST", "/pipelines/validate", "member", json={"text": wrong}))
    for answer in told:
        assert CANARY not in answer.text
    spec = _taken_in(api).running["kept"]
    assert CANARY in json.dumps(spec.action.config)
    assert CANARY not in json.dumps(spec.shown()), "as the store keeps it"
    assert any(CANARY in secret for secret in spec.secrets), "logs know to hide it"


@pytest.mark.parametrize(
    "name", ["sasl.password", "sasl.username", "sasl.jaas.config", "ssl.key.pem", "ssl.key.password"]
)
def test_credentials_of_a_cluster_are_references(api: Api, name: str) -> None:
    _keep(api, CANARY)
    given = f'"93.184.216.34:9092", consumer_config: {{{name}: {{$ref: health/x}}}}'
    problems = _problems(api, "/pipelines", PUBLIC.replace('"93.184.216.34:9092"', given))
    assert not [problem for problem in problems if "reference" in problem["message"]], problems
    assert CANARY not in json.dumps(problems)


def test_the_address_of_a_step_is_a_reference(api: Api) -> None:
    _keep(api, f"https://93.184.216.34/{CANARY}")
    made = api.ask("POST", "/workflows", "member", json={"text": _flow("http: {$ref: health/x}")})
    assert made.status_code == 201, made.text
    assert CANARY not in made.text
    row = api.desk.store.workflows.by_id(made.json()["id"])
    assert row is not None
    snapshot = api.desk.store.workflows.snapshot(row.snapshot_id or "")
    assert snapshot is not None
    assert snapshot.definition["submitted"] == ["s"], "instances check the step again when it is run"


# -- M9 ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "word"),
    [
        ("{type: executor}", "lists import"),
        ("{type: work_order, config: {workflow: w, alternate_storage: /tmp/x}}", "lists file"),
        ("{type: kafka, config: {topic: t, connection: {}}}", "api.networks"),
        ("{type: slack, config: {default_channel: c, api_url: 'http://10.0.0.1/'}}", "api.networks"),
    ],
)
def test_gaps_of_the_former_list_of_key_names_are_closed(
    make_client: Callable[..., Api], action: str, word: str
) -> None:
    api = make_client(PENSTOCK_HTTP_AUTH="local")
    problems = _problems(api, "/pipelines", _with_action(action))
    assert any(word in (problem["hint"] or "") for problem in problems), problems


def test_a_document_that_names_no_cluster_means_this_machine_and_is_refused(make_client: Callable[..., Api]) -> None:
    api = make_client(PENSTOCK_HTTP_AUTH="local")
    text = PUBLIC.replace('    connection: {bootstrap: "93.184.216.34:9092"}\n', "")
    [problem] = _problems(api, "/pipelines", text)
    assert "is not a public address" in problem["message"]
    assert problem["path"] == "source.config.connection.bootstrap"


# -- api.networks --------------------------------------------------------------------------


def test_private_networks_are_closed_and_the_refusal_says_how_to_open_them(make_client: Callable[..., Api]) -> None:
    api = make_client(PENSTOCK_HTTP_AUTH="local", PENSTOCK_API_NETWORKS="10.1.0.0/16")
    for url, is_open in (("http://10.1.2.3/", True), ("http://10.2.0.1/", False), ("http://127.0.0.1/", False)):
        problems = _problems(api, "/pipelines", _with_action(f"{{type: webhook, config: {{url: '{url}'}}}}"))
        assert bool(problems) is not is_open, url
        assert all("api.networks" in (problem["hint"] or "") for problem in problems)


def test_an_instance_opens_its_networks_for_documents_of_the_store(make_client: Callable[..., Api]) -> None:
    api = make_client(PENSTOCK_HTTP_AUTH="local", PENSTOCK_API_NETWORKS="10.1.0.0/16")
    text = _with_action("{type: webhook, config: {url: 'http://10.1.2.3/'}}")
    assert api.ask("POST", "/pipelines", "operator", json={"text": text}).status_code == 201
    assert _taken_in(api).running["kept"].action.config["allow_private"] == ["10.1.0.0/16"]


# -- limits --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "at", "message"),
    [
        ("93.184.216.34:9092", ",".join(["93.184.216.34:9092"] * 21), "bootstrap", "at most 20 hosts are taken"),
        (
            "[orders]",
            f"[{', '.join(f't{n}' for n in range(1_001))}]",
            "topics",
            "1,001 entries, at most 1,000 are taken",
        ),
    ],
)
def test_lists_are_bounded(shared_api: Api, old: str, new: str, at: str, message: str) -> None:
    [problem] = _problems(shared_api, "/pipelines", PUBLIC.replace(old, new))
    assert (problem["path"].rpartition(".")[2], problem["message"]) == (at, message)


def test_a_document_of_fifty_thousand_keys_is_refused_with_the_number(shared_api: Api) -> None:
    text = "\n".join(f"k{n}: 1" for n in range(20_000))
    [problem] = _problems(shared_api, "/pipelines", text)
    assert problem["message"] == "is too large: about 39,999 keys and values, at most 20,000 are taken"
    [problem] = _problems(shared_api, "/pipelines", "\n".join(f"k{n}: 1" for n in range(50_000)))
    assert problem["message"].startswith("is too large: ")
