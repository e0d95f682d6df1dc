"""Pipelines kept in the store: checked, replaced by version, rolled back; what callers may not name."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.behaviour.store.letters import letter
from tests.faces.api.conftest import DOCUMENT, Api

_OTHER = DOCUMENT + "options: {concurrency: 4}\n"


def test_a_document_is_kept_replaced_compared_and_rolled_back(api: Api) -> None:
    made = api.ask("POST", "/pipelines", "operator", json={"text": DOCUMENT})
    assert (made.status_code, made.headers["etag"]) == (201, '"1"')
    assert made.json()["text"] == DOCUMENT
    assert (made.json()["managed"], made.json()["state"]) == (True, "stopped")
    again = api.ask("POST", "/pipelines", "operator", json={"text": DOCUMENT})
    assert (again.status_code, again.json()["code"]) == (409, "taken")

    unsaid = api.ask("PUT", "/pipelines/kept", "operator", json={"text": _OTHER})
    assert (unsaid.status_code, unsaid.json()["code"]) == (428, "precondition_required")
    for stale in ('"7"', '"x"', "nonsense"):
        refused = api.ask("PUT", "/pipelines/kept", "operator", json={"text": _OTHER}, headers={"If-Match": stale})
        assert (refused.status_code, refused.json()["code"]) == (412, "changed")
    assert api.desk.store.managed.get("kept").text == DOCUMENT
    done = api.ask("PUT", "/pipelines/kept", "operator", json={"text": _OTHER}, headers={"If-Match": '"1"'})
    assert (done.status_code, done.headers["etag"]) == (200, '"2"')
    assert api.ask("GET", "/pipelines/kept").headers["etag"] == '"2"'

    versions = api.ask("GET", "/pipelines/kept/versions", "viewer").json()
    assert [(version["version"], version["current"]) for version in versions] == [("2", True), ("1", False)]
    assert api.ask("GET", "/pipelines/kept/versions/1", "viewer").json()["text"] == DOCUMENT
    diff = api.ask("GET", "/pipelines/kept/versions/1/diff/2", "viewer").json()["diff"]
    assert "+options: {concurrency: 4}" in diff
    back = api.ask("POST", "/pipelines/kept/versions/1/rollback", "operator", headers={"If-Match": '"2"'})
    assert (back.status_code, back.json()["text"], back.headers["etag"]) == (200, DOCUMENT, '"3"')
    assert api.ask("DELETE", "/pipelines/kept", "operator", headers={"If-Match": '"2"'}).status_code == 412
    assert api.ask("DELETE", "/pipelines/kept", "operator", headers={"If-Match": '"3"'}).status_code == 204
    assert api.ask("GET", "/pipelines/kept").status_code == 404

    words = [entry["action"].removeprefix("pipelines.") for entry in api.ask("GET", "/audit?limit=7").json()["items"]]
    assert words == ["delete", "delete", "replace", "replace", "replace", "create", "create"]
    entries = api.ask("GET", "/audit?action=pipelines.replace").json()["items"]
    assert [entry["outcome"] for entry in entries] == ["done", "done", "failed"]
    assert (entries[1]["actor"], entries[1]["before"], entries[1]["after"]) == ("token operator", DOCUMENT, _OTHER)


def test_an_object_is_taken_as_well_as_a_text(shared_api: Api) -> None:
    spec = {
        "name": "object",
        "source": {"type": "kafka", "config": {"topics": ["t"]}},
        "action": {"type": "hello_world"},
    }
    made = shared_api.ask("POST", "/pipelines", "operator", json={"spec": spec})
    assert made.status_code == 201, made.text
    assert "name: object" in made.json()["text"]


def test_a_pipeline_in_a_file_is_changed_there(shared_api: Api) -> None:
    text = DOCUMENT.replace("kept", "orders")
    for method, path, sent in (
        ("PUT", "/pipelines/orders", {"json": {"text": text}}),
        ("DELETE", "/pipelines/orders", {}),
        ("POST", "/pipelines/orders/versions/v-orders/rollback", {}),
    ):
        answer = shared_api.ask(method, path, headers={"If-Match": "*"}, **sent)
        assert (answer.status_code, answer.json()["code"]) == (409, "not_managed")
    taken = shared_api.ask("POST", "/pipelines", json={"text": text})
    assert (taken.status_code, taken.json()["code"]) == (409, "taken")
    versions = shared_api.ask("GET", "/pipelines/orders/versions").json()
    assert [version["version"] for version in versions] == ["v-orders"]


def test_only_a_role_that_holds_everywhere_feeds_workflows(shared_api: Api) -> None:
    text = DOCUMENT.replace("kept", "feeds").replace("hello_world}", "work_order, config: {workflow: w}}")
    refused = shared_api.ask("POST", "/pipelines", "member", json={"text": text, "project": shared_api.project})
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert shared_api.desk.store.managed.get("feeds") is None


@pytest.mark.parametrize(
    ("text", "path", "line", "column"),
    [
        ("name: [", "", 1, 8),
        ("", "", 1, 1),
        ("- a\n- b\n", "", 1, 1),
        ("name: a\n---\nname: b\n", "", 3, 1),
        (DOCUMENT + "options: {concurrency: many}\n", "options.concurrency", 8, 11),
        (DOCUMENT + "optoins: {}\n", "optoins", 8, 1),
        (DOCUMENT.replace("hello_world", "helo_world"), "action.type", 7, 10),
        (DOCUMENT.replace("kept", "a/b"), "name", 1, 1),
    ],
)
def test_what_is_wrong_is_told_with_its_place(shared_api: Api, text: str, path: str, line: int, column: int) -> None:
    report = shared_api.ask("POST", "/pipelines/validate", "operator", json={"text": text}).json()
    assert not report["valid"]
    first = report["problems"][0]
    assert (first["path"], first["line"], first["column"]) == (path, line, column)
    refused = shared_api.ask("POST", "/pipelines", json={"text": text})
    assert refused.status_code == 422
    assert refused.json()["problems"][0]["message"] == first["message"]


_FORBIDDEN = [
    ("action: {type: hello_world}", "action: {type: python, config: {callable: 'os:system'}}", "python"),
    ("action: {type: hello_world}", "action: {type: command, config: {argv: [id]}}", "command"),
    ("action: {type: hello_world}", "action: {type: file, config: {path: /tmp/x}}", "file"),
    ("action: {type: hello_world}", "action: {type: 'os.path:join'}", "import"),
    ("action: {type: hello_world}", "action: {type: ./x.py:Action}", "import"),
    ("topics: [orders]", "topics: ['${HOME}']", "env"),
    ("topics: [orders]", "topics: ['$HOME']", "env"),
    ("topics: [orders]", "topics: ['${file:/etc/hostname}']", "env-file"),
    ("action: {type: hello_world}", "action: {type: hello_world}\nfilters: [{type: 'mod:Filter'}]", "import"),
    ("action: {type: hello_world}", "action: {type: hello_world}\ntransform: [{type: python}]", "python"),
    ("action: {type: hello_world}", "action: {type: hello_world}\noptions: {dead_letter: {file: x}}", "file"),
    ("action: {type: hello_world}", "action: {type: hello_world}\noptions: {failed_events_dir: /tmp}", "file"),
    ("action: {type: hello_world}", "action: {type: table, config: {url: 'sqlite:////etc/x.db', table: t}}", "file"),
    ("name: kept", "name: kept\ndialect: wherehows", "import"),
    ("type: kafka", "type: 'my.mod:Source'", "import"),
    (
        "action: {type: hello_world}",
        "action: {type: webhook, config: {url: 'https://example.org', allow_private: true}}",
        "private",
    ),
    (
        "action: {type: hello_world}",
        "action: {type: webhook, config: {url: 'https://example.org', allow_private: [10.0.0.0/8]}}",
        "private",
    ),
    ('{bootstrap: "localhost:9092"}', '{bootstrap: "localhost:9092", allow_private: [0.0.0.0/0]}', "private"),
]


@pytest.mark.parametrize(("old", "new", "word"), _FORBIDDEN, ids=[new[:50] for _, new, _ in _FORBIDDEN])
def test_code_files_and_variables_are_not_taken_from_callers(shared_api: Api, old: str, new: str, word: str) -> None:
    text = DOCUMENT.replace(old, new)
    for role in ("operator", "admin"):
        report = shared_api.ask("POST", "/pipelines/validate", role, json={"text": text}).json()
        assert not report["valid"]
        assert any(f"PENSTOCK_API_ALLOW lists {word}" in (problem["hint"] or "") for problem in report["problems"]), (
            report
        )


def test_admins_may_use_what_the_machine_allows_and_operators_may_not(make_client: Callable[..., Api]) -> None:
    api = make_client(PENSTOCK_HTTP_AUTH="local", PENSTOCK_API_NETWORKS="localhost", PENSTOCK_API_ALLOW="command")
    text = DOCUMENT.replace("hello_world}", "command, config: {argv: [id]}}")
    assert api.ask("POST", "/pipelines/validate", "admin", json={"text": text}).json()["valid"]
    assert not api.ask("POST", "/pipelines/validate", "operator", json={"text": text}).json()["valid"]
    assert api.ask("POST", "/pipelines", "operator", json={"text": text}).status_code == 422
    assert api.ask("POST", "/pipelines", "admin", json={"text": text}).status_code == 201
    # What it was replaced by must be as allowed as what was there.
    other = api.ask("PUT", "/pipelines/kept", "operator", json={"text": text}, headers={"If-Match": "*"})
    assert other.status_code == 422


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("localhost:9092", "10.0.0.7:9092"),
        ("localhost:9092", "169.254.169.254:80,localhost:9092"),
        ("localhost:9092", "2130706433:9092"),
        ('bootstrap: "localhost:9092"', 'bootstrap: "localhost:9092", schema_registry_url: "http://[::1]:8081"'),
        ("hello_world}", "webhook, config: {url: 'http://127.1/'}}"),
        ("hello_world}", "webhook, config: {url: 'http://metadata.localhost./'}}"),
        ("hello_world}", "notify, config: {urls: ['json://192.168.0.1/x']}}"),
        ("hello_world}", "table, config: {url: 'postgresql://10.0.0.1/db', table: t}}"),
        # Drivers find hosts and sockets in other parts of an address, too.
        ("hello_world}", "table, config: {url: 'postgresql://93.184.216.34,10.0.0.1/db', table: t}}"),
        ("hello_world}", "table, config: {url: 'mysql://10.0.0.1/db', table: t}}"),
        ("localhost:9092", "93.184.216.34:9092,10.0.0.1:9092"),
        ("localhost:9092", "10.0.0.1:port"),
        (
            'bootstrap: "localhost:9092"',
            'bootstrap: "localhost:9092", schema_registry_url: "http://93.184.216.34;http://10.0.0.1"',
        ),
    ],
)
def test_addresses_inside_the_house_are_refused(shared_api: Api, old: str, new: str) -> None:
    report = shared_api.ask("POST", "/pipelines/validate", json={"text": DOCUMENT.replace(old, new)}).json()
    assert not report["valid"]
    messages = " ".join(problem["message"] for problem in report["problems"])
    said = ("is not a public address", "has no address", "is wanted", "is written as four", "a host is a name")
    assert any(each in messages for each in said), messages


@pytest.mark.parametrize(
    "setting",
    [
        "consumer_config: {ssl.ca.location: /etc/passwd}",
        "consumer_config: {sasl.oauthbearer.token.endpoint.url: 'http://x'}",
        "consumer_config: {plugin.library.paths: /tmp/x.so}",
        "schema_registry_config: {ssl.ca.location: /etc/passwd}",
    ],
)
def test_client_properties_that_read_files_or_load_code_are_refused(shared_api: Api, setting: str) -> None:
    text = DOCUMENT.replace('bootstrap: "localhost:9092"', f'bootstrap: "localhost:9092", {setting}')
    report = shared_api.ask("POST", "/pipelines/validate", json={"text": text}).json()
    assert any("not taken from API callers" in problem["message"] for problem in report["problems"])


@pytest.mark.parametrize(
    "option",
    ["host=10.0.0.1", "hostaddr=10.0.0.1", "service=x", "passfile=/x", "sslkey=/x", "sslrootcert=/etc/x"],
)
def test_options_of_a_database_that_name_hosts_or_files_are_refused(shared_api: Api, option: str) -> None:
    config = f"{{url: 'postgresql://93.184.216.34/db?{option}', table: t, columns: {{a: id}}}}"
    text = DOCUMENT.replace("hello_world}", f"table, config: {config}}}")
    [problem] = shared_api.ask("POST", "/pipelines/validate", json={"text": text}).json()["problems"]
    assert problem["message"] == f"not taken from API callers: {option.partition('=')[0]}"
    allowed = text.replace(option, "sslmode=verify-full&sslrootcert=system")
    assert shared_api.ask("POST", "/pipelines/validate", json={"text": allowed}).json()["valid"]


@pytest.mark.parametrize("address", ["postgresql:///db", "mysql:///db"])
def test_sockets_of_the_machine_are_no_databases_for_callers(make_client: Callable[..., Api], address: str) -> None:
    api = make_client(PENSTOCK_HTTP_AUTH="local", PENSTOCK_API_NETWORKS="93.184.216.34/32")
    config = f"{{url: '{address}', table: t, columns: {{a: id}}}}"
    text = DOCUMENT.replace("localhost:9092", "93.184.216.34:9092")
    text = text.replace("hello_world}", f"table, config: {config}}}")
    [problem] = api.ask("POST", "/pipelines/validate", json={"text": text}).json()["problems"]
    assert "is not a public address" in problem["message"]
    assert problem["path"] == "action.config.url"


def test_secrets_are_references_and_never_written_out(shared_api: Api) -> None:
    with_secret = DOCUMENT.replace('"localhost:9092"', '"localhost:9092", consumer_config: {sasl.password: canary-7f3}')
    refused = shared_api.ask("POST", "/pipelines", json={"text": with_secret})
    assert refused.status_code == 422
    assert "a secret is written out" in refused.text
    assert "canary-7f3" not in refused.text
    assert shared_api.ask("PUT", "/secrets/kafka", json={"value": "canary-7f3"}).status_code == 200
    text = DOCUMENT.replace("kept", "refers").replace(
        '"localhost:9092"', '"localhost:9092", consumer_config: {sasl.password: {$ref: kafka}}'
    )
    made = shared_api.ask("POST", "/pipelines", json={"text": text})
    assert made.status_code == 201, made.text
    assert "$ref: kafka" in made.json()["text"]
    assert "canary-7f3" not in made.text


def test_a_name_is_free_again_when_its_pipeline_is_deleted_and_for_its_own_project_only(api: Api) -> None:
    mine, other = api.project, api.other_project
    assert api.ask("POST", "/pipelines", "member", json={"text": DOCUMENT, "project": mine}).status_code == 201
    store = api.desk.store
    store.pipelines.save_spec("kept", "v-1", '{"file": null, "spec": {"name": "kept"}}')
    store.dead_letters.record([letter(7, pipeline="kept", error="left behind")])
    assert api.ask("DELETE", "/pipelines/kept", "member", headers={"If-Match": "*"}).status_code == 204
    # What is left of it stays the project's.
    assert api.ask("GET", "/dead-letters?pipeline=kept", "member").json()["items"][0]["error"] == "left behind"
    assert api.ask("GET", "/dead-letters?pipeline=kept", "stranger").status_code == 404
    assert api.ask("GET", "/pipelines/kept", "stranger").status_code == 404
    gone = api.ask("PUT", "/pipelines/kept", "member", json={"text": DOCUMENT}, headers={"If-Match": "*"})
    assert (gone.status_code, gone.json()["detail"]) == (409, "kept is no longer kept in the store")
    for role, project in (("stranger", other), ("admin", other), ("admin", None)):
        taken = api.ask("POST", "/pipelines", role, json={"text": DOCUMENT, "project": project})
        assert (taken.status_code, taken.json()["code"]) == (409, "taken")
    again = api.ask("POST", "/pipelines", "member", json={"text": DOCUMENT, "project": mine})
    assert (again.status_code, again.headers["etag"]) == (201, '"3"')
