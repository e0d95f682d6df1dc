"""Dashboard and alerts ask only for series and labels that Penstock exports; every alert has its page."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.docs.snippets import ROOT
from tests.support.metrics import catalogue

ALERTS: dict[str, Any] = YAML(typ="safe", pure=True).load((ROOT / "deploy" / "alerts.yml").read_text())
RULES: list[dict[str, Any]] = [rule for group in ALERTS["groups"] for rule in group["rules"]]
BOARD: dict[str, Any] = json.loads((ROOT / "deploy" / "grafana" / "penstock.json").read_text())
RUNBOOK = (ROOT / "docs" / "operate" / "runbook.md").read_text()

_SERIES = re.compile(r"\b(penstock_\w+|kafka_\w+|messaging_\w+|process_\w+|up)\b(?:\{([^}]*)\})?")
_GROUPING = re.compile(r"(?:by|on|without) \(([^)]*)\)")
_SCRAPED = {"instance", "job", "le"}
"""Labels that Prometheus adds itself, and those of buckets."""
_FOREIGN = {"up": set(), "process_cpu_seconds_total": set(), "process_resident_memory_bytes": set()}


def known() -> dict[str, set[str]]:
    """Labels of every series by the names that queries use."""
    found: dict[str, set[str]] = dict(_FOREIGN)
    for name, (kind, labels) in catalogue().items():
        names = [f"{name}_{end}" for end in ("bucket", "sum", "count")] if kind == "histogram" else [name]
        found |= dict.fromkeys(names, labels)
    return found


KNOWN = known()


def panels() -> Iterator[dict[str, Any]]:
    return (panel for panel in BOARD["panels"] if panel["type"] != "row")


QUERIES = [
    *(pytest.param(rule["expr"], id=rule["alert"]) for rule in RULES),
    *(pytest.param(t["expr"], id=f"{p['id']} {p['title']} {t['refId']}") for p in panels() for t in p["targets"]),
]


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_asks_for_what_there_is(query: str) -> None:
    series = _SERIES.findall(query)
    assert series
    labels: set[str] = set(_SCRAPED)
    for name, matchers in series:
        assert name in KNOWN, name
        labels |= KNOWN[name]
        asked = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers))
        assert asked <= KNOWN[name] | _SCRAPED, (name, asked)
    for grouping in _GROUPING.findall(query):
        assert {label.strip() for label in grouping.split(",")} <= labels, grouping
    assert all(query.count(a) == query.count(b) for a, b in ("()", "{}", "[]"))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule["alert"]))
def test_an_alert_is_whole_and_has_its_page(rule: dict[str, Any]) -> None:
    name = rule["alert"]
    assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
    assert rule["labels"]["severity"] in {"critical", "warning"}
    assert rule["annotations"]["summary"]
    assert rule["annotations"]["runbook"] == f"docs/operate/runbook.md#{name.lower()}"
    placeholders = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
    kept = {label.strip() for grouping in _GROUPING.findall(rule["expr"]) for label in grouping.split(",")}
    assert placeholders <= (kept or _SCRAPED), "a label that the query sums away would be empty"
    section = RUNBOOK.partition(f"## {name}\n")[2].partition("\n## ")[0]
    for part in ("**Means**", "**Look**", "**Do**"):
        assert part in section, f"{name} has no {part}"


def test_the_runbook_has_no_page_without_an_alert() -> None:
    titles = [title for title in re.findall(r"^## (\w+)$", RUNBOOK, re.MULTILINE) if title.startswith("Penstock")]
    assert titles == [rule["alert"] for rule in RULES]


def test_states_and_outcomes_that_queries_name_exist() -> None:
    text = json.dumps(BOARD) + json.dumps(ALERTS)
    source = (ROOT / "src" / "penstock" / "core" / "status.py").read_text()
    for state in re.findall(r'state=~?\\"([\w|]+)\\"', text):
        assert all(f'"{each}"' in source for each in state.split("|")), state


def test_the_board_is_one_that_grafana_takes() -> None:
    ids = [panel["id"] for panel in BOARD["panels"]]
    assert len(ids) == len(set(ids))
    assert {"uid", "title", "schemaVersion", "panels", "templating", "time"} <= set(BOARD)
    variables = {variable["name"] for variable in BOARD["templating"]["list"]}
    for panel in panels():
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        assert panel["datasource"]["uid"] == "${datasource}"
        for target in panel["targets"]:
            used = set(re.findall(r"\$(\w+)", target["expr"])) - {"__rate_interval"}
            assert used <= variables
    places = [(p["gridPos"]["y"], p["gridPos"]["x"]) for p in BOARD["panels"]]
    assert len(places) == len(set(places)), "panels lie upon each other"
