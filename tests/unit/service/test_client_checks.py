"""What `validate` says about connections and predicates, and at which line."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.service.validation import Report, validate

HEAD = """\
name: p
source:
  type: kafka
  config:
    connection:
      consumer_config:
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def checked(*properties: str, more: str = "action: {type: hello_world}\n") -> Report:
    lines = "".join(f"        {line}\n" for line in properties)
    Path("p.yaml").write_text(HEAD + lines + more)
    Path("good.yaml").write_text("name: good\nsource: {type: kafka}\naction: {type: hello_world}\n")
    report = validate(["p.yaml", "good.yaml"])
    assert "good" in [spec.name for spec in report.pipelines]
    return report


@pytest.mark.parametrize(
    ("lines", "place"),
    [
        (["client.id: x", "sesion.timeout.ms: 5000"], "p.yaml:8: {}.sesion.timeout.ms: "),
        (["security.protocol: QUIC"], "p.yaml:7: {}.security.protocol: "),
        (["oauth_cb: callbacks:two"], "p.yaml:7: {}.oauth_cb: oauth_cb must be a function of exactly one"),
        (["oauth_cb: nowhere:f"], "p.yaml:7: {}.oauth_cb: `nowhere:f`: there is no module `nowhere`"),
        (
            ["security.protocol: SASL_SSL", "sasl.jaas.config: org.Weird required password=hunter22;"],
            "p.yaml:8: {}.sasl.jaas.config: this login module",
        ),
    ],
)
def test_what_the_client_refuses_is_told_at_its_line(lines: list[str], place: str) -> None:
    Path("callbacks.py").write_text("def two(a, b): ...\n")
    report = checked(*lines)
    (problem,) = report.problems
    assert str(problem).startswith(place.format("source.config.connection.consumer_config")), str(problem)
    assert "hunter22" not in str(problem)


def test_a_callback_beside_the_file_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "site_tokens.py").write_text("def token(config): ...\n")
    lines = ["security.protocol: SASL_SSL", "sasl.mechanism: OAUTHBEARER", "oauth_cb: site_tokens:token"]
    text = HEAD + "".join(f"        {line}\n" for line in lines) + "action: {type: hello_world}\n"
    (tmp_path / "site" / "p.yaml").write_text(text)
    assert [*map(str, validate(["site/p.yaml"]).problems)] == []


def test_javas_keys_of_datahubs_documentation() -> None:
    report = checked(
        "security.protocol: SSL",
        "ssl.keystore.location: /mnt/certs/keystore",
        "ssl.truststore.location: /mnt/certs/truststore",
        "ssl.keystore.password: hunter22",
        "ssl.key.password: hunter22",
        "ssl.truststore.password: hunter22",
        "ssl.protocol: TLS",
    )
    assert [*map(str, report.problems)] == []
    missing = [warning for warning in report.warnings if "no such file" in warning.message]
    assert [warning.line for warning in missing] == [8, 9]
    assert "hunter22" not in "".join(map(str, report.warnings))


def test_predicates_that_can_never_match_are_warned_of() -> None:
    more = (
        "filters:\n"
        "  - type: event_type\n"
        "    config:\n"
        "      filter:\n"
        "        A:\n"
        "          event:\n"
        "            - {version: [1, 2]}\n"
        "        B: {event: []}\n"
        "  - type: match\n"
        "    config: {event: {since: 2026-01-01}}\n"
        "filter: {event_type: A, event: {x: {y: []}}}\n"
        "action: {type: hello_world}\n"
    )
    report = checked("client.id: x", more=more)
    said = [(warning.line, warning.path) for warning in report.warnings if "`event" in warning.message]
    assert said == [
        (14, "filters[0].config.filter.A.event[0]"),
        (15, "filters[0].config.filter.B.event"),
        (17, "filters[1].config.event"),
        (18, "filter.event"),
    ]
    assert len(report.pipelines) == 2
