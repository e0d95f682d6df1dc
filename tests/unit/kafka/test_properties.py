"""Properties from DataHub's environment, and those an API caller may set."""

from __future__ import annotations

import pytest

from penstock.core.errors import ConfigError
from penstock.kafka.properties import env_properties, refuse_dangerous


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
        "SASL_JAAS_CONFIG",
        "GROUP_ID",
        "PARTITION_ASSIGNMENT_STRATEGY",
        "BASIC_AUTH_USER_INFO",
        "SCHEMA_REGISTRY_URL",
    ],
)
def test_some_are_never_taken(name: str) -> None:
    assert env_properties({f"KAFKA_PROPERTIES_{name}": "x"}) == {}


def test_the_switch_turns_them_off() -> None:
    environ = {"KAFKA_PROPERTIES_CLIENT_ID": "me", "DATAHUB_ACTIONS_KAFKA_ENV_PROPERTIES_ENABLED": "False"}
    assert env_properties(environ) == {}


@pytest.mark.parametrize(
    "name",
    [
        "plugin.library.paths",
        "oauth_cb",
        "ssl.ca.location",
        "ssl.keystore.location",
        "ssl.engine.location",
        "sasl.kerberos.kinit.cmd",
        "sasl.oauthbearer.token.endpoint.url",
        "https.ca.location",
        "bootstrap.servers",
        "some.future.property",
    ],
)
def test_an_api_caller_cannot_load_code_or_files(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        refuse_dangerous({name: "x", "client.id": "me"})
    assert caught.value.received == [name]


def test_an_api_caller_may_log_in_with_texts() -> None:
    refuse_dangerous({"security.protocol": "SASL_SSL", "sasl.username": "a", "sasl.password": "b", "ssl.ca.pem": "c"})
