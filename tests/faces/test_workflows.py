"""`penstock workflows`, `triggers`, `import lightning` and `export`: what they print and how they end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.kafka.embedded import EmbeddedCluster
from tests.faces.cli import Result, penstock

WORKFLOW = """\
kind: workflow
project: lab
name: results
triggers:
  - name: k
    enabled: false
    hosts_string: "{bootstrap}"
    topics: [lab-results]
    initial_offset_reset_policy: earliest
    sasl: plain
    username: reader
    password: hunter22
steps:
  - {{name: keep, command: ["true"]}}
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with EmbeddedCluster() as cluster:
        yield cluster.bootstrap


@pytest.fixture(scope="module")
def applied(home: Path, bootstrap: str) -> Result:
    file = home / "results.yaml"
    file.write_text(WORKFLOW.format(bootstrap=bootstrap))
    return command(home, "workflows", "apply", file, "--json")


def command(home: Path, *args: object, **env: str) -> Result:
    return penstock(*args, cwd=None, stdin=None, PENSTOCK_HOME=str(home), **env)


def test_a_workflow_is_applied_listed_and_shown_without_its_secrets(home: Path, applied: Result) -> None:
    assert applied.code == 0, applied.err
    assert [(each["workflow"], each["created"]) for each in applied.data] == [("results", True)]

    listed = command(home, "workflows", "list", "--json").data
    assert [(each["project"], each["name"], each["steps"], each["triggers"]) for each in listed] == [
        ("lab", "results", ["keep"], ["k"])
    ]
    shown = command(home, "workflows", "show", "results")
    assert "keep: command" in shown.out
    trigger = command(home, "triggers", "show", "results/k", "--json")
    assert trigger.data["kafka_configuration"]["password"] == "********"
    assert trigger.data["state"] == "disabled"
    assert trigger.data["group_id"].startswith("lightning-")
    assert "hunter22" not in shown.out + trigger.out + applied.out
    assert (home / "secret.key").stat().st_mode & 0o777 == 0o600


def test_a_wrong_key_is_a_clear_error(home: Path, applied: Result) -> None:
    key = "MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTI="
    result = command(home, "workflows", "apply", home / "results.yaml", PENSTOCK_SECRET_KEY=key)

    assert applied.code == 0
    assert result.code == 2
    assert "not the one that the store's secrets were encrypted under" in result.err


def test_names_that_do_not_exist_are_answered_with_the_nearest(home: Path, applied: Result) -> None:
    assert applied.code == 0
    for args in (("workflows", "show", "lab/reslts"), ("triggers", "enable", "results/kk")):
        result = command(home, *args)
        assert result.code == 2
        assert "did you mean" in result.err


def test_a_connection_is_tried_step_by_step(home: Path, applied: Result) -> None:
    assert applied.code == 0
    result = command(home, "triggers", "test", "k", "--timeout", "1", "--json")

    steps = {step["step"]: step["ok"] for step in result.data["steps"]}
    assert steps["dns"] is steps["tcp"] is True
    assert {"sasl", "metadata", "topic", "group"} <= steps.keys()
    assert result.data["ok"] is False  # the embedded cluster knows no users
    assert result.code in (1, 3)


def test_a_work_order_is_made_by_hand(home: Path, applied: Result) -> None:
    assert applied.code == 0
    made = command(home, "workflows", "run", "results", "--input", '{"data": {"n": 1}}', "--json")
    assert made.data["work_order_id"]

    wrong = command(home, "workflows", "run", "results", "--input", "[1]")
    assert wrong.code == 2
    assert "no object" in wrong.err


def test_a_project_goes_out_and_comes_in(home: Path, applied: Result) -> None:
    assert applied.code == 0
    out = home / "lab.yaml"
    assert command(home, "export", "lab", "--out", out).code == 0
    assert "hunter22" not in out.read_text()

    report = command(home, "import", "lightning", out, "--json").data
    assert report["project"] == "lab"
    assert report["triggers"][0]["remarks"] == []
    other = command(home, "import", "lightning", home / "results.yaml")
    assert other.code == 2
    assert "is no project of Lightning" in other.err


def test_a_key_is_rotated(home: Path, applied: Result) -> None:
    assert applied.code == 0
    before = (home / "secret.key").read_text()
    assert command(home, "db", "rotate-key", "--json").data["rows"] > 0
    assert (home / "secret.key").read_text() != before
    assert command(home, "workflows", "apply", home / "results.yaml").code == 0


def test_a_workflow_is_deleted_last(home: Path, applied: Result) -> None:
    assert applied.code == 0
    assert command(home, "workflows", "delete", "results").code == 2
    assert command(home, "workflows", "delete", "results", "--yes").code == 0
    assert command(home, "workflows", "list", "--json").data == []
    assert command(home, "triggers", "list", "--json").data == []


def test_switches_that_are_misspelt_stop_the_start(home: Path) -> None:
    result = command(home, "run", KAFKA_TRIGGERS_ENABLED="off", PENSTOCK_HTTP_ENABLED="false")

    assert result.code == 2
    assert "KAFKA_TRIGGERS_ENABLED" in result.err
    assert os.linesep + "Traceback" not in result.err
