"""WhereHows' registry dialects: one contract for the three of them, over HTTP."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from penstock.config.wire import REGISTRY_DIALECTS, RegistryDialect
from penstock.core.errors import ConfigError
from penstock.kafka.registry.client import RegistryUnavailable, UnknownSchema
from penstock.kafka.registry.dialects import DialectRegistry
from tests.support.certs import make_certificates
from tests.support.dialect_registry import DialectServer
from tests.support.ports import free_port

ORDER = {"type": "record", "name": "Order", "namespace": "shop", "fields": [{"name": "id", "type": "long"}]}
UUID = "0f1e2d3c4b5a69788796a5b4c3d2e1f0"
PATHS = {
    "linkedin": f"/schemaRegistry/schemas/id={UUID}",
    "gobblin": f"/schemaRegistry/id={UUID}",
    "confluent": f"/schemaRegistry/schemas/ids/{UUID}",
}


@pytest.fixture(params=REGISTRY_DIALECTS)
def dialect(request: pytest.FixtureRequest) -> RegistryDialect:
    found: RegistryDialect = request.param
    return found


@pytest.fixture
def server(dialect: RegistryDialect) -> Iterator[DialectServer]:
    with DialectServer(dialect, {UUID: ORDER}) as running:
        yield running


def test_a_schema_is_asked_for_as_the_dialect_says(server: DialectServer, dialect: RegistryDialect) -> None:
    found = DialectRegistry(f"{server.url}/", dialect).schema(UUID)
    assert (found.id, found.type, json.loads(found.text), found.references) == (UUID, "AVRO", ORDER, ())
    assert server.requests == [PATHS[dialect]]
    assert server.headers[0]["content-type"] == "application/vnd.schemaregistry.v1+json"
    assert server.headers[0]["response-type"] == "PLAIN_STRING"


@pytest.mark.parametrize("empty", [False, True], ids=["404", "204"])
def test_an_unknown_id_is_said_to_be_unknown(server: DialectServer, dialect: RegistryDialect, *, empty: bool) -> None:
    server.empty = empty
    with pytest.raises(UnknownSchema):
        DialectRegistry(server.url, dialect).schema("70000")


def test_a_page_of_some_other_server_is_no_missing_schema(server: DialectServer, dialect: RegistryDialect) -> None:
    server.error_body = b"<html>not here</html>"
    with pytest.raises(RegistryUnavailable, match="50005"):
        DialectRegistry(server.url, dialect).schema("70000")


@pytest.mark.parametrize("garbage", [b"<html>welcome</html>", b"", b"{", b"42", b'{"hello": "world"}', b"null"])
def test_garbage_is_an_outage(server: DialectServer, dialect: RegistryDialect, garbage: bytes) -> None:
    server.faults.garbage = garbage
    with pytest.raises(RegistryUnavailable, match="holds no schema"):
        DialectRegistry(server.url, dialect).schema(UUID)


def test_an_answer_that_is_late_is_an_outage(server: DialectServer, dialect: RegistryDialect) -> None:
    server.faults.latency_s = 1.0
    with pytest.raises(RegistryUnavailable, match="timed out"):
        DialectRegistry(server.url, dialect, {"timeout": "0.1"}).schema(UUID)


@pytest.mark.parametrize("status", [500, 503, 429])
def test_an_error_of_the_server_is_an_outage(server: DialectServer, dialect: RegistryDialect, status: int) -> None:
    server.faults.status = status
    with pytest.raises(RegistryUnavailable, match=f"HTTP {status}"):
        DialectRegistry(server.url, dialect).schema(UUID)


def test_the_next_address_is_asked_where_one_fails(server: DialectServer, dialect: RegistryDialect) -> None:
    with DialectServer(dialect) as broken:
        broken.faults.status = 503
        urls = f"http://127.0.0.1:{free_port()}, {broken.url}, {server.url}"
        for _ in range(6):
            registry = DialectRegistry(urls, dialect)
            assert registry.schema(UUID).id == UUID
            server.requests.clear()
            broken.requests.clear()
            registry.schema(UUID)
            assert (len(server.requests), broken.requests) == (1, []), "the one that answered is asked first"


def test_any_address_may_be_the_first(dialect: RegistryDialect) -> None:
    with ExitStack() as running:
        servers = [running.enter_context(DialectServer(dialect, {UUID: ORDER})) for _ in range(2)]
        urls = ",".join(server.url for server in servers)
        for _ in range(40):
            DialectRegistry(urls, dialect).schema(UUID)
        assert all(server.requests for server in servers)


def test_an_unknown_id_is_not_asked_of_all(server: DialectServer, dialect: RegistryDialect) -> None:
    with pytest.raises(UnknownSchema):
        DialectRegistry(f"{server.url},{server.url}", dialect).schema("1")
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("config", "in_url", "wanted"),
    [
        ({"basic.auth.user.info": "ann:s3cret"}, "", "Basic " + base64.b64encode(b"ann:s3cret").decode()),
        ({"bearer.auth.token": "t0ken"}, "", "Bearer t0ken"),
        ({}, "ann:s%2Fcret@", "Basic " + base64.b64encode(b"ann:s/cret").decode()),
    ],
)
def test_log_ins(
    server: DialectServer, dialect: RegistryDialect, config: dict[str, str], in_url: str, wanted: str
) -> None:
    server.login = wanted
    url = server.url.replace("http://", f"http://{in_url}")
    assert DialectRegistry(url, dialect, config).schema(UUID).id == UUID
    server.login = "Bearer another"
    with pytest.raises(RegistryUnavailable, match="401") as refused:
        DialectRegistry(url, dialect, config).schema(UUID)
    assert "cret" not in str(refused.value)
    assert "t0ken" not in str(refused.value)


def test_a_registry_can_be_checked(server: DialectServer, dialect: RegistryDialect) -> None:
    assert DialectRegistry(server.url, dialect).check() == f"answers in {dialect}'s dialect"
    server.faults.status = 500
    with pytest.raises(RegistryUnavailable):
        DialectRegistry(server.url, dialect).check()


def test_references_of_confluents_dialect() -> None:
    line = {"type": "record", "name": "Line", "namespace": "shop", "fields": [{"name": "order", "type": "shop.Order"}]}
    with DialectServer("confluent", {"7": line}, {"order%2Fvalue": ORDER}) as server:
        server.references = [{"name": "shop.Order", "subject": "order/value", "version": 1}]
        found = DialectRegistry(server.url, "confluent").schema("7")
    assert [(name, json.loads(text)) for name, text in found.references] == [("shop.Order", ORDER)]


def test_certificates(tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    authority = {"ssl.ca.location": str(made.ca_file)}
    own = {"ssl.certificate.location": str(made.client_cert), "ssl.key.location": str(made.client_key)}
    with DialectServer("gobblin", {UUID: ORDER}, certificates=made) as server:
        assert DialectRegistry(server.url, "gobblin", authority | own).schema(UUID).id == UUID
        for lacking in (own, authority):
            with pytest.raises(RegistryUnavailable):
                DialectRegistry(server.url, "gobblin", lacking).schema(UUID)


def test_certificates_that_are_not_there_are_told() -> None:
    with pytest.raises(ConfigError, match="certificates"):
        DialectRegistry("https://localhost", "linkedin", {"ssl.ca.location": "/nowhere.pem"})
