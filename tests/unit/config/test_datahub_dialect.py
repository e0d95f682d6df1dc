"""DataHub Actions files load as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.behaviour.act.hook_server import Answer, HookServer, Request

from penstock.config.loading import Loaded, load

FILE = """\
name: hello
enabled: yes
source:
  type: kafka
  config:
    connection:
      bootstrap: ${KAFKA_BOOTSTRAP_SERVER:-localhost:9092}
      schema_registry_url: ${SCHEMA_REGISTRY_URL:-http://localhost:8081}
filter:
  event_type: EntityChangeEvent_v1
  event:
    category: TAG
transform:
  - type: my.module:Transform
action:
  type: hello_world
  config: {to_upper: on}
options:
  retry_count: 2
  failure_mode: throw
  failed_events_dir: /somewhere
  colour: red
datahub:
  server: http://localhost:8080
  flavour: sweet
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def loaded(text: str, environ: dict[str, str] | None = None) -> Loaded:
    Path("actions.yaml").write_text(text)
    return load(["actions.yaml"], environ or {})


def test_a_file_of_datahub_actions() -> None:
    result = loaded(FILE)
    assert [*map(str, result.problems)] == []
    (spec,) = result.specs
    assert spec.source.config.format == "datahub"
    assert spec.source.config.connection.bootstrap == "localhost:9092"
    assert spec.action.config == {"to_upper": True}  # these files were written for YAML 1.1
    assert [(step.type, step.config) for step in spec.transform] == [
        ("__filter", {"event_type": ["EntityChangeEvent_v1"], "event": {"category": "TAG"}}),
        ("my.module:Transform", {}),
    ]
    assert (spec.options.retry.attempts, spec.options.failure_mode) == (3, "THROW")
    assert spec.options.retry.scope == "chain"
    assert spec.datahub == {"server": "http://localhost:8080"}


def test_what_datahub_ignores_is_warned_of() -> None:
    assert [*map(str, loaded(FILE).warnings)] == [
        "actions.yaml:22: options.colour: unknown key, ignored as DataHub does",
        "actions.yaml:25: datahub.flavour: unknown key, ignored as DataHub does",
        "actions.yaml:9: filter: deprecated; write it as an entry of filters with type event_type",
    ]


def test_native_files_are_held_to_every_key() -> None:
    native = FILE.replace("  config:\n    connection:", "  config:\n    topics: [a]\n    connection:")
    found = loaded(native).problems
    assert [(problem.line, problem.path, problem.message) for problem in found] == [
        (10, "filter", "unknown key"),
        (23, "options.colour", "unknown key"),
        (26, "datahub.flavour", "unknown key"),
    ]
    assert str(found[0]) == "actions.yaml:10: filter: unknown key; did you mean 'filters'?"
    assert str(found[1]).startswith(
        "actions.yaml:23: options.colour: unknown key; allowed: failure_mode, retry, timeout, "
    )


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("{event: {}}", "actions.yaml:3: filter.event_type: required"),
        ("{event_type: A, evnt: {}}", "actions.yaml:3: filter.evnt: unknown key; did you mean 'event'?"),
        ("{event_type: []}", "actions.yaml:3: filter.event_type: must not be empty"),
        ("[]", "actions.yaml:3: filter: a map is wanted, not a list"),
    ],
)
def test_a_bad_legacy_filter(written: str, said: str) -> None:
    result = loaded(f"name: p\nsource: {{type: kafka}}\nfilter: {written}\naction: {{type: hello_world}}\n")
    assert [*map(str, result.problems)] == [said]


@pytest.mark.parametrize(
    ("environ", "url"),
    [
        ({}, "http://localhost:8080/schema-registry/api/"),
        ({"DATAHUB_GMS_BASE_PATH": "/gms"}, "http://localhost:8080/gms/schema-registry/api/"),
        ({"KAFKA_SCHEMAREGISTRY_URL": "http://r:1"}, "http://r:1"),
    ],
)
@pytest.mark.parametrize("config", ["", ", config: null", ", config: {}", ", config: {connection: null}"])
def test_the_registry_of_datahub(environ: dict[str, Any], url: str, config: str) -> None:
    result = loaded(f"name: p\nsource: {{type: kafka{config}}}\naction: {{type: hello_world}}\n", environ)
    assert [*map(str, result.problems)] == []
    assert result.specs[0].source.config.connection.schema_registry_url == url


def test_later_problems_stand_where_they_were_written() -> None:
    result = loaded(FILE)
    (spec,) = result.specs
    assert result.problem(spec, ("transform", 0, "config"), "x").line == 9
    assert str(result.problem(spec, ("transform", 1, "type"), "x")) == "actions.yaml:14: transform[0].type: x"
    assert result.problem(spec, ("action", "type"), "x").line == 16


def test_what_is_retried_may_be_said_in_these_files_too() -> None:
    options = "options: {retry: {on: [KeyError], scope: stage}}"
    text = f"name: p\nsource: {{type: kafka}}\naction: {{type: hello_world}}\n{options}\n"
    (spec,) = loaded(text).specs
    assert (spec.options.retry.on, spec.options.retry.scope) == (["KeyError"], "stage")


PLAIN = "name: {name}\nsource: {{type: kafka}}\naction: {{type: hello_world}}\n"


@pytest.mark.parametrize(
    ("config", "routes"),
    [
        ("{}", {"mcl", "mcl_timeseries", "pe"}),
        ("{topic_routes: {}}", {"mcl", "mcl_timeseries", "pe"}),
        ("{topic_routes: {pe: My_Events, other: Noise}}", {"pe", "other"}),
    ],
)
def test_given_routes_replace_the_defaults(config: str, routes: set[str]) -> None:
    (spec,) = loaded(f"name: p\nsource: {{type: kafka, config: {config}}}\naction: {{type: hello_world}}\n").specs
    assert set(spec.source.config.routes) == routes
    assert set(spec.source.config.subscription) == set(spec.source.config.routes.values())


def test_without_a_group() -> None:
    config = "{stateless: true, start: earliest}"
    (spec,) = loaded(f"name: p\nsource: {{type: kafka, config: {config}}}\naction: {{type: hello_world}}\n").specs
    assert (spec.source.config.format, spec.source.config.stateless) == ("datahub", True)


def test_commit_keys_are_accepted_and_explained() -> None:
    keys = "async_commit_enabled: false\n    async_commit_interval: 5000\n    commit_retry_count: 0\n"
    result = loaded(f"name: p\nsource:\n  type: kafka\n  config:\n    {keys}action: {{type: hello_world}}\n")
    assert [(w.line, w.path) for w in result.warnings] == [
        (5, "source.config.async_commit_enabled"),
        (6, "source.config.async_commit_interval"),
        (7, "source.config.commit_retry_count"),
    ]
    assert "once per window" in result.warnings[0].message
    assert "Penstock commits all the same" in result.warnings[2].message
    assert len(result.specs) == 1


BAD = [
    ("transform: {type: x}", "actions.yaml:4: transform: a list is wanted, not a map"),
    ("filters: {type: x}", "actions.yaml:4: filters: a list is wanted, not a map"),
    ("datahub: {server: 's', token: hunter22, auth: {type: static}}", "datahub.auth: give either token or auth"),
    ("datahub: {token: hunter22}", "actions.yaml:4: datahub.server: required"),
    ("options: {failure_mode: SOMETIMES}", "actions.yaml:4: options.failure_mode: 'SOMETIMES' is none of CONTINUE"),
    ("options: {retry_count: '${UNSET_ONE}'}", "actions.yaml:4: options.retry_count: variable UNSET_ONE is not set"),
    ("options: {retry_count: '${UNSET_ONE:?give it}'}", "variable UNSET_ONE is not set or empty: give it"),
    ("colour: red", "actions.yaml:4: colour: unknown key"),
    ("action: null", "actions.yaml:3: action: required"),
]


@pytest.mark.parametrize(("line", "said"), BAD, ids=[line for line, _ in BAD])
def test_what_is_wrong_is_told_by_file_line_and_key_and_the_other_file_runs(line: str, said: str) -> None:
    Path("actions.yaml").write_text("name: bad\nsource: {type: kafka}\naction: {type: hello_world}\n" + line + "\n")
    if line.startswith("action:"):
        Path("actions.yaml").write_text(f"name: bad\nsource: {{type: kafka}}\n{line}\n")
    Path("good.yaml").write_text(PLAIN.format(name="good"))
    result = load(["actions.yaml", "good.yaml"], {})
    assert [spec.name for spec in result.specs] == ["good"]
    assert any(said in str(problem) for problem in result.problems), [*map(str, result.problems)]
    assert "hunter22" not in "".join(map(str, result.problems))


@pytest.mark.parametrize(
    ("connection", "said"),
    [
        ("schema_registry_url: localhost:8081", "schema_registry_url: a URL like http://localhost:8081 is wanted"),
        ("schema_registry_url: 'ftp://r'", "schema_registry_url: a URL like http://localhost:8081 is wanted"),
        ("bootstrap: 'http://b:9092'", "bootstrap: host:port without a scheme is wanted"),
    ],
)
def test_addresses_that_are_none(connection: str, said: str) -> None:
    result = loaded(
        "name: p\nsource:\n  type: kafka\n  config:\n    connection:\n      " + connection + "\naction: {type: a}\n"
    )
    (problem,) = result.problems
    assert str(problem).startswith("actions.yaml:6: source.config.connection.")
    assert said in str(problem)


def test_a_folder_gives_yml_before_yaml_and_names_are_unique() -> None:
    for name in ("b.yml", "a.yaml", "c.yml"):
        Path(name).write_text(PLAIN.format(name=name[0]))
    Path("d.yaml").write_text(PLAIN.format(name="b"))
    result = load(["."], {})
    assert [spec.name for spec in result.specs] == ["b", "c", "a"]
    (problem,) = result.problems
    assert str(problem) == "d.yaml:1: name: the name 'b' is taken by b.yml:1; names are unique"


def test_json_toml_and_addresses() -> None:
    Path("one.json").write_text('{"name": "one", "source": {"type": "kafka"}, "action": {"type": "hello_world"}}')
    Path("two.toml").write_text('name = "two"\n[source]\ntype = "kafka"\n[action]\ntype = "hello_world"\n')
    text = PLAIN.format(name="three") + "enabled: yes\nfilter: {event_type: '${KIND}'}\n"

    def answer(request: Request) -> Answer:
        if request.headers.get("authorization") != "Basic bWU6aHVudGVyMjI=":
            return Answer(401)
        return Answer(body=text.encode()) if request.path == "/three.yaml" else Answer(404)

    with HookServer(answer) as server:
        three, four = (f"http://me:hunter22@127.0.0.1:{server.port}/{name}.yaml" for name in ("three", "four"))
        result = load(["one.json", "two.toml", three, four], {"KIND": "EntityChangeEvent_v1"})
    assert [spec.name for spec in result.specs] == ["one", "two", "three"]
    assert result.specs[2].transform[0].config["event_type"] == ["EntityChangeEvent_v1"]
    assert result.specs[2].folder is None
    assert [str(p).partition("four.yaml: ")[2] for p in result.problems] == [
        "cannot be read: the server answered 404 Not Found"
    ]
    assert "hunter22" not in f"{result.problems} {result.specs[2].origin}"
