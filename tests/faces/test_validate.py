"""`penstock validate`: what is wrong, where, and what would be right."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faces.cli import penstock

GOOD = """\
name: good
source: {type: kafka, config: {topics: [orders], format: json}}
action: {type: hello_world}
"""


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text)


def test_a_good_file_is_valid(tmp_path: Path) -> None:
    write(tmp_path, good=GOOD)
    result = penstock("validate", tmp_path)
    assert result.code == 0
    assert "good" in result.out
    assert penstock("validate", tmp_path, "--json").data == {
        "valid": True,
        "pipelines": [{"name": "good", "file": str(tmp_path / "good.yaml")}],
        "workflows": [],
        "problems": [],
        "warnings": [],
    }


def test_one_bad_file_does_not_hide_the_good_one(tmp_path: Path) -> None:
    write(tmp_path, good=GOOD, bad=GOOD.replace("good", "bad").replace("action:", "acton:"))
    result = penstock("validate", tmp_path, "--json")
    assert result.code == 2
    assert [each["name"] for each in result.data["pipelines"]] == ["good"]
    assert {problem["path"] for problem in result.data["problems"]} == {"acton", "action"}


def test_workflows_are_checked_with_their_steps(tmp_path: Path) -> None:
    (tmp_path / "steps.py").write_text("def keep(state):\n    return state\n")
    workflow = "kind: workflow\nproject: lab\nname: w\nsteps: [{name: a, python: './steps.py:keep'}]\n"
    write(tmp_path, one=workflow, two=workflow.replace("name: w", "name: v").replace("keep", "kept"))
    result = penstock("validate", tmp_path, "--json")

    assert result.code == 2
    assert [each["name"] for each in result.data["workflows"]] == ["lab/w"]
    problem = result.data["problems"][0]
    assert (problem["path"], problem["line"]) == ("steps[0].python", 4)
    assert "kept" in problem["message"]


@pytest.mark.parametrize(
    ("action", "path", "text"),
    [
        ("{type: webhok, config: {}}", "action.type", "webhok"),
        ("{type: webhook, config: {url: 'https://example.org', methot: PUT}}", "action.config", "methot"),
        ("{type: webhook, config: {}}", "action.config", "url"),
        ("{type: python, config: {callable: 'nowhere.py:act'}}", "action.config", "nowhere.py"),
        ("{type: 'json:JSONDecoder'}", "action.type", "JSONDecoder"),
    ],
)
def test_plugins_and_their_configuration_are_checked(tmp_path: Path, action: str, path: str, text: str) -> None:
    write(tmp_path, bad=f"name: bad\nsource: {{type: kafka, config: {{topics: [t]}}}}\naction: {action}\n")
    result = penstock("validate", tmp_path, "--json")
    assert result.code == 2
    (problem,) = result.data["problems"]
    assert problem["path"] == path
    assert text in problem["message"]
    assert problem["line"] == 3


@pytest.mark.parametrize(
    "step",
    [
        "filters: [{type: cel, config: {expression: 'event.total >'}}]",
        "filters: [{type: sieve, config: {}}]",
        "transform: [{type: map, config: {fields: {a: '1 +'}}}]",
        "transform: [{type: keep, config: {}}]",
    ],
)
def test_filters_and_transforms_are_checked(tmp_path: Path, step: str) -> None:
    write(tmp_path, bad=GOOD + step + "\n")
    result = penstock("validate", tmp_path, "--json")
    assert result.code == 2
    assert result.data["problems"][0]["path"].startswith(("filters[0]", "transform[0]"))


@pytest.mark.parametrize(
    ("source", "rest", "path", "text"),
    [
        ("topics: [a, b]", "action: {type: kafka, config: {topic: b}}", "action.config.topic", "its own output"),
        (
            "topic_pattern: ^a-.*",
            "action: {type: kafka, config: {topic: a-b}}",
            "action.config.topic",
            "its own output",
        ),
        (
            "topics: [a]",
            "action: {type: kafka, config: {topic: a, connection: {bootstrap: 'x:1,127.0.0.1:9092'}}}",
            "action.config.topic",
            "its own output",
        ),
        (
            "topic_pattern: ^a-.*",
            "action: {type: hello_world}\noptions: {dead_letter: {topic: a-dead}}",
            "options.dead_letter.topic",
            "dead letters would come back",
        ),
    ],
)
def test_a_pipeline_that_reads_what_it_writes_is_refused(
    tmp_path: Path, source: str, rest: str, path: str, text: str
) -> None:
    write(tmp_path, bad=f"name: bad\nsource: {{type: kafka, config: {{{source}}}}}\n{rest}\n")
    result = penstock("validate", tmp_path, "--json")
    (problem,) = result.data["problems"]
    assert (result.code, problem["path"], problem["line"]) == (2, path, 4 if "dead" in text else 3)
    assert text in problem["message"]


def test_a_breaker_that_can_never_trip_is_refused(tmp_path: Path) -> None:
    write(tmp_path, bad=GOOD + "options:\n  failure_mode: THROW\n  breaker: {window: 10}\n")
    (problem,) = penstock("validate", tmp_path, "--json").data["problems"]
    assert (problem["path"], problem["line"]) == ("options.breaker", 6)
    assert "can never trip" in problem["message"]


def test_writing_to_another_cluster_is_no_loop(tmp_path: Path) -> None:
    action = "{type: kafka, config: {topic: orders, connection: {bootstrap: 'other:9092'}}}"
    write(tmp_path, good=GOOD.replace("{type: hello_world}", action))
    assert penstock("validate", "--strict", tmp_path).code == 0


def test_strict_makes_warnings_count(tmp_path: Path) -> None:
    disabled = GOOD + "enabled: false\n"
    write(tmp_path, good=GOOD, off=disabled.replace("good", "off"))
    lenient, strict = penstock("validate", tmp_path), penstock("validate", "--strict", tmp_path)
    assert (lenient.code, strict.code) == (0, 2)
    assert "warning" in lenient.err


def test_a_missing_file_is_a_clear_error(tmp_path: Path) -> None:
    result = penstock("validate", tmp_path / "absent.yaml")
    assert result.code == 2
    assert "absent.yaml" in result.err
    assert "Traceback" not in result.err


def test_secrets_stay_hidden(tmp_path: Path) -> None:
    config = "{url: 'https://u:hunter22@example.org', method: 7, headers: {authorization: topsecret9}}"
    source = "{type: kafka, config: {topics: [t]}}"
    write(tmp_path, bad=f"name: bad\nsource: {source}\naction: {{type: webhook, config: {config}}}\n")
    for arguments in (("validate", tmp_path), ("validate", tmp_path, "--json"), ("validate", tmp_path, "--debug")):
        result = penstock(*arguments)
        assert result.code == 2
        assert "hunter22" not in result.out + result.err
        assert "topsecret9" not in result.out + result.err
