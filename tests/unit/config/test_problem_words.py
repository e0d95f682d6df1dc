"""What is wrong with a pipeline, in words: golden lines."""
# ruff: noqa: E501 - golden lines stay whole

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.config.loading import load
from penstock.config.problems import InvalidConfigError, Problem

MANY_MISTAKES = """\
name: orders
source:
  config:
    topics: [orders]
    connections: {}
    start: whenever
    format: jsn
    connection: {bootstrap: "kafka://broker:9092", client_timeout_seconds: soon}
filters:
  - {type: match, conf: {}}
  - nonsense
transform: {type: x}
action: null
options:
  failure_mode: MAYBE
  retry:
    attempt: 5
    attempts: many
    jitter: 2
  timeout: 3 parsecs
  rate_limit: fast
  concurrency: 0
  breaker: [1]
topics: [a]
colour: red
datahub: {server: http://x, sever: y}
enabled: perhaps
"""

GOLDEN = """\
orders.yaml:5: source.config.connections: unknown key; did you mean 'connection'?
orders.yaml:6: source.config.start: earliest, latest, a time like 2026-01-01T00:00:00Z, or epoch milliseconds is wanted, not 'whenever'
orders.yaml:7: source.config.format: 'jsn' is none of json, avro, text, raw, datahub, wherehows; did you mean 'json'?
orders.yaml:8: source.config.connection.bootstrap: host:port without a scheme is wanted; say how to connect by consumer_config.security.protocol
orders.yaml:8: source.config.connection.client_timeout_seconds: a whole number is wanted, not 'soon'
orders.yaml:10: filters[0].conf: unknown key; did you mean 'config'?
orders.yaml:11: filters[1]: a map is wanted, not 'nonsense'
orders.yaml:12: transform: a list is wanted, not a map
orders.yaml:13: action: required
orders.yaml:15: options.failure_mode: 'MAYBE' is none of CONTINUE, THROW
orders.yaml:17: options.retry.attempt: unknown key; did you mean 'attempts'?
orders.yaml:18: options.retry.attempts: a whole number is wanted, not 'many'
orders.yaml:19: options.retry.jitter: a number at most 1 is wanted, not 2
orders.yaml:20: options.timeout: a duration like 30s, 250ms or 1h30m is wanted, not '3 parsecs'
orders.yaml:21: options.rate_limit: a rate like 100/s or 6000/m is wanted, not 'fast'
orders.yaml:22: options.concurrency: a number at least 1 is wanted, not 0
orders.yaml:23: options.breaker: a map is wanted, not a list
orders.yaml:24: topics: unknown key; it belongs under source.config
orders.yaml:25: colour: unknown key; allowed: name, enabled, source, filters, transform, action, options, datahub
orders.yaml:26: datahub.sever: unknown key; did you mean 'server'?
orders.yaml:27: enabled: true or false is wanted, not 'perhaps'
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def said(text: str, environ: dict[str, str] | None = None) -> list[Problem]:
    Path("orders.yaml").write_text(text)
    return load(["orders.yaml"], environ or {}).problems


def test_all_mistakes_are_said_at_once_each_at_its_line() -> None:
    assert "".join(f"{problem}\n" for problem in said(MANY_MISTAKES)) == GOLDEN


def test_a_problem_is_data() -> None:
    problem = next(p for p in said(MANY_MISTAKES) if p.path == "source.config.format")
    assert problem.as_dict() == {
        "file": "orders.yaml",
        "line": 7,
        "column": 5,
        "path": "source.config.format",
        "message": "'jsn' is none of json, avro, text, raw, datahub, wherehows",
        "received": "jsn",
        "allowed": ["json", "avro", "text", "raw", "datahub", "wherehows"],
        "hint": "did you mean 'json'?",
    }


def test_a_number_where_a_text_is_wanted() -> None:
    (problem,) = said("name: 5\nsource: {config: {topics: [a]}}\naction: {type: x}\n")
    assert str(problem) == "orders.yaml:1: name: a text is wanted, not 5; write it in quotes"


def test_rules_between_keys() -> None:
    text = "name: p\nsource:\n  config:\n    topics: [a]\n    topic_pattern: ^a\naction: {type: x}\n"
    assert [*map(str, said(text))] == [
        "orders.yaml:5: source.config.topic_pattern: give either topics or topic_pattern, not both"
    ]
    text = "name: p\nsource: {config: {topics: [a]}}\naction: {type: x}\noptions:\n  drain_timeout: 5m\n"
    assert [*map(str, said(text))] == [
        "orders.yaml:5: options.drain_timeout: 300 s is too long for max.poll.interval.ms, which is 300 s; it must stay more than 10 s below"
    ]
    text = "name: p\nsource:\n  type: pg_queue\n  config: [queue]\naction: {type: x}\n"
    assert [*map(str, said(text))] == ["orders.yaml:4: source.config: a map is wanted, not list"]


def test_i08_problems_hide_secrets() -> None:
    text = """\
name: p
source:
  config:
    topics: [a]
    connection:
      schema_registry_url: [http://u:urlpass@r]
      consumer_config: {sasl.password: hunter22}
      password: hunter22
    group: [hunter22]
action: {type: x, config: {token: "${TOKEN}"}}
options: {timeout: "${TOKEN}"}
datahub: {server: http://x, token: {a: hunter33}, auth: {type: hunter44}}
"""
    found = said(text, {"TOKEN": "t0psecret"})
    assert len(found) >= 4
    for problem in found:
        shown = f"{problem} {problem!r} {problem.as_dict()}"
        for secret in ("hunter22", "urlpass", "t0psecret", "hunter33"):
            assert secret not in shown


def test_invalid_config_is_an_error_with_problems() -> None:
    error = InvalidConfigError(said(MANY_MISTAKES))
    assert str(error) == GOLDEN.rstrip("\n")
    assert error.as_dict()["problems"] == [problem.as_dict() for problem in error.problems]
