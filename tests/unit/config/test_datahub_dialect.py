"""DataHub Actions files load as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

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
