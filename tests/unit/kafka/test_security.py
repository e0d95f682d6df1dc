"""Java-style keys in librdkafka's words."""

from __future__ import annotations

import pytest

from penstock.config.spec import ConnectionSpec
from penstock.core.errors import ConfigError
from penstock.kafka.client import KafkaClientConfig
from penstock.kafka.security import from_jaas, to_librdkafka

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


def test_a_plain_line() -> None:
    found = from_jaas(f'{PLAIN} required username="app" password="s3cret";', None)
    assert found == {"sasl.mechanisms": "PLAIN", "sasl.username": "app", "sasl.password": "s3cret"}


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_scram_line(mechanism: str) -> None:
    found = from_jaas(f"{SCRAM} required username='app' password='s3cret' ;", mechanism)
    assert found == {"sasl.mechanisms": mechanism, "sasl.username": "app", "sasl.password": "s3cret"}


def test_quotes_line_breaks_and_semicolons_in_a_password() -> None:
    found = from_jaas(f'{PLAIN}\n  required\n  username="a"\n  password="x;\\"y\\" = z\\\\";\n', None)
    assert found["sasl.password"] == 'x;"y" = z\\'


def test_client_credentials() -> None:
    found = from_jaas(f'{OAUTH} required clientId="id" clientSecret="hush" scope="kafka";', "OAUTHBEARER")
    assert found == {
        "sasl.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "id",
        "sasl.oauthbearer.client.secret": "hush",
        "sasl.oauthbearer.scope": "kafka",
    }


def test_an_unsecured_token() -> None:
    found = from_jaas(f'{OAUTH} required unsecuredLoginStringClaim_sub="me";', None)
    assert found["sasl.oauthbearer.config"] == "principal=me"
    assert found["enable.sasl.oauthbearer.unsecure.jwt"] == "true"


@pytest.mark.parametrize(
    "line",
    [
        "",
        "nonsense",
        f'{PLAIN} username="app" password="s3cret";',
        f'{PLAIN} required username="app";',
        f'{SCRAM} required username="app" password="s3cret";',
        'com.sun.security.auth.module.Krb5LoginModule required useKeyTab="true" password="s3cret";',
    ],
)
def test_a_line_that_cannot_be_used_is_told_without_its_password(line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        from_jaas(line, None)
    assert "s3cret" not in str(caught.value.as_dict())


def test_java_only_keys_are_left_out_with_a_warning() -> None:
    found, warnings = to_librdkafka({"key.deserializer": "x.Y", "max.poll.records": "5", "client.id": "me"})
    assert found == {"client.id": "me"}
    assert [warning.split()[0] for warning in warnings] == ["key.deserializer", "max.poll.records"]


@pytest.mark.parametrize(("given", "meant"), [("", "none"), ("https", "https")])
def test_host_name_checks(given: str, meant: str) -> None:
    found, _ = to_librdkafka({"ssl.endpoint.identification.algorithm": given})
    assert found == {"ssl.endpoint.identification.algorithm": meant}


def test_a_java_configuration_makes_a_client() -> None:
    java = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": f'{SCRAM} required username="app" password="s3cret";',
        "fetch.max.wait.ms": 250,
        "key.deserializer": "org.apache.kafka.common.serialization.StringDeserializer",
        "receive.buffer.bytes": 65536,
        "ssl.endpoint.identification.algorithm": "",
    }
    config = KafkaClientConfig.of(ConnectionSpec(bootstrap="broker:9092", consumer_config=java))
    found = dict(config.properties)
    assert found["sasl.mechanisms"] == "SCRAM-SHA-512"
    assert found["sasl.password"] == "s3cret"
    assert found["fetch.wait.max.ms"] == "250"
    assert "sasl.jaas.config" not in found
    assert len(config.warnings) == 1
