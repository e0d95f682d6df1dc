"""The `webhook` action against a real HTTP server."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from email.utils import formatdate
from typing import Any

import pytest

from penstock.act.registry import actions
from penstock.act.webhook import WebhookAwayError, WebhookError, WebhookRefusedError, retry_after
from penstock.core.errors import ConfigError, Terminal, Transient, Unavailable
from penstock.core.event import Event
from penstock.core.net.guard import AddressGuard, AddressRefused
from penstock.core.plugin import PipelineContext
from tests.behaviour.act.hook_server import Answer, HookServer
from tests.support.events import make_event

CTX = PipelineContext("p")


def made(url: str, **config: Any) -> Any:
    return actions.create("webhook", {"url": url, "allow_private": True, **config}, CTX)


def send(action: Any, *events: Event) -> list[BaseException | None]:
    """Act on the events side by side on one loop, as the worker does."""

    async def run() -> list[BaseException | None]:
        try:
            return await asyncio.gather(*(action.act(event) for event in events), return_exceptions=True)
        finally:
            await action.close()

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("body", "value", "content_type", "sent"),
    [
        ("event", {"n": 1}, "application/json", b'{"n":1}'),
        ("event", "text", "application/json", b'"text"'),
        ("value", {"n": 1}, "application/json", b'{"n":1}'),
        ("value", "t\u00e9xt", "text/plain; charset=utf-8", "t\u00e9xt".encode()),
        ("value", b"\x00\xff", "application/octet-stream", b"\x00\xff"),
        ({"id": "event.n", "from": "topic"}, {"n": 1}, "application/json", b'{"id":1,"from":"orders"}'),
    ],
)
def test_bodies(body: Any, value: Any, content_type: str, sent: bytes) -> None:
    with HookServer() as server:
        assert send(made(server.url("/a?b=c"), body=body), make_event(value)) == [None]
    [request] = server.requests
    assert (request.method, request.path, request.body) == ("POST", "/a?b=c", sent)
    assert request.headers["content-type"] == content_type


def test_the_envelope_headers_and_method() -> None:
    headers = {"authorization": "Bearer abc", "Content-Type": "application/vnd.mine+json"}
    with HookServer() as server:
        assert send(made(server.url(), body="envelope", method="PUT", headers=headers), make_event({"n": 1})) == [None]
    [request] = server.requests
    assert request.method == "PUT"
    assert json.loads(request.body)["meta"]["kafka"] == {"topic": "orders", "offset": 41, "partition": 3}
    assert request.headers["authorization"] == "Bearer abc"
    assert request.headers["content-type"] == "application/vnd.mine+json"


def test_connections_are_kept_and_bounded() -> None:
    running, most, lock = 0, 0, threading.Lock()

    def answer(_request: object) -> Answer:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.01)  # the answer takes a while: this is what is measured, not a wait for something
        with lock:
            running -= 1
        return Answer()

    with HookServer(answer) as server:
        results = send(made(server.url(), concurrency=3), *(make_event(n) for n in range(60)))
    assert results == [None] * 60
    assert sorted(json.loads(request.body) for request in server.requests) == list(range(60))
    assert len({request.client for request in server.requests}) <= 3
    assert 1 < most <= 3


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, WebhookRefusedError),
        (404, WebhookRefusedError),
        (301, WebhookRefusedError),
        (408, WebhookError),
        (425, WebhookError),
        (500, WebhookAwayError),
        (429, WebhookAwayError),
        (502, WebhookAwayError),
        (503, WebhookAwayError),
        (504, WebhookAwayError),
    ],
)
def test_answers_and_what_they_mean(status: int, kind: type[Exception]) -> None:
    with HookServer(lambda _request: Answer(status, body=b"the reason" * 1000)) as server:
        [error] = send(made(server.url()), make_event(1))
    assert type(error) is kind
    assert f"127.0.0.1 answered {status}" in str(error)
    assert "the reason" in str(error)
    assert len(str(error)) < 1_000
    assert isinstance(error, Transient) is (kind is not WebhookRefusedError)
    assert isinstance(error, Terminal) is (kind is WebhookRefusedError)


def test_a_status_can_be_the_events_own_fault() -> None:
    with HookServer(lambda _request: Answer(500)) as server:
        [error] = send(made(server.url(), fail_on=[500]), make_event(1))
    assert type(error) is WebhookError


def test_retry_after_is_carried() -> None:
    with HookServer(lambda _request: Answer(503, {"Retry-After": "17"})) as server:
        [error] = send(made(server.url()), make_event(1))
    assert isinstance(error, WebhookAwayError)
    assert error.retry_after == 17.0
    assert retry_after(formatdate(time.time() + 100, usegmt=True)) == pytest.approx(100, abs=3)
    assert retry_after(formatdate(time.time() - 100, usegmt=True)) == 0.0
    assert retry_after("soon") is None
    assert retry_after(None) is None


def test_redirects_are_not_followed() -> None:
    with HookServer() as inner, HookServer(lambda _request: Answer(307, {"Location": inner.url()})) as outer:
        [error] = send(made(outer.url()), make_event(1))
    assert isinstance(error, WebhookRefusedError)
    assert "redirects are not followed" in str(error)
    assert inner.requests == []


def test_a_server_that_is_not_there_is_an_outage_and_its_return_is_noticed() -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
    [error] = send(made(f"http://127.0.0.1:{port}/"), make_event(1))
    assert isinstance(error, Unavailable)
    assert "cannot be reached" in str(error)
    [error] = send(made("http://no-such-host.invalid/"), make_event(1))
    assert isinstance(error, Unavailable)


def test_a_server_that_does_not_answer_ends_at_the_timeout() -> None:
    release = threading.Event()

    def answer(_request: object) -> Answer:
        release.wait(60)
        return Answer()

    with HookServer(answer) as server:
        [error] = send(made(server.url(), timeout="300ms"), make_event(1))
        release.set()
    assert isinstance(error, WebhookAwayError)
    assert "no answer within 0.3 s" in str(error)


def test_an_answer_that_is_not_http_is_no_success() -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def garbage() -> None:
        connection, _ = listener.accept()
        connection.recv(65_536)
        connection.sendall(b"hello, I speak something else\r\n\r\n")
        connection.close()

    thread = threading.Thread(target=garbage, daemon=True)
    thread.start()
    [error] = send(made(f"http://127.0.0.1:{listener.getsockname()[1]}/"), make_event(1))
    thread.join(10)
    listener.close()
    assert isinstance(error, Transient)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "10.1.2.3",
        "192.168.0.1",
        "172.16.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",  # noqa: S104 - called, not bound to
        "224.0.0.1",
        "[::1]",
        "[fe80::1]",
        "[fd00::1]",
        "[::ffff:127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "localhost",
        "api.localhost",
        "LOCALHOST.",
    ],
)
def test_addresses_inside_the_house_are_refused_at_creation(host: str) -> None:
    with pytest.raises(ConfigError, match=r"is not a public address.*allow_private: true"):
        actions.create("webhook", {"url": f"http://{host}:8080/x"}, CTX)


@pytest.mark.parametrize("address", ["8.8.8.8", "2001:4860:4860::8888", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_public_addresses_pass(address: str) -> None:
    AddressGuard().check_host(address)


def test_a_name_is_checked_where_it_is_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    """The address that is checked is the one that is called: a name cannot point elsewhere a moment later."""
    looked: list[str] = []

    def getaddrinfo(host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        looked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    with HookServer() as server:
        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        action: Any = actions.create("webhook", {"url": server.url(host="rebind.example.org")}, CTX)
        [error] = send(action, make_event(1))
    assert isinstance(error, AddressRefused)
    assert "rebind.example.org (127.0.0.1) is not a public address" in str(error)
    assert looked == ["rebind.example.org"]
    assert server.requests == []


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"url": "ftp://example.org/"}, "`url`: a URL like"),
        ({"url": "http://127.1/", "allow_private": True}, "four decimal numbers"),
        ({"url": "http://2130706433/"}, "four decimal numbers"),
        ({"url": "http://0x7f000001/"}, "four decimal numbers"),
        ({"url": "example.org/hook"}, "`url`: a URL like"),
        ({"url": "https://example.org", "headers": {"a": "x\r\nb: y"}}, "must be one line"),
        ({"url": "https://example.org", "body": {"a": "evnt.x"}}, "did you mean `event`"),
        ({"url": "https://example.org", "method": "FETCH"}, "`method`"),
        ({"url": "https://example.org", "timeout": "soon"}, "`timeout`: a duration like"),
        ({"ulr": "https://example.org"}, "did you mean `url`"),
    ],
)
def test_configuration_mistakes(config: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        actions.create("webhook", config, CTX)
    assert said in str(caught.value)


def test_an_object_outlives_its_loop() -> None:
    with HookServer() as server:
        action = made(server.url())
        assert send(action, make_event(1)) == [None]
        assert send(action, make_event(2)) == [None]
    assert len(server.requests) == 2
