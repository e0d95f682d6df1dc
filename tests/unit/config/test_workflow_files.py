"""Workflow documents: what a good one becomes, and what is said of each mistake, where it stands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.config.loading import Loaded, load
from penstock.config.workflow import WorkflowSpec

GOOD = """\
kind: workflow
project: lab
name: Lab results
triggers:
  - name: results
    hosts: ["broker-a:9092"]
    topics: [lab-results]
    initial_offset_reset_policy: earliest
    sasl: plain
    username: reader
    password: ${LAB_PASSWORD}
    rate: 100/s
    ordering: key
steps:
  - {name: parse, python: "./steps.py:parse", config: {unit: mmol}}
  - {name: keep, command: [cat, "-"], config: {timeout: 3}}
  - {name: tell, http: "https://example.org/${PLACE}", config: {headers: {authorization: "Bearer ${LAB_TOKEN}"}}}
  - {name: log, action: file, config: {path: out.jsonl}}
edges:
  - {from: parse, to: keep, when: success}
  - {from: parse, to: tell, when: failure}
  - {from: keep, to: log, when: "state.total > 3"}
limits: {soft: 10, hard: 20}
"""
ENVIRON = {"LAB_PASSWORD": "hunter22", "LAB_TOKEN": "t0k3n-of-lab", "PLACE": "here"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def loaded(text: str, **environ: str) -> Loaded:
    Path("lab.yaml").write_text(text)
    return load(["lab.yaml"], ENVIRON | environ)


def workflow(text: str) -> WorkflowSpec:
    found = loaded(text)
    assert not found.problems, found.problems
    return found.workflows[0]


def problems(text: str) -> list[str]:
    found = loaded(text)
    assert not found.workflows
    return [str(problem) for problem in found.problems]


def changed(old: str, new: str) -> list[str]:
    assert old in GOOD
    return problems(GOOD.replace(old, new))


def test_a_workflow_is_loaded_beside_pipelines(folder: Path) -> None:
    pipeline = "name: p\nsource: {config: {topics: [a]}}\naction: {type: hello_world}\n"
    found = loaded(GOOD + "---\n" + pipeline)

    assert [spec.name for spec in found.specs] == ["p"]
    spec = found.workflows[0]
    assert spec.full_name == "lab/Lab results"
    assert spec.origin == str(folder / "lab.yaml")
    trigger = spec.triggers[0]
    assert trigger.kafka_configuration["hosts"] == [["broker-a", "9092"]]
    assert trigger.rate == 100
    assert trigger.group_id is None


def test_its_definition_says_every_edge(folder: Path) -> None:
    definition = workflow(GOOD).definition()

    assert definition["edges"] == [
        {"from": "results", "to": "parse", "when": "always"},
        {"from": "parse", "to": "keep", "when": "success"},
        {"from": "parse", "to": "tell", "when": "failure"},
        {"from": "keep", "to": "log", "when": "state.total > 3"},
    ]
    kinds = {step["name"]: (step["kind"], step["config"]) for step in definition["steps"]}
    assert kinds["parse"] == ("python", {"callable": "./steps.py:parse", "config": {"unit": "mmol"}})
    assert kinds["keep"] == ("command", {"argv": ["cat", "-"], "timeout": 3})
    assert kinds["log"] == ("action", {"type": "file", "config": {"path": "out.jsonl"}})
    assert definition["folder"] == str(folder)
    assert definition["options"]["run_timeout_ms"] == 300_000


def test_what_secrets_stand_for_is_not_put_in_their_place() -> None:
    spec = workflow(GOOD)

    assert spec.triggers[0].kafka_configuration["password"] == "${LAB_PASSWORD}"
    assert spec.steps[2].config["headers"]["authorization"] == "Bearer ${LAB_TOKEN}"
    assert "hunter22" not in repr(spec)
    assert "t0k3n" not in str(spec.definition())
    missing = loaded(GOOD.replace("LAB_TOKEN", "LAB_TOKKEN")).problems
    assert "LAB_TOKKEN is not set" in str(missing[0])
    assert missing[0].line == 17


def test_triggers_may_be_a_map_and_hold_lightnings_object() -> None:
    text = """\
kind: workflow
name: w
triggers:
  first: {kafka_configuration: {hosts: [[a, "1"]], topics: [t], initial_offset_reset_policy: latest}, group_id: g1}
  second:
    kafka_configuration: {hosts: [[a, "1"]], topics: [t], group_id: lightning-7}
    start: 2026-01-01T00:00:00Z
steps: [{name: a, command: "true"}]
"""
    spec = workflow(text)

    assert [(each.name, each.group_id) for each in spec.triggers] == [("first", "g1"), ("second", "lightning-7")]
    assert spec.triggers[1].kafka_configuration["initial_offset_reset_policy"] == "1767225600000"
    assert spec.project.name == "default"
    assert [edge["from"] for edge in spec.definition()["edges"]] == ["first", "second"]

    found = loaded(text.replace('[[a, "1"]], topics: [t], group', '[[a, "0"]], topics: [t, t], group')).problems
    assert [(problem.line, problem.path) for problem in found] == [
        (6, "triggers.second.kafka_configuration.hosts"),
        (6, "triggers.second.kafka_configuration.topics"),
    ]


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ("to: log, when", "to: lgo, when", "lab.yaml:22: edges[2].to: there is no step 'lgo'; did you mean 'log'?"),
        ("from: keep", "from: keeep", "lab.yaml:22: edges[2].from: there is no trigger or step 'keeep'"),
        ("from: keep, to: log", "from: keep, to: results", "'results' is a trigger, which follows nothing"),
        (
            'from: keep, to: log, when: "state.total > 3"',
            "from: keep, to: parse",
            "lab.yaml:22: edges[2]: the steps go round in a circle: parse → keep → parse",
        ),
        ("from: keep, to: log", "from: log, to: log", "the steps go round in a circle: log → log"),
        ("when: success", "when: succes", "did you mean 'success'?"),
        ("state.total > 3", "state.total >", "edges[2].when: `state.total >` is not a CEL expression"),
        ("state.total > 3", "total > 3", "there is no variable `total`; fields of the state are read as state.total"),
        ("from: parse, to: keep, when: success", "from: results, to: keep, when: failure", "which does not fail"),
        ("from: parse, to: tell", "from: parse, to: keep", "another edge leads from 'parse' to 'keep'"),
        ("name: keep, command", "name: parse, command", "the name 'parse' is taken by another of the steps"),
        ("name: keep, command", "name: results, command", "the name 'results' is taken by another of the triggers"),
        ('command: [cat, "-"], ', "", "exactly one of python, command, http, action is wanted; none is given"),
        ("action: file", "action: file, http: x", "http and action are too many"),
        ("soft: 10, hard: 20", "soft: 10, hard: 2", "lab.yaml:23: limits.hard: 2 is below the soft limit, 10"),
        ("rate: 100/s", "rate: 0", "lab.yaml:12: triggers[0].rate: a rate must be above zero"),
        ("ordering: key", "ordering: keys", "'keys' is none of none, key, partition; did you mean 'key'?"),
        ("limits:", "concurency: 3\nlimits:", "concurency: unknown key; did you mean 'concurrency'?"),
        ("limits:", "run_memory_limit_mb: 100\nlimits:", "needs isolation: process"),
        ("steps:", "more:", "steps: required"),
    ],
)
def test_each_mistake_is_named_where_it_stands(old: str, new: str, wanted: str) -> None:
    assert any(wanted in said for said in changed(old, new)), changed(old, new)


@pytest.mark.parametrize(
    ("old", "new", "line", "path"),
    [
        ('["broker-a:9092"]', '["broker-a:99999"]', 6, "triggers[0].hosts"),
        ("topics: [lab-results]", "topics: [a, a]", 7, "triggers[0].topics"),
        ("policy: earliest", 'policy: "175500000012"', 8, "triggers[0].initial_offset_reset_policy"),
        ("sasl: plain", "ssl: true", 10, "triggers[0].username"),
        ("sasl: plain", "sasl: plane", 9, "triggers[0].sasl"),
        ("    username: reader\n", "", 5, "triggers[0].kafka_configuration.username"),
    ],
)
def test_mistakes_in_kafkas_fields_are_named_on_their_field(old: str, new: str, line: int, path: str) -> None:
    found: Any = loaded(GOOD.replace(old, new)).problems

    assert (line, path) in [(problem.line, problem.path) for problem in found]


def test_everything_wrong_is_said_at_once() -> None:
    said = problems(GOOD.replace("9092", "0").replace("rate: 100/s", "rate: x").replace("name: parse", "nam: parse"))

    assert len(said) == 4
    assert "hunter22" not in str(said)


def test_a_timeout_in_milliseconds_is_a_warning() -> None:
    found = loaded(GOOD.replace("sasl: plain", "connect_timeout: 30000\n    sasl: plain"))

    assert found.workflows
    assert "say 30 for that" in str(found.warnings[0])
    assert found.warnings[0].line == 9


def test_a_workflow_is_defined_once() -> None:
    found = loaded(GOOD + "---\n" + GOOD)

    assert len(found.workflows) == 1
    assert "is in lab.yaml:3 already" in str(found.problems[0])


def test_other_kinds_are_still_refused() -> None:
    assert "allowed" not in problems("kind: recipe\nname: x\n")[0]
    assert loaded("kind: recipe\nname: x\n").problems[0].allowed == ("pipeline", "workflow")
