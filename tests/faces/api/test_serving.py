"""The API on a real server: over TLS, on other addresses only with a log-in, and only where it is wanted."""

from __future__ import annotations

import socket
import ssl
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from penstock.api.app import mount_api
from penstock.api.server import HttpServer
from penstock.core.errors import ConfigError
from penstock.service.health import STARTING
from tests.faces.api.conftest import Api
from tests.support.certs import make_certificates


def serve(api: Api, **options: object) -> HttpServer:
    def extend(app: FastAPI) -> None:
        mount_api(app, api.desk, api.auth)

    return HttpServer(health=lambda: STARTING, metrics=lambda: b"m 1\n", port=0, extend=extend, **options)  # type: ignore[arg-type]


def test_the_api_is_served_over_tls_beside_metrics_and_health(api: Api, tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    server = serve(api, tls=(str(made.server_cert), str(made.server_key)), host="localhost")
    address = server.start().replace("127.0.0.1", "localhost")
    try:
        assert address.startswith("https://")
        trusted = ssl.create_default_context(cafile=str(made.ca_file))
        with httpx.Client(verify=trusted, base_url=address) as client:
            headers = {"Authorization": f"Bearer {api.tokens['viewer']}"}
            assert client.get("/api/v1/pipelines").status_code == 401
            assert len(client.get("/api/v1/pipelines", headers=headers).json()["items"]) == 2
            assert client.get("/metrics").text == "m 1\n"
            assert client.get("/health/live").json() == {"live": True}
            assert client.get("/metrics").headers["x-content-type-options"] == "nosniff"
            with client.stream("GET", "/api/v1/events", headers=headers) as stream:
                assert next(stream.iter_lines()) == "event: pipelines"
    finally:
        server.stop()


def test_a_certificate_that_cannot_be_used_is_named(api: Api, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="certificate"):
        serve(api, tls=(str(tmp_path / "none.pem"), str(tmp_path / "none.key"))).start()


def test_other_addresses_are_for_those_who_ask_for_a_log_in(make_client: Callable[..., Api]) -> None:
    with pytest.raises(ConfigError, match=r"unless http\.auth is on"):
        serve(make_client(), host="192.0.2.1")
    assert serve(make_client(PENSTOCK_HTTP_AUTH="local"), host="192.0.2.1", open_to_others=True)


def test_a_server_without_the_console_imports_neither_it_nor_the_routes() -> None:
    code = (
        "import sys, penstock.cli.running\n"
        "from penstock.api.server import HttpServer\n"
        "from penstock.service.health import STARTING\n"
        "HttpServer(health=lambda: STARTING, metrics=bytes, port=0)\n"
        "heavy = ('nicegui', 'penstock.api.app', 'penstock.console.app', 'authlib', 'argon2')\n"
        "print([name for name in heavy if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "[]\n"


def test_the_server_does_not_say_what_it_is(api: Api) -> None:
    server = serve(api)
    address = server.start()
    try:
        assert "server" not in httpx.get(f"{address}/health/live").headers
    finally:
        server.stop()


def test_a_request_whose_head_does_not_arrive_is_ended(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.api.server._HEAD_SECONDS", 0.5)
    server = serve(api)
    host, _, port = server.start().removeprefix("http://").rpartition(":")
    whole = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
    try:
        slow = [socket.create_connection((host, int(port))) for _ in range(50)]
        for number, connection in enumerate(slow):
            connection.settimeout(20)
            if number % 3 == 1:
                connection.sendall(whole[:20])
            elif number % 3 == 2:  # the first one is answered, the second is not sent to its end
                connection.sendall(whole)
                assert b"200 OK" in connection.recv(10_000)
                connection.sendall(whole[:-2])
        assert httpx.get(f"http://{host}:{port}/health/live").status_code == 200
        for connection in slow:
            while connection.recv(10_000):
                pass
            connection.close()
    finally:
        server.stop()


def test_a_request_whose_body_does_not_arrive_is_ended(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.api.guards._BODY_SECONDS", 0.3)
    server = serve(api)
    host, _, port = server.start().removeprefix("http://").rpartition(":")
    try:
        with socket.create_connection((host, int(port))) as connection:
            connection.settimeout(20)
            head = b"POST /api/v1/session HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            connection.sendall(head + b"Content-Length: 100\r\n\r\n{")
            answer = connection.recv(10_000)
    finally:
        server.stop()
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"too_slow" in answer
