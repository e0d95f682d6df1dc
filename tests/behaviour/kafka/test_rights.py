"""A broker with access rules: what a user may not do is told apart from what is not there. Tokens log in, too."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType

from penstock.config.spec import ConnectionSpec, PipelineSpec
from penstock.kafka.admin import ClusterView
from penstock.kafka.client import KafkaClientConfig
from penstock.kafka.errors import NotAuthorized
from penstock.kafka.probe import Finding, probe
from penstock.kafka.producer import NewRecord, RecordProducer
from tests.support.certs import make_certificates
from tests.support.kafka import KafkaBroker, Security
from tests.support.waiting import until

OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
_UNSECURED = "org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecured"


@pytest.fixture(scope="module")
def strict_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """Nobody but the plain listener may do anything; `app` logs in by password, anyone by an unsigned token."""
    security = Security({"app": "s3cret-app"}, make_certificates(tmp_path_factory.mktemp("certificates")))
    oauth = "listener.name.sasl_plaintext.oauthbearer."
    properties = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:bearer",
        "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512,OAUTHBEARER",
        f"{oauth}sasl.jaas.config": f'{OAUTH} required unsecuredLoginStringClaim_sub="broker";',
        f"{oauth}sasl.server.callback.handler.class": f"{_UNSECURED}ValidatorCallbackHandler",
        f"{oauth}sasl.login.callback.handler.class": f"{_UNSECURED}LoginCallbackHandler",
    }
    with KafkaBroker(security=security, properties=properties) as broker:
        yield broker


def app(broker: KafkaBroker) -> dict[str, Any]:
    login = {"sasl.mechanism": "PLAIN", "sasl.username": "app", "sasl.password": "s3cret-app"}
    return {"security.protocol": "SASL_PLAINTEXT", **login}


def allow(broker: KafkaBroker, kind: ResourceType, name: str, *operations: AclOperation) -> None:
    rules = [
        AclBinding(kind, name, ResourcePatternType.LITERAL, "User:app", "*", operation, AclPermissionType.ALLOW)
        for operation in operations
    ]
    for done in broker.admin.create_acls(rules).values():
        done.result(20)


def probed(broker: KafkaBroker, topic: str, group: str) -> dict[str, Finding]:
    connection = {"bootstrap": broker.bootstrap_for("SASL_PLAINTEXT"), "consumer_config": app(broker)}
    config = {"topics": [topic], "group": group, "connection": connection}
    spec = PipelineSpec.model_validate(
        {"name": "probed", "source": {"config": config}, "action": {"type": "hello_world"}}
    )
    return {finding.step: finding for finding in probe(spec)}


def test_missing_rights_are_found_without_joining_the_group(strict_kafka: KafkaBroker) -> None:
    strict_kafka.create_topic("guarded")
    allow(strict_kafka, ResourceType.TOPIC, "guarded", AclOperation.DESCRIBE)
    allow(strict_kafka, ResourceType.GROUP, "readers", AclOperation.DESCRIBE)
    found = until(lambda: _seen(probed(strict_kafka, "guarded", "readers")), 20, "the rules are in force")
    assert (found["sasl"].ok, found["metadata"].ok, found["topic"].ok, found["group"].ok) == (True, True, False, False)
    assert "no right to read topic guarded" in found["topic"].detail
    assert "no right to join group readers" in found["group"].detail

    allow(strict_kafka, ResourceType.TOPIC, "guarded", AclOperation.READ)
    allow(strict_kafka, ResourceType.GROUP, "readers", AclOperation.READ)

    def granted() -> bool:
        again = probed(strict_kafka, "guarded", "readers")
        return again["topic"].ok is True and again["group"].ok is True

    until(granted, 20, "the rights are granted")


def _seen(found: dict[str, Finding]) -> dict[str, Finding] | None:
    return found if "no such topic" not in found["topic"].detail else None


def test_a_group_we_may_not_see(strict_kafka: KafkaBroker) -> None:
    found = probed(strict_kafka, "nothing", "secret-group")
    assert found["topic"].ok is False
    assert found["group"].ok is False
    assert "uthorization" in found["group"].detail


def test_producing_without_the_right_is_terminal(strict_kafka: KafkaBroker) -> None:
    strict_kafka.create_topic("read-only")
    connection = ConnectionSpec(
        bootstrap=strict_kafka.bootstrap_for("SASL_PLAINTEXT"), consumer_config=app(strict_kafka)
    )
    with RecordProducer(KafkaClientConfig.of(connection), {"enable.idempotence": False}, timeout=10) as producer:
        (result,) = producer.send([NewRecord("read-only", b"x")])
    assert isinstance(result, NotAuthorized)


def unsigned_token(_config: str) -> tuple[str, float]:
    """What an `oauth_cb` returns: a token and when it ends."""
    end = time.time() + 600
    parts = [{"alg": "none"}, {"sub": "bearer", "iat": time.time(), "exp": end}]
    return ".".join(base64.urlsafe_b64encode(json.dumps(p).encode()).decode().rstrip("=") for p in parts) + ".", end


@pytest.mark.parametrize(
    "how",
    [
        {"oauth_cb": f"{__name__}:unsigned_token"},
        {"sasl.jaas.config": f'{OAUTH} required unsecuredLoginStringClaim_sub="bearer";'},
    ],
)
def test_tokens(strict_kafka: KafkaBroker, how: dict[str, str]) -> None:
    properties = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER", **how}
    connection = ConnectionSpec(bootstrap=strict_kafka.bootstrap_for("SASL_PLAINTEXT"), consumer_config=properties)
    assert ClusterView(KafkaClientConfig.of(connection)).brokers()
