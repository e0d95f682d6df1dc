"""A registry that is slow, broken, away or closed to us is an outage; it never looks like a missing schema."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.kafka.registry.client import Registry, RegistryUnavailable
from tests.support.certs import make_certificates
from tests.support.registry import RegistryServer

SCHEMA = '{"type": "string"}'


def test_server_errors(registry: RegistryServer) -> None:
    number = registry.register("s", SCHEMA)
    registry.faults.status = 503
    with pytest.raises(RegistryUnavailable, match="503"):
        Registry(registry.url).schema(number)


def test_garbage(registry: RegistryServer) -> None:
    number = registry.register("s", SCHEMA)
    registry.faults.garbage = b"<html>welcome</html>"
    with pytest.raises(RegistryUnavailable):
        Registry(registry.url).schema(number)


def test_latency_beyond_the_timeout(registry: RegistryServer) -> None:
    number = registry.register("s", SCHEMA)
    registry.faults.latency_s = 1.0
    with pytest.raises(RegistryUnavailable):
        Registry(registry.url, {"max.retries": 0}, timeout=0.2).schema(number)


def test_down_and_up_again(registry: RegistryServer) -> None:
    number = registry.register("s", SCHEMA)
    client = Registry(registry.url)
    registry.down()
    with pytest.raises(RegistryUnavailable):
        client.schema(number)
    registry.up()
    assert client.schema(number).text == SCHEMA


def test_a_known_schema_outlives_the_registry(registry: RegistryServer) -> None:
    number = registry.register("s", SCHEMA)
    client = Registry(registry.url)
    client.schema(number)
    registry.down()
    assert client.schema(number).text == SCHEMA
    assert sum(request.startswith(f"GET /schemas/ids/{number}") for request in registry.requests) == 1


def test_a_password_is_asked_for() -> None:
    with RegistryServer(auth=("app", "s3cret")) as server:
        number = server.register("s", SCHEMA)
        with pytest.raises(RegistryUnavailable, match="401"):
            Registry(server.url).schema(number)
        assert Registry(server.url, {"basic.auth.user.info": "app:s3cret"}).schema(number).text == SCHEMA


def test_tls(tmp_path: Path) -> None:
    certificates = make_certificates(tmp_path)
    with RegistryServer(certificates=certificates) as server:
        number = server.register("s", SCHEMA)
        with pytest.raises(RegistryUnavailable):
            Registry(server.url).schema(number)
        trusted = Registry(server.url, {"ssl.ca.location": str(certificates.ca_file)})
        assert trusted.schema(number).text == SCHEMA


def test_the_second_of_two_urls_answers(registry: RegistryServer) -> None:
    number = registry.register("s", SCHEMA)
    with RegistryServer() as gone:
        gone.down()
        assert Registry(f"{gone.url},{registry.url}").schema(number).text == SCHEMA
