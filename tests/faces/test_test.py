"""`penstock test`: exit codes and what it shows; the running of cases itself is tested with its service."""

from __future__ import annotations

from pathlib import Path

from tests.faces.cli import penstock

PIPELINE = """\
name: p
source: {type: kafka, config: {topics: [t], format: json}}
filters: [{type: cel, config: {expression: "event.a > 1"}}]
action: {type: webhook, config: {url: "https://example.org"}}
"""
CASES = """\
cases:
  - name: large ones pass
    given: [{value: {a: 2}}, {value: {a: 1}}]
    expect: [{outcome: acted}, {outcome: filtered}]
"""


def write(folder: Path, cases: str | None) -> Path:
    (folder / "p.yaml").write_text(PIPELINE)
    if cases is not None:
        (folder / "p.test.yaml").write_text(cases)
    return folder / "p.yaml"


def test_passing_cases_end_with_0(tmp_path: Path) -> None:
    result = penstock("test", write(tmp_path, CASES))
    assert result.code == 0
    assert "ok     p: large ones pass" in result.out
    assert penstock("test", tmp_path, "--json").data["ok"] is True


def test_a_failing_case_ends_with_1_and_says_why(tmp_path: Path) -> None:
    result = penstock("test", write(tmp_path, CASES.replace("{value: {a: 1}}", "{value: {a: 5}}")))
    assert result.code == 1
    assert "expected filtered, came acted" in result.out
    data = penstock("test", tmp_path, "--json").data
    assert (data["ok"], data["cases"][0]["ok"]) == (False, False)


def test_no_cases_is_not_a_success(tmp_path: Path) -> None:
    result = penstock("test", write(tmp_path, None))
    assert result.code == 2
    assert "p.test.yaml" in result.err or "orders.test.yaml" in result.err


def test_a_bad_file_does_not_hide_the_other_cases(tmp_path: Path) -> None:
    write(tmp_path, CASES)
    (tmp_path / "bad.yaml").write_text(PIPELINE)
    (tmp_path / "bad.test.yaml").write_text("case: []\n")
    result = penstock("test", tmp_path / "bad.yaml", tmp_path / "p.yaml", "--json")
    assert result.code == 2
    assert [case["ok"] for case in result.data["cases"]] == [True]
    assert len(result.data["errors"]) == 1
