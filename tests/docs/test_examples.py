"""The examples are valid and pass their cases."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.service.cases import run_cases
from penstock.service.validation import validate
from tests.docs.snippets import ROOT

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
    assert report.pipelines
    assert f"[{folder.name}]({folder.name})" in (EXAMPLES / "README.md").read_text()


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_cases_of_an_example_pass(folder: Path) -> None:
    results = run_cases(folder)
    assert [result.mismatches for result in results if not result.ok] == []
    assert results or not list(folder.glob("*.test.yaml"))
