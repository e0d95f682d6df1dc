"""Requests that cannot be used: each is answered by a problem that says why, and nothing is changed."""

from __future__ import annotations

import time

import pytest

from tests.faces.api.conftest import Api

_JSON = {"content-type": "application/json"}
_HALF = b'"\\ud800"'
"""Half of a surrogate pair: JSON can say it, and no text holds it."""


def _problem(answer: object) -> dict[str, object]:
    assert answer.headers["content-type"] == "application/problem+json", answer.text  # type: ignore[attr-defined]
    found: dict[str, object] = answer.json()  # type: ignore[attr-defined]
    assert found["status"] == answer.status_code, found  # type: ignore[attr-defined]
    return found


@pytest.mark.parametrize(
    ("body", "headers", "status", "code"),
    [
        (b'{"text": "name: x"}', {"content-type": "text/plain"}, 415, "media_type"),
        (b'{"text": "name: x"}', {}, 415, "media_type"),
        (b"", {}, 422, "request"),
        (b"text=name", {"content-type": "application/x-www-form-urlencoded"}, 415, "media_type"),
        (b'{"text": ', _JSON, 400, "json"),
        (b'{"text": "\xff\xfe"}', _JSON, 400, "http"),
        (b'{"spec": ' + b'{"a":' * 5_000 + b"1" + b"}" * 5_001, _JSON, 400, "http"),
        (b'{"spec": ' + b'{"a":' * 300 + b"1" + b"}" * 301, _JSON, 422, "request"),
        (b'{"spec": {"name": ' + b"9" * 40 + b"}}", _JSON, 422, "request"),
        (b'{"spec": {"name": ' + _HALF + b"}}", _JSON, 422, "request"),
        (b'{"text": ' + _HALF + b"}", _JSON, 422, "request"),
        (b"", _JSON, 422, "request"),
    ],
)
def test_a_body_that_cannot_be_read_says_why(
    shared_api: Api, body: bytes, headers: dict[str, str], status: int, code: str
) -> None:
    answer = shared_api.ask("POST", "/pipelines/validate", content=body, headers=headers)
    found = _problem(answer)
    assert (answer.status_code, found["code"]) == (status, code)


def test_logging_in_and_refusals_from_outside_are_described(shared_api: Api) -> None:
    paths = shared_api.ask("GET", "/openapi.json").json()["paths"]
    assert paths["/api/v1/session"]["post"]["security"] == [], "nobody has a token yet"
    assert "security" not in paths["/api/v1/session"]["get"]
    assert "application/problem+json" in paths["/api/v1/pipelines/{name}/offsets"]["get"]["responses"]["502"]["content"]


def test_where_json_ends_too_early_is_told(shared_api: Api) -> None:
    answer = shared_api.ask("POST", "/pipelines/validate", content=b'{"text": ', headers=_JSON)
    assert _problem(answer)["detail"] == "the body is not JSON: Expecting value (at character 9)"


@pytest.mark.parametrize("field", [b"pipeline", b"topic", b"fingerprint", b"text", b"error", b"since"])
def test_half_a_character_gets_nowhere(api: Api, field: bytes) -> None:
    """Once within a job, it would break every list and stream that shows the job."""
    for path in ("/dead-letters/discard", "/dead-letters/replay"):
        body = b'{"reason": "x", "filter": {"' + field + b'": ' + _HALF + b"}}"
        assert api.ask("POST", path, content=body.replace(b'"reason": "x", ', b""), headers=_JSON).status_code == 422
        assert api.ask("POST", path, content=body, headers=_JSON).status_code == 422
    assert api.ask("GET", "/dead-letters/jobs").json() == []
    assert api.ask("GET", "/events", params={"seconds": 0.1}).status_code == 200


@pytest.mark.parametrize("written", ["99999999999999999999", "9999999999999d", "-1", "banana", "1_0"])
@pytest.mark.parametrize("path", ["/dead-letters", "/dead-letters/facets", "/audit", "/runs", "/work-orders"])
def test_a_time_that_no_calendar_has_is_refused(shared_api: Api, path: str, written: str) -> None:
    name = {"/runs": "inserted_after", "/work-orders": "received_after"}.get(path, "since")
    answer = shared_api.ask("GET", path, params={name: written})
    found = _problem(answer)
    assert (answer.status_code, found["received"]) == (422, written)
    assert str(found["detail"]).startswith(name)


@pytest.mark.parametrize(
    "text",
    ["[" * 3_000, "a: " + "[" * 300 + "]" * 300, "a: [" + "1," * 90_000 + "]", "a: &a [x]\n" + "b: {<<: *a}\n" * 30],
    ids=["open", "deep", "many", "merged"],
)
def test_a_text_that_would_take_long_to_read_is_refused_at_once(shared_api: Api, text: str) -> None:
    begun = time.monotonic()
    for path in ("/pipelines/validate", "/workflows/validate"):
        [problem] = shared_api.ask("POST", path, json={"text": text}).json()["problems"]
        assert problem["message"].startswith("is too large: about ")
    assert time.monotonic() - begun < 60, "the parser would have needed minutes"


def test_a_text_that_is_too_deep_without_brackets_is_refused_too(shared_api: Api) -> None:
    text = "\n".join(" " * depth + "a:" for depth in range(300))
    [problem] = shared_api.ask("POST", "/pipelines/validate", json={"text": text}).json()["problems"]
    assert problem["message"] == "is not valid YAML: it is nested too deeply or has too many values"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api", 404),
        ("GET", "/api/v2/pipelines", 404),
        ("GET", "/projects/p/nothing", 404),
        ("GET", "/projects/p/runs/r/retry", 405),
        ("DELETE", "/projects/p/runs/r/retry", 405),
        ("PATCH", "/api/v1/pipelines", 405),
    ],
)
def test_what_is_not_there_is_a_problem_at_every_path_of_ours(
    shared_api: Api, method: str, path: str, status: int
) -> None:
    answer = shared_api.client.request(method, path)
    assert _problem(answer)["status"] == status
    assert (answer.headers.get("allow") is not None) == (status == 405)


@pytest.mark.parametrize(
    "path",
    [
        "/pipelines",
        "/workflows",
        "/triggers",
        "/notices",
        "/work-orders/jobs",
        "/dead-letters/jobs",
        "/dead-letters/1",
        "/pipelines/orders",
        "/pipelines/orders/history",
        "/tokens",
    ],
)
def test_a_parameter_that_nobody_knows_does_not_give_everything(shared_api: Api, path: str) -> None:
    assert shared_api.ask("GET", path).status_code == 200
    for name in ("sate", "name"):  # one of them is that of a path's part
        refused = shared_api.ask("GET", f"{path}?{name}=failed")
        assert (refused.status_code, refused.json()["code"]) == (422, "request")
        assert refused.json()["problems"] == [
            {"path": f"query.{name}", "message": "there is no such parameter", "received": "failed"}
        ]


@pytest.mark.parametrize("path", ["/pipelines?state=failed&state=running", "/audit?limit=1&limit=2"])
def test_of_two_values_none_is_left_out_in_silence(shared_api: Api, path: str) -> None:
    refused = shared_api.ask("GET", path)
    assert (refused.status_code, refused.json()["code"]) == (422, "request")
    [said] = refused.json()["problems"]
    assert said["message"] == "it is given more than once"
    for several in ("/work-orders?state=failed&state=success", "/runs?state=failed&state=lost"):
        assert shared_api.ask("GET", several).status_code == 200


def test_parameters_of_models_and_of_single_values_are_known(shared_api: Api) -> None:
    for path in ("/pipelines?limit=1&text=o", "/dead-letters?limit=1&topic=x", "/api/log_lines?page=1&run_id=x"):
        assert shared_api.ask("GET", path).status_code == 200
