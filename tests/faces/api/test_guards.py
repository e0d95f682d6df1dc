"""Requests that are refused before a route sees them, and how answers are dressed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from tests.faces.api.conftest import Api


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "169.254.169.254", ""])
def test_a_name_that_was_made_to_lead_here_is_refused(make_client: Callable[..., Api], host: str) -> None:
    answer = make_client().client.get("/api/v1/pipelines", headers={"host": host})
    assert (answer.status_code, answer.json()["code"]) == (421, "host")


@pytest.mark.parametrize("host", ["localhost:8642", "127.0.0.1", "[::1]:8642", "LOCALHOST"])
def test_names_of_this_machine_are_answered_to(make_client: Callable[..., Api], host: str) -> None:
    assert make_client().client.get("/api/v1/pipelines", headers={"host": host}).status_code == 200


def test_with_authentication_any_name_is_answered_to_unless_some_are_listed(make_client: Callable[..., Api]) -> None:
    open_one = make_client(PENSTOCK_HTTP_AUTH="local")
    assert open_one.client.get("/api/v1/session", headers={"host": "penstock.example"}).status_code == 401
    named = make_client(PENSTOCK_HTTP_AUTH="local", PENSTOCK_HTTP_NAMES="penstock.example")
    assert named.client.get("/api/v1/session", headers={"host": "penstock.example"}).status_code == 401
    assert named.client.get("/api/v1/session", headers={"host": "other.example"}).status_code == 421
    assert named.client.get("/health/live", headers={"host": "10.1.2.3:8642"}).status_code == 404, "asked by probes"


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "http://127.0.0.1:9999"},
    ],
)
def test_a_page_elsewhere_changes_nothing(make_client: Callable[..., Api], headers: dict[str, str]) -> None:
    api = make_client()
    answer = api.client.post("/api/v1/pipelines/orders/pause", headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (403, "origin")
    assert api.desk.store.desired.get("orders") is None


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_page_elsewhere_opens_no_streams_and_has_nothing_exported(make_client: Callable[..., Api], site: str) -> None:
    api = make_client()
    for path in ("/api/v1/events?seconds=0.1", "/api/v1/work-orders/export"):
        answer = api.client.get(path, headers={"sec-fetch-site": site, "sec-fetch-mode": "no-cors"})
        assert (answer.status_code, answer.json()["code"]) == (403, "origin")
    assert api.ask("GET", "/audit?action=work_orders.export", None).json()["items"] == []
    followed = api.client.get("/api/v1/pipelines", headers={"sec-fetch-site": site, "sec-fetch-mode": "navigate"})
    assert followed.status_code == 200, "somebody followed a link"


def test_our_own_pages_and_programs_do(make_client: Callable[..., Api]) -> None:
    client = make_client().client
    for headers in ({"origin": "http://127.0.0.1", "sec-fetch-site": "same-origin"}, {"sec-fetch-site": "none"}, {}):
        assert client.post("/api/v1/pipelines/orders/pause", headers=headers).status_code == 200


def test_sockets_of_other_pages_are_refused(make_client: Callable[..., Api]) -> None:
    client: TestClient = make_client().client
    with (
        pytest.raises(WebSocketDisconnect) as refused,
        client.websocket_connect("/_nicegui_ws/", headers={"origin": "https://evil.example"}),
    ):
        pass
    assert refused.value.code == 4403


def test_bodies_have_a_limit_also_where_they_do_not_say_how_long_they_are(make_client: Callable[..., Api]) -> None:
    api = make_client(PENSTOCK_HTTP_MAX_BODY="2kB")
    large = b'{"text": "' + b"x" * 5_000 + b'"}'

    def chunks() -> Iterator[bytes]:
        for start in range(0, len(large), 500):
            yield large[start : start + 500]

    headers = {"content-type": "application/json"}
    for content in (large, chunks()):
        answer = api.client.post("/api/v1/pipelines/validate", content=content, headers=headers)
        assert answer.status_code == 413, answer.text
        assert (answer.json()["code"], answer.json()["allowed"]) == ("too_large", 2_000)
        assert answer.headers["content-type"] == "application/problem+json"
    small = api.client.post("/api/v1/pipelines/validate", json={"text": "name: x"})
    assert small.status_code == 200


def test_answers_cannot_be_framed_sniffed_or_kept(make_client: Callable[..., Api]) -> None:
    for path in ("/api/v1/pipelines", "/api/v1/nothing", "/api/v1/openapi.json"):
        headers = make_client().client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize(
    ("method", "path", "body", "said"),
    [
        ("GET", "/nothing", None, (404, "not_found")),
        ("DELETE", "/plugins", None, (405, "method")),
        ("POST", "/pipelines/validate", b"{", (400, "json")),
        ("POST", "/pipelines/validate", b"[1]", (422, "request")),
        ("POST", "/pipelines/validate", b'{"text": 1, "spec": {}}', (422, "request")),
        ("GET", "/pipelines?limit=0", None, (422, "request")),
        ("GET", "/pipelines?after=nonsense", None, (422, "cursor")),
        ("GET", "/dead-letters?stage=nowhere", None, (422, "request")),
        ("GET", "/dead-letters?since=yesterday", None, (422, "config")),
        ("GET", "/dead-letters/99", None, (404, "not_found")),
        ("GET", "/dead-letters/0", None, (422, "request")),
        ("GET", "/users/nobody", None, (404, "not_found")),
        ("GET", "/plugins/action/nothing", None, (404, "not_found")),
        ("POST", "/dead-letters/discard", b'{"filter": {}, "reason": "x"}', (422, "config")),
        ("POST", "/dead-letters/discard", b'{"ids": [99], "reason": "x"}', (404, "not_found")),
        ("POST", "/dead-letters/discard", b'{"ids": [1, 99], "reason": "x"}', (409, "dead-letter")),
        ("POST", "/dead-letters/1/replay", None, (503, "no_spark")),
        ("POST", "/pipelines/orders/offsets/preview", b'{"to": "time"}', (422, "config")),
        ("PUT", "/pipelines/orders/rate-limit", b'{"rate": "often"}', (422, "config")),
    ],
)
def test_bad_input_is_a_precise_problem(
    make_client: Callable[..., Api], method: str, path: str, body: bytes | None, said: tuple[int, str]
) -> None:
    api, (status, code) = make_client(), said
    headers = {"content-type": "application/json"} if body else {}
    answer = api.client.request(method, f"/api/v1{path}", content=body, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == status
    assert answer.json()["type"] == f"urn:penstock:problem:{code}"


@pytest.mark.parametrize(
    "path", ["/", "/dead-letters", "/_console/console.js", "/_nicegui_ws/socket.io/?transport=polling"]
)
def test_a_page_elsewhere_loads_nothing_of_the_console(make_client: Callable[..., Api], path: str) -> None:
    client = make_client().client
    for headers in (
        {"origin": "https://evil.example"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"},
        {"sec-fetch-site": "same-site", "sec-fetch-mode": "cors", "origin": "https://other.example"},
    ):
        answer = client.get(path, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (403, "origin"), headers
    followed = client.get(path, headers={"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"})
    assert followed.status_code == (403 if "_nicegui_ws" in path else 404), "somebody followed a link"


def test_over_tls_browsers_are_told_to_stay_there(make_client: Callable[..., Api]) -> None:
    name = "strict-transport-security"
    assert name not in make_client(PENSTOCK_HTTP_AUTH="local").client.get("/api/v1/session").headers
    for given in ({}, {"PENSTOCK_HTTP_PUBLIC_URL": "https://penstock.example"}):
        client = make_client(PENSTOCK_HTTP_AUTH="local", **given).client
        scheme = "http" if given else "https"
        for path in ("/api/v1/session", "/", "/api/v1/nothing"):
            assert client.get(f"{scheme}://127.0.0.1{path}").headers[name] == "max-age=31536000"
