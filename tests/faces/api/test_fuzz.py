"""The API against its own description: whatever is sent, answers are as described, and never a fault of Penstock."""

from __future__ import annotations

import re
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    ignored_auth,
    negative_data_rejection,
    positive_data_acceptance,
    unsupported_method,
)

from tests.faces.api.conftest import Api, full_path
from tests.faces.api.test_roles import MATRIX

_ELSEWHERE = re.compile(r"/(events|topics|offsets|test|preview|enable)")
"""Streams, which answer for as long as they are asked to, and routes that ask a cluster; both are tested elsewhere."""
# What a pattern cannot say (a document that is YAML, a cursor, a pipeline that is there) is refused although the schema
# lets it through, and texts in a query are never of the wrong type. `ignored_auth` is the matrix's business. An outage
# (503, for there is no Spark here) is no fault.
_NOT_MEANT = [not_a_server_error, positive_data_acceptance, negative_data_rejection, ignored_auth, unsupported_method]


@pytest.fixture(scope="module")
def schema(shared_api: Api) -> Any:
    app: Any = shared_api.client.app
    # Host names of a test client; without them the guards refuse everything.
    return schemathesis.openapi.from_asgi("/api/v1/openapi.json", app, headers={"host": "127.0.0.1"})


@pytest.mark.parametrize(
    ("method", "path"), [(method, path) for method, path, _, _ in MATRIX if not _ELSEWHERE.search(path)]
)
def test_answers_are_as_described(
    schema: Any, shared_api: Api, method: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A command may ask to wait until instances obey; there is none that would.
    monkeypatch.setattr("penstock.service.pipelines.wait_obeyed", lambda *_: None)
    role = "operator" if (method, path) == ("DELETE", "/tokens/{token}") else "admin"
    headers = {"Authorization": f"Bearer {shared_api.tokens[role]}", "Host": "127.0.0.1"}

    @given(case=schema[full_path(path)][method].as_strategy())
    @settings(max_examples=20, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    def ask(case: schemathesis.Case) -> None:
        response = case.call(headers=headers)
        assert response.status_code < 500 or response.status_code == 503, response.text
        case.validate_response(response, excluded_checks=_NOT_MEANT)

    ask()
