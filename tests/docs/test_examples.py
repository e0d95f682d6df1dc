"""The examples are valid and pass their cases."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from penstock.service.cases import run_cases
from penstock.service.validation import validate
from tests.docs.snippets import ROOT
from tests.unit.workflows.test_executing import executed

EXAMPLES = ROOT / "examples"
FOLDERS = sorted(folder for folder in EXAMPLES.iterdir() if folder.is_dir())


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PENSTOCK_DEMO_BOOTSTRAP", "localhost:9092")
    monkeypatch.setenv("PENSTOCK_DEMO_FOLDER", str(tmp_path))
    monkeypatch.setenv("KAFKA_PASSWORD", "an example of one")


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_an_example_is_valid_and_described(folder: Path) -> None:
    report = validate([folder])
    assert not report.problems
    assert not report.warnings
    assert report.pipelines or report.workflows
    assert f"[{folder.name}]({folder.name})" in (EXAMPLES / "README.md").read_text()


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_cases_of_an_example_pass(folder: Path) -> None:
    results = run_cases(folder)
    assert [result.mismatches for result in results if not result.ok] == []
    assert results or not list(folder.glob("*.test.yaml"))


@pytest.mark.parametrize(
    ("value", "steps", "state"),
    [
        (9.1, ["check", "tell-the-ward"], "success"),
        (3, ["check", "keep"], "success"),
        ("high", ["check", "set-aside"], "success"),
    ],
)
def test_the_workflow_takes_each_way(tmp_path: Path, value: object, steps: list[str], state: str) -> None:
    shutil.copytree(EXAMPLES / "workflow", tmp_path / "workflow")
    (spec,) = validate([tmp_path / "workflow"]).workflows
    request = json.dumps({"topic": "foo_topic", "partition": 0, "offset": 7, "key": "p-88", "ts": 1, "headers": []})
    body = {"patient": "p-88", "value": value}
    end, notes = executed(spec.definition(), body, trigger="results", request=request)
    assert [name for name, _ in notes.steps] == steps
    assert end.state == state
    if steps[-1] == "tell-the-ward":
        assert json.loads((tmp_path / "workflow" / "ward.jsonl").read_text())["result"] == body
        assert ("info", "foo_topic/0@7: 9.1") in notes.said
