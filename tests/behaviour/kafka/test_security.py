"""Log-in and encryption on a real broker: librdkafka's keys, Java's keys, and stores of every kind."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key, pkcs12

from penstock.config.spec import ConnectionSpec
from penstock.core.errors import Transient
from penstock.kafka.admin import ClusterView
from penstock.kafka.client import KafkaClientConfig
from penstock.kafka.errors import AuthenticationFailed
from penstock.kafka.producer import NewRecord, produce
from tests.support.certs import Certificates, make_certificates
from tests.support.kafka import KafkaBroker

MODULES = "org.apache.kafka.common.security"
PASSWORD = "st0re-pass"


def certificates(broker: KafkaBroker) -> Certificates:
    assert broker.security
    return broker.security.certificates


def client_of(broker: KafkaBroker, listener: str, **properties: Any) -> KafkaClientConfig:
    given = {name.replace("__", "."): value for name, value in properties.items()}
    connection = ConnectionSpec(bootstrap=broker.bootstrap_for(listener), consumer_config=given)
    return KafkaClientConfig.of(connection)


def jaas(module: str, password: str = "s3cret-app") -> str:  # noqa: S107 - the test broker's user
    return f'{MODULES}.{module} required username="app" password="{password}";'


@pytest.fixture
def works(secure_kafka: KafkaBroker, request: pytest.FixtureRequest) -> Callable[[KafkaClientConfig], None]:
    """Produce with the configuration and see the record's place: the whole way through."""

    def check(config: KafkaClientConfig) -> None:
        topic = f"secure-{abs(hash(request.node.name))}"
        ClusterView(config).create_topic(topic)
        assert produce(config, [NewRecord(topic, b"x")]) == [(0, 0)]

    return check


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL", "SSL", "MTLS"])
def test_librdkafka_keys(secure_kafka: KafkaBroker, works: Callable[..., None], listener: str) -> None:
    properties = secure_kafka.client_config(listener)
    del properties["bootstrap.servers"]
    works(client_of(secure_kafka, listener, **properties))


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize(
    ("mechanism", "module"), [("PLAIN", "plain.PlainLoginModule"), ("SCRAM-SHA-512", "scram.ScramLoginModule")]
)
def test_java_log_in_lines(
    secure_kafka: KafkaBroker, works: Callable[..., None], listener: str, mechanism: str, module: str
) -> None:
    trust: dict[str, str] = {}
    if listener == "SASL_SSL":
        ca_file = str(certificates(secure_kafka).ca_file)
        trust = {"ssl.truststore.type": "PEM", "ssl.truststore.location": ca_file}
    config = client_of(
        secure_kafka,
        listener,
        **{"security.protocol": listener, "sasl.mechanism": mechanism, "sasl.jaas.config": jaas(module)},
        **trust,
    )
    works(config)


@pytest.mark.parametrize("kind", ["PEM", "PKCS12", "JKS"])
def test_mutual_tls_with_stores(
    secure_kafka: KafkaBroker, works: Callable[..., None], tmp_path: Path, kind: str
) -> None:
    key_store, trust_store = make_stores(certificates(secure_kafka), tmp_path, kind)
    java = {
        "security.protocol": "SSL",
        "ssl.keystore.type": kind,
        "ssl.keystore.location": str(key_store),
        "ssl.truststore.type": kind,
        "ssl.truststore.location": str(trust_store),
    }
    if kind != "PEM":
        java |= {"ssl.keystore.password": PASSWORD, "ssl.truststore.password": PASSWORD}
    works(client_of(secure_kafka, "MTLS", **java))


def make_stores(certs: Certificates, folder: Path, kind: str) -> tuple[Path, Path]:
    if kind == "PEM":
        store = folder / "key.pem"
        store.write_bytes(certs.client_key.read_bytes() + certs.client_cert.read_bytes())
        return store, certs.ca_file
    key_store, trust_store = folder / "key.p12", folder / f"trust.{kind.lower()}"
    key: Any = load_pem_private_key(certs.client_key.read_bytes(), None)
    cert = x509.load_pem_x509_certificate(certs.client_cert.read_bytes())
    how = BestAvailableEncryption(PASSWORD.encode())
    key_store.write_bytes(pkcs12.serialize_key_and_certificates(b"me", key, cert, None, how))
    trust = ["-importcert", "-alias", "ca", "-file", str(certs.ca_file), "-keystore", str(trust_store)]
    keytool(*trust, "-storetype", kind, "-storepass", PASSWORD)
    if kind == "JKS":
        jks = folder / "key.jks"
        source = ["-srckeystore", str(key_store), "-srcstoretype", "PKCS12", "-srcstorepass", PASSWORD]
        keytool(
            "-importkeystore", *source, "-destkeystore", str(jks), "-deststoretype", "JKS", "-deststorepass", PASSWORD
        )
        key_store = jks
    return key_store, trust_store


def keytool(*arguments: str) -> None:
    subprocess.run(["keytool", "-noprompt", *arguments], check=True, capture_output=True)


@pytest.mark.parametrize(
    ("mechanism", "module"), [("PLAIN", "plain.PlainLoginModule"), ("SCRAM-SHA-512", "scram.ScramLoginModule")]
)
def test_a_wrong_password_is_told_as_such(secure_kafka: KafkaBroker, mechanism: str, module: str) -> None:
    line = jaas(module, "wr0ng-pass")
    config = client_of(
        secure_kafka,
        "SASL_PLAINTEXT",
        **{"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism, "sasl.jaas.config": line},
    )
    with pytest.raises(AuthenticationFailed) as caught:
        ClusterView(config, timeout=3).topics()
    assert isinstance(caught.value, Transient)
    assert "wr0ng-pass" not in str(caught.value.as_dict())


def test_a_certificate_of_another_authority_is_told(secure_kafka: KafkaBroker, tmp_path: Path) -> None:
    other = make_certificates(tmp_path)
    config = client_of(secure_kafka, "SSL", **{"security.protocol": "SSL", "ssl.ca.location": str(other.ca_file)})
    with pytest.raises(AuthenticationFailed, match="certificate"):
        ClusterView(config, timeout=3).topics()


def test_a_missing_client_certificate_is_an_error(secure_kafka: KafkaBroker) -> None:
    ca_file = str(certificates(secure_kafka).ca_file)
    config = client_of(secure_kafka, "MTLS", **{"security.protocol": "SSL", "ssl.ca.location": ca_file})
    with pytest.raises(AuthenticationFailed):
        ClusterView(config, timeout=3).topics()


def test_host_names_are_checked_unless_told_otherwise(secure_kafka: KafkaBroker) -> None:
    ca_file = str(certificates(secure_kafka).ca_file)
    java = {"security.protocol": "SSL", "ssl.truststore.location": ca_file}
    config = client_of(secure_kafka, "SSL", **java, **{"ssl.endpoint.identification.algorithm": ""})
    assert dict(config.properties)["ssl.endpoint.identification.algorithm"] == "none"
    assert ClusterView(config).brokers()
