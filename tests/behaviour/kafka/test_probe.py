"""`penstock dry-run`'s steps, each reported apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from penstock.config.spec import PipelineSpec
from penstock.kafka.embedded import EmbeddedCluster
from penstock.kafka.probe import Finding, probe
from tests.support.certs import make_certificates
from tests.support.kafka import KafkaBroker
from tests.support.ports import free_port
from tests.support.registry import RegistryServer
from tests.support.waiting import until


def spec_of(bootstrap: str, *topics: str, **connection: Any) -> PipelineSpec:
    config = {"topics": list(topics) or ["orders"], "connection": {"bootstrap": bootstrap, **connection}}
    return PipelineSpec.model_validate(
        {"name": "probed", "source": {"config": config}, "action": {"type": "hello_world"}}
    )


def run(spec: PipelineSpec, timeout: float = 3.0) -> dict[str, Finding]:
    """Findings by step; of topics the last."""
    return {finding.step: finding for finding in probe(spec, timeout)}


def outcome(findings: dict[str, Finding]) -> dict[str, bool | None]:
    return {step: finding.ok for step, finding in findings.items()}


def test_all_is_well(kafka: KafkaBroker, registry: RegistryServer) -> None:
    topic = kafka.create_topic(f"probe-{free_port()}", 3)
    registry.register("s", '{"type": "string"}')
    found = run(spec_of(kafka.bootstrap, topic, schema_registry_url=registry.url))
    assert outcome(found) == dict.fromkeys(["config", "dns", "tcp", "metadata", "topic", "group", "registry"], True)
    assert found["topic"].detail == "3 partitions"
    assert found["registry"].detail == "1 subjects"


def test_the_embedded_cluster() -> None:
    with EmbeddedCluster(brokers=1) as cluster:
        cluster.create_topic("orders")
        found = run(spec_of(cluster.bootstrap))
    assert outcome(found) == dict.fromkeys(["config", "dns", "tcp", "metadata", "topic", "group"], True)


def test_every_topic_is_reported(kafka: KafkaBroker) -> None:
    topic = kafka.create_topic(f"probe-{free_port()}")
    found = [f for f in probe(spec_of(kafka.bootstrap, topic, "no-such-topic")) if f.step == "topic"]
    assert [(f.target, f.ok) for f in found] == [(topic, True), ("no-such-topic", False)]
    assert found[1].hint


def test_a_pattern_says_what_it_matches(kafka: KafkaBroker) -> None:
    stem = f"probe-{free_port()}"
    kafka.create_topic(f"{stem}-a")
    config = {"topic_pattern": f"^{stem}-.*", "connection": {"bootstrap": kafka.bootstrap}}
    given = {"name": "probed", "source": {"config": config}, "action": {"type": "hello_world"}}
    found = run(PipelineSpec.model_validate(given))
    assert found["topic"].ok
    assert f"{stem}-a" in found["topic"].detail


def test_a_wrong_property() -> None:
    found = run(spec_of("127.0.0.1:9", consumer_config={"sesion.timeout.ms": 1}))
    assert outcome(found) == {"config": False, "metadata": None, "topic": None, "group": None}
    assert "sesion.timeout.ms" in found["config"].detail


def test_a_name_that_does_not_resolve() -> None:
    found = run(spec_of("no-such-host.invalid:9092"))
    assert outcome(found) == {
        "config": True,
        "dns": False,
        "tcp": None,
        "metadata": None,
        "topic": None,
        "group": None,
    }
    assert found["tcp"].detail == "skipped: dns failed"


def test_a_port_that_is_closed() -> None:
    found = run(spec_of(f"127.0.0.1:{free_port()}"))
    assert (found["dns"].ok, found["tcp"].ok, found["metadata"].ok) == (True, False, None)
    assert "refused" in found["tcp"].detail


def test_one_address_of_two_is_enough(kafka: KafkaBroker) -> None:
    topic = kafka.create_topic(f"probe-{free_port()}")
    dead = f"127.0.0.1:{free_port()}"
    findings = list(probe(spec_of(f"{dead},{kafka.bootstrap}", topic)))
    assert [(f.target, f.ok) for f in findings if f.step == "tcp"] == [(dead, False), (kafka.bootstrap, True)]
    assert next(f.ok for f in findings if f.step == "topic")


def test_tls_and_log_in(secure_kafka: KafkaBroker) -> None:
    properties = secure_kafka.client_config("SASL_SSL")
    bootstrap = properties.pop("bootstrap.servers")
    topic = secure_kafka.create_topic(f"probe-{free_port()}")
    found = run(spec_of(bootstrap, topic, consumer_config=properties))
    wanted = ["config", "dns", "tcp", "tls", "sasl", "metadata", "topic", "group"]
    assert outcome(found) == dict.fromkeys(wanted, True)
    assert "TLS" in found["tls"].detail
    assert "SCRAM-SHA-512" in found["sasl"].detail


@pytest.mark.parametrize("kind", ["files", "texts"])
def test_mutual_tls(secure_kafka: KafkaBroker, kind: str) -> None:
    properties = secure_kafka.client_config("MTLS")
    bootstrap = properties.pop("bootstrap.servers")
    if kind == "texts":
        names = {"ssl.certificate.location": "ssl.certificate.pem", "ssl.key.location": "ssl.key.pem"}
        properties |= {new: Path(properties.pop(old)).read_text() for old, new in names.items()}
    found = run(spec_of(bootstrap, consumer_config=properties))
    assert (found["tls"].ok, found["metadata"].ok) == (True, True)


def test_a_wrong_password(secure_kafka: KafkaBroker) -> None:
    properties = secure_kafka.client_config("SASL_PLAINTEXT", **{"sasl.password": "wr0ng-pass"})
    bootstrap = properties.pop("bootstrap.servers")
    found = run(spec_of(bootstrap, consumer_config=properties))
    assert (found["tcp"].ok, found["sasl"].ok, found["metadata"].ok, found["topic"].ok) == (True, False, None, None)
    assert not any("wr0ng-pass" in str(finding.as_dict()) for finding in found.values())


def test_a_certificate_nobody_knows(secure_kafka: KafkaBroker, tmp_path: Path) -> None:
    other = make_certificates(tmp_path)
    properties = {"security.protocol": "SSL", "ssl.ca.location": str(other.ca_file)}
    found = run(spec_of(secure_kafka.bootstrap_for("SSL"), consumer_config=properties))
    assert (found["tcp"].ok, found["tls"].ok, found["metadata"].ok) == (True, False, None)
    assert "certificate" in found["tls"].detail


def test_a_group_in_use_by_another_kind_of_consumer(kafka: KafkaBroker) -> None:
    topic = kafka.create_topic(f"probe-{free_port()}")
    spec = spec_of(kafka.bootstrap, topic)
    other = {"group.id": spec.group, "partition.assignment.strategy": "range"}
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, **other})
    try:
        consumer.subscribe([topic])
        until(lambda: consumer.poll(0.1) or consumer.assignment(), 20, "the group is joined")
        found = run(spec)["group"]
    finally:
        consumer.close()
    assert found.ok is False
    assert found.hint is not None
    assert "stop the old consumer first" in found.hint


def test_a_registry_that_is_away_or_wrong(registry: RegistryServer) -> None:
    with EmbeddedCluster(brokers=1) as cluster:
        cluster.create_topic("orders")
        away = run(spec_of(cluster.bootstrap, schema_registry_url=f"http://u:hush@127.0.0.1:{free_port()}"))
        registry.faults.garbage = b"<html>"
        wrong = run(spec_of(cluster.bootstrap, schema_registry_url=registry.url))
    assert (away["topic"].ok, away["registry"].ok, wrong["registry"].ok) == (True, False, False)
    assert "hush" not in str(away["registry"].as_dict())
