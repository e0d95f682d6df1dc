"""`KAFKA_PROPERTIES_*` and `enabled`, by DataHub's rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.config.dialects.datahub_environment import env_properties
from penstock.config.loading import Loaded, load
from penstock.kafka.client import KafkaClientConfig

FILE = (
    "name: p\nsource: {{type: kafka, config: {{connection: {{consumer_config: {{{given}}}}}}}}}\naction: {{type: a}}\n"
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def loaded(given: str, environ: dict[str, str]) -> Loaded:
    Path("p.yaml").write_text(FILE.format(given=given))
    return load(["p.yaml"], environ)


def test_environment_names_become_property_names() -> None:
    found = env_properties(
        {
            "KAFKA_PROPERTIES_SECURITY_PROTOCOL": "SASL_SSL",
            "KAFKA_PROPERTIES_OAUTH_CB": "module:function",
            "KAFKA_PROPERTIES_CLIENT_ID": "",
            "OTHER": "x",
        }
    )
    assert found == {"security.protocol": "SASL_SSL", "oauth_cb": "module:function"}


@pytest.mark.parametrize(
    "name",
    [
        "SSL_KEYSTORE_LOCATION",
        "SSL_TRUSTSTORE_PASSWORD",
        "KAFKASTORE_TOPIC",
        "BASIC_AUTH_USER_INFO",
        "SCHEMA_REGISTRY_URL",
        "SASL_JAAS_CONFIG",
        "SASL_CLIENT_CALLBACK_HANDLER_CLASS",
        "SASL_LOGIN_CLASS",
        "SASL_LOGIN_CALLBACK_HANDLER_CLASS",
        "SSL_PROTOCOL",
        "SSL_ENABLED_PROTOCOLS",
        "PARTITION_ASSIGNMENT_STRATEGY",
        "GROUP_ID",
    ],
)
def test_some_are_never_taken(name: str) -> None:
    assert env_properties({f"KAFKA_PROPERTIES_{name}": "x"}) == {}


@pytest.mark.parametrize(("switch", "count"), [("false", 0), ("False", 0), ("true", 1), ("", 1)])
def test_the_switch(switch: str, count: int) -> None:
    environ = {"KAFKA_PROPERTIES_CLIENT_ID": "me", "DATAHUB_ACTIONS_KAFKA_ENV_PROPERTIES_ENABLED": switch}
    assert len(env_properties(environ)) == count


def test_the_file_goes_before_the_environment_and_the_environment_before_defaults() -> None:
    environ = {
        "KAFKA_PROPERTIES_CLIENT_ID": "theirs",
        "KAFKA_PROPERTIES_SESSION_TIMEOUT_MS": "7000",
        "KAFKA_PROPERTIES_AUTO_OFFSET_RESET": "earliest",
        "KAFKA_PROPERTIES_SASL_PASSWORD": "hunter22",
    }
    (spec,) = loaded("client.id: mine, group.id: other, max.poll.interval.ms: 60000", environ).specs
    client = dict(KafkaClientConfig.of(spec.source.config.connection).properties)
    assert (client["client.id"], client["session.timeout.ms"], client["max.poll.interval.ms"]) == (
        "mine",
        "7000",
        "60000",
    )
    assert (spec.group, spec.source.config.start_position) == ("other", "earliest")
    assert "hunter22" in spec.secrets
    assert "hunter22" not in str(spec.shown())


def test_native_files_do_not_look_at_them() -> None:
    Path("p.yaml").write_text("name: p\nsource: {type: kafka, config: {topics: [t]}}\naction: {type: a}\n")
    (spec,) = load(["p.yaml"], {"KAFKA_PROPERTIES_CLIENT_ID": "me"}).specs
    assert spec.source.config.connection.consumer_config == {}


def test_what_penstock_decides_is_not_taken_from_there_and_said() -> None:
    result = loaded("", {"KAFKA_PROPERTIES_ENABLE_AUTO_COMMIT": "true"})
    assert result.specs[0].source.config.connection.consumer_config == {}
    (warning,) = result.warnings
    assert "variable KAFKA_PROPERTIES_ENABLE_AUTO_COMMIT is not used" in warning.message


def test_the_poll_interval_that_datahub_itself_uses_is_honoured() -> None:
    (spec,) = loaded("max.poll.interval.ms: 10000, session.timeout.ms: 6000", {}).specs
    assert spec.options.drain_timeout == 5
    client = dict(KafkaClientConfig.of(spec.source.config.connection).properties)
    assert (client["max.poll.interval.ms"], client["session.timeout.ms"]) == ("10000", "6000")


@pytest.mark.parametrize("word", ["false", "no", '"no"', "off", "'OFF'", "f", "'N'", "0", "'0'", "${SWITCH:-false}"])
def test_disabled(word: str) -> None:
    Path("p.yaml").write_text(f"name: p\nenabled: {word}\nsource: {{type: kafka}}\naction: {{type: '${{UNSET}}'}}\n")
    result = load(["p.yaml"], {})
    assert (result.specs, result.problems) == ([], [])
    assert [*map(str, result.warnings)] == ["p.yaml:2: enabled: pipeline 'p' is disabled and was skipped"]


@pytest.mark.parametrize("word", ["true", "yes", '"yes"', "on", "'T'", "y", "1", "${SWITCH:-true}"])
def test_enabled(word: str) -> None:
    Path("p.yaml").write_text(f"name: p\nenabled: {word}\nsource: {{type: kafka}}\naction: {{type: a}}\n")
    assert len(load(["p.yaml"], {}).specs) == 1


def test_neither() -> None:
    Path("p.yaml").write_text("name: p\nenabled: maybe\nsource: {type: kafka}\naction: {type: a}\n")
    assert [*map(str, load(["p.yaml"], {}).problems)] == [
        "p.yaml:2: enabled: true or false is wanted, not 'maybe'",
    ]
