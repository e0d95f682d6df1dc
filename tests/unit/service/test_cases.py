"""`penstock test`: cases beside a pipeline file."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.config.problems import InvalidConfigError
from penstock.core.errors import ConfigError
from penstock.service.cases import run_cases

PIPELINE = """
name: orders
source: {type: kafka, config: {topics: [orders], format: json}}
filters:
  - {type: cel, config: {expression: "event.total > 100.0"}}
transform:
  - {type: map, config: {fields: {total: event.total}, mode: merge}}
action:
  type: webhook
  config: {url: "https://example.org/hook", headers: {authorization: "Bearer ${HOOK_TOKEN}"}}
"""

CASES = """
env: {HOOK_TOKEN: sesame-sesame}
cases:
  - name: large orders go out, small ones do not
    given:
      - {value: {total: 120}, key: k1, headers: {trace: abc}}
      - value: {total: 5}
    expect:
      - {outcome: acted, value: {total: 120}}
      - outcome: filtered
  - name: bad records fail where they should
    given:
      - raw: "{"
      - value: {}
    expect:
      - {outcome: failed, stage: decode, error: not JSON, error_code: decode}
      - {outcome: failed, stage: filter, error: "no field 'total'"}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "orders.yaml").write_text(PIPELINE)
    (tmp_path / "orders.test.yaml").write_text(CASES)
    return tmp_path


@pytest.mark.parametrize("given", ["orders.yaml", "orders.test.yaml", "."])
def test_cases_are_found_and_pass(folder: Path, given: str) -> None:
    results = run_cases(folder / given)
    assert [(each.pipeline, each.ok, each.mismatches) for each in results] == [("orders", True, [])] * 2
    assert results[0].name == "large orders go out, small ones do not"
    assert results[1].as_dict()["outcomes"][0] == {"outcome": "failed", "stage": "decode", "error_code": "decode"}


def test_a_mismatch_shows_what_came(folder: Path) -> None:
    (folder / "orders.test.yaml").write_text(
        """
env: {HOOK_TOKEN: sesame-sesame}
cases:
  - name: wrong
    given: [{value: {total: 120, id: 1}}, {value: {total: 5}}, {raw: "{"}, {value: {}}]
    expect:
      - {outcome: acted, value: {total: 121, id: 1}}
      - outcome: acted
      - outcome: filtered
      - {outcome: failed, stage: decode, error: other words, error_code: mine}
  - name: too few
    given: [{value: {total: 120}}]
    expect: []
"""
    )
    wrong, few = run_cases(folder / "orders.yaml")
    first, second, third, fourth = wrong.mismatches
    assert first.splitlines() == [
        "record 1:",
        "  value: expected (-), came (+)",
        "      {",
        '        "id": 1,',
        '    -   "total": 121',
        '    +   "total": 120',
        "      }",
    ]
    assert second.splitlines()[1] == "  outcome: expected acted, came filtered"
    assert "expected filtered, came failed in decode: not JSON" in third
    assert "stage: expected decode, came filter" in fourth
    assert "error_code: expected mine, came expression" in fourth
    assert "expected to contain 'other words'" in fourth
    assert few.mismatches == ["1 records are given and 0 outcomes expected"]
    assert not wrong.ok


def test_i08_a_secret_of_the_pipeline_shows_in_no_result(folder: Path) -> None:
    (folder / "leaky.py").write_text("def leak(event):\n    raise ValueError('token sesame-sesame')\n")
    (folder / "orders.yaml").write_text(
        PIPELINE.replace("transform:\n", "transform:\n  - {type: python, config: {callable: 'leaky.py:leak'}}\n")
    )
    first, _ = run_cases(folder / "orders.yaml")
    assert "came failed in transform" in str(first.as_dict())
    assert "sesame" not in str(first.as_dict())


def test_a_pipeline_that_cannot_be_made_fails_its_cases(folder: Path) -> None:
    (folder / "orders.yaml").write_text(PIPELINE.replace("type: map", "type: mapp"))
    for result in run_cases(folder):
        assert "the pipeline cannot run: there is no transform `mapp`" in result.mismatches[0]


def test_one_of_several_pipelines_is_named(folder: Path) -> None:
    (folder / "orders.yaml").write_text(PIPELINE + "---\n" + PIPELINE.replace("name: orders", "name: others"))
    with pytest.raises(ConfigError, match="has 2 pipelines"):
        run_cases(folder)
    (folder / "orders.test.yaml").write_text("pipeline: other\n" + CASES)
    with pytest.raises(ConfigError, match="did you mean `others`"):
        run_cases(folder)
    (folder / "orders.test.yaml").write_text("pipeline: others\n" + CASES)
    assert {each.pipeline for each in run_cases(folder)} == {"others"}


def test_files_that_cannot_be_used(folder: Path) -> None:
    assert run_cases(folder / "orders.yaml")
    (folder / "lonely.yaml").write_text(PIPELINE)
    assert run_cases(folder / "lonely.yaml") == []
    (folder / "orders.test.yaml").write_text(CASES.replace("    expect:", "    expct:", 1))
    with pytest.raises(InvalidConfigError) as caught:
        run_cases(folder)
    said = [(problem.path, problem.hint) for problem in caught.value.problems]
    assert said == [("cases[0].expect", None), ("cases[0].expct", "did you mean `expect`?")]
    assert caught.value.problems[1].line
    (folder / "orders.test.yaml").write_text("cases: [")
    with pytest.raises(InvalidConfigError):
        run_cases(folder)
    (folder / "orders.test.yaml").unlink()
    (folder / "alone.test.yaml").write_text(CASES)
    with pytest.raises(ConfigError, match=r"looked for alone\.yaml or alone\.yml"):
        run_cases(folder / "alone.test.yaml")
    with pytest.raises(InvalidConfigError, match="cannot be read"):
        run_cases(folder / "nowhere.test.yaml")
