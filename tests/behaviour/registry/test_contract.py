"""What Penstock expects of a schema registry: the tests' own server and Apicurio answer alike."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from penstock.kafka.registry.client import Registry, UnknownSchema
from tests.support.registry import RegistryServer

ORDER = json.dumps({"type": "record", "name": "Order", "namespace": "shop", "fields": [{"name": "id", "type": "long"}]})
LINE = json.dumps(
    {"type": "record", "name": "Line", "namespace": "shop", "fields": [{"name": "order", "type": "shop.Order"}]}
)
PAGE = json.dumps(
    {"type": "record", "name": "Page", "namespace": "shop", "fields": [{"name": "line", "type": "shop.Line"}]}
)


class RegistryContract:
    """Inherited by each registry."""

    @pytest.fixture
    def url(self) -> str:
        raise NotImplementedError

    @pytest.fixture
    def http(self, url: str) -> Iterator[httpx.Client]:
        with httpx.Client(base_url=url, timeout=20) as client:
            yield client

    def register(self, http: httpx.Client, subject: str, schema: str, **more: Any) -> int:
        answer = http.post(f"/subjects/{subject}/versions", json={"schema": schema, **more})
        assert answer.status_code == 200, answer.text
        return int(answer.json()["id"])

    def test_a_registered_schema_is_found_by_id(self, url: str, http: httpx.Client) -> None:
        number = self.register(http, "by-id-value", ORDER)
        found = Registry(url).schema(number)
        assert (found.id, found.type, found.references) == (number, "AVRO", ())
        assert json.loads(found.text) == json.loads(ORDER)

    def test_registering_again_gives_the_same_id(self, http: httpx.Client) -> None:
        first = self.register(http, "again-value", ORDER)
        assert self.register(http, "again-value", ORDER) == first
        assert http.get("/subjects/again-value/versions").json() == [1]

    def test_versions_of_a_subject(self, http: httpx.Client) -> None:
        first = self.register(http, "versions-value", '{"type": "string"}')
        second = self.register(http, "versions-value", '{"type": "long"}')
        assert first != second
        assert http.get("/subjects/versions-value/versions").json() == [1, 2]
        latest = http.get("/subjects/versions-value/versions/latest").json()
        assert (latest["id"], latest["version"], latest["subject"]) == (second, 2, "versions-value")
        assert http.get("/subjects/versions-value/versions/1").json()["id"] == first
        assert "versions-value" in http.get("/subjects").json()

    def test_an_unknown_id_is_said_to_be_unknown(self, url: str) -> None:
        with pytest.raises(UnknownSchema):
            Registry(url).schema(987_654)

    @pytest.mark.parametrize(
        ("path", "code"), [("/subjects/nobody/versions/latest", 40401), ("/schemas/ids/987654", 40403)]
    )
    def test_what_is_missing_has_a_code(self, http: httpx.Client, path: str, code: int) -> None:
        answer = http.get(path)
        assert answer.status_code == 404
        assert answer.json()["error_code"] == code

    def test_references_come_with_the_schema_innermost_first(self, url: str, http: httpx.Client) -> None:
        self.register(http, "order-ref", ORDER)
        order = {"name": "shop.Order", "subject": "order-ref", "version": 1}
        self.register(http, "line-ref", LINE, references=[order])
        line = {"name": "shop.Line", "subject": "line-ref", "version": 1}
        number = self.register(http, "page-ref", PAGE, references=[line])
        found = Registry(url).schema(number)
        assert [name for name, _ in found.references] == ["shop.Order", "shop.Line"]
        assert json.loads(found.references[0][1]) == json.loads(ORDER)

    def test_a_json_schema_keeps_its_type(self, url: str, http: httpx.Client) -> None:
        # Apicurio believes the content more than the type it is told, so the schema says what it is.
        schema = '{"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}'
        number = self.register(http, "json-value", schema, schemaType="JSON")
        assert Registry(url).schema(number).type == "JSON"

    def test_a_broken_schema_is_refused(self, http: httpx.Client) -> None:
        answer = http.post("/subjects/broken-value/versions", json={"schema": '{"type": "nonsense"}'})
        assert answer.status_code == 422
        assert answer.json()["error_code"] == 42201

    def test_check_counts_the_subjects(self, url: str, http: httpx.Client) -> None:
        self.register(http, "counted-value", ORDER)
        assert Registry(url).check() >= 1


class TestRegistryServer(RegistryContract):
    @pytest.fixture
    def url(self, registry: RegistryServer) -> str:
        return registry.url


class TestApicurio(RegistryContract):
    @pytest.fixture
    def url(self, apicurio_url: str) -> str:
        return apicurio_url
