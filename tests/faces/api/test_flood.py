"""Floods and ends: half-open requests, huge bodies, documents of many keys, a certificate that runs out."""

from __future__ import annotations

import datetime as dt
import json
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import structlog

from penstock.api import connections
from penstock.api.certificates import Certificate
from penstock.api.server import HttpServer
from penstock.core.clock import SYSTEM
from tests.faces.api.conftest import Api
from tests.faces.api.test_serving import serve
from tests.support.certs import Certificates, make_certificates
from tests.support.waiting import until

_HALF = b"POST /api/v1/session HTTP/1.1\r\nHost: localhost\r\nContent-Le"


@pytest.fixture
def server(api: Api) -> Iterator[HttpServer]:
    made = serve(api)
    made.start()
    yield made
    made.stop()


def _place(server: HttpServer) -> tuple[str, int]:
    host, _, port = (server.address or "").removeprefix("http://").rpartition(":")
    return host, int(port)


def _half_open(server: HttpServer, count: int) -> list[socket.socket]:
    made = []
    for _ in range(count):
        made.append(socket.create_connection(_place(server), timeout=10))
        made[-1].sendall(_HALF)
    return made


def _live(server: HttpServer) -> float:
    """Seconds until the answer."""
    began = time.monotonic()
    assert httpx.get(f"{server.address}/health/live", timeout=10).json() == {"live": True}
    return time.monotonic() - began


def _is_ended(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_a_thousand_half_open_requests_keep_nobody_out(server: HttpServer) -> None:
    held = _half_open(server, 1_000)
    try:
        assert max(_live(server) for _ in range(5)) < 1.0
    finally:
        for connection in held:
            connection.close()


def test_one_connection_too_many_ends_the_one_that_has_waited_longest(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MOST", 20)
    server = serve(api)
    server.start()
    try:
        with httpx.Client(base_url=server.address or "") as kept:
            assert kept.get("/health/live").is_success
            held = _half_open(server, 60)
            assert _live(server) < 1.0
            assert kept.get("/health/live").is_success, "a connection that is used stays"
            held[0].settimeout(10)
            assert _is_ended(held[0])
            for connection in held:
                connection.close()
    finally:
        server.stop()


def test_a_body_of_100_mb_is_refused_before_it_is_read(server: HttpServer, api: Api) -> None:
    token = f"Authorization: Bearer {api.tokens['admin']}"
    head = f"POST /api/v1/pipelines/validate HTTP/1.1\r\nHost: localhost\r\n{token}\r\n"
    json_head = f"{head}Content-Type: application/json\r\n"
    with socket.create_connection(_place(server), timeout=10) as announced:
        announced.sendall(f"{json_head}Content-Length: 100000000\r\n\r\n".encode())
        assert b"413" in announced.recv(10_000).split(b"\r\n")[0]
    with socket.create_connection(_place(server), timeout=10) as unannounced:
        unannounced.sendall(f"{json_head}Transfer-Encoding: chunked\r\n\r\n".encode())
        chunk = b"186a0\r\n" + b" " * 100_000 + b"\r\n"
        sent = 0
        try:
            for _ in range(1_000):
                unannounced.sendall(chunk)
                sent += 1
        except (ConnectionError, TimeoutError):
            pass
        assert sent < 1_000, "the connection ends long before the body does"
    assert _live(server) < 1.0


def test_a_document_of_50_000_keys_is_answered_by_a_problem_within_seconds(server: HttpServer, api: Api) -> None:
    keys = {f"k{number}": number for number in range(50_000)}
    headers = {"Authorization": f"Bearer {api.tokens['admin']}"}
    with httpx.Client(base_url=f"{server.address}/api/v1", headers=headers, timeout=30) as client:
        began = time.monotonic()
        for body in ({"spec": keys}, {"text": json.dumps(keys)}, {"spec": {"name": "x", "source": keys}}):
            answer = client.post("/pipelines/validate", json=body)
            assert answer.status_code in (200, 413, 422), answer.text[:300]
            assert len(answer.content) < 200_000, "a problem for each of 50,000 keys helps nobody"
        assert time.monotonic() - began < 20
    assert _live(server) < 1.0


# -- certificates --------------------------------------------------------------------------


def _presented(port: int) -> bytes:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", port), timeout=10) as plain, context.wrap_socket(plain) as secure:
        found = secure.getpeercert(binary_form=True)
    assert found is not None
    return found


def _replace(old: Certificates, new: Certificates) -> None:
    for name in ("server_key", "server_cert"):
        Path(getattr(new, name)).replace(getattr(old, name))


def test_a_certificate_that_expires_while_running_is_told_of_and_its_successor_taken_up(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.api.certificates._EVERY", 0.1)
    made = make_certificates(tmp_path / "old", expired=True)
    with structlog.testing.capture_logs() as logged:
        server = serve(api, tls=(str(made.server_cert), str(made.server_key)))
        port = int(server.start().rpartition(":")[2])
        try:
            trusted = ssl.create_default_context(cafile=str(made.ca_file))
            with pytest.raises(httpx.ConnectError, match="expired"):
                httpx.get(f"https://localhost:{port}/health/live", verify=trusted)
            before = _presented(port)
            made.server_cert.write_text("half a file")
            until(lambda: any("cannot be used" in line["event"] for line in logged), 10, "the refusal of half a file")
            assert _presented(port) == before, "what cannot be used changes nothing"
            _replace(made, make_certificates(tmp_path / "new"))
            until(lambda: _presented(port) != before, 10, "the new certificate")
        finally:
            server.stop()
    said = [line["event"] for line in logged]
    assert sum("has expired" in line for line in said) == 1
    assert any("a new certificate is used" in line for line in said)


def test_the_end_of_a_certificate_is_told_two_weeks_before_once_a_day(tmp_path: Path) -> None:
    made = make_certificates(tmp_path)

    class Later:
        days = 0

        def time(self) -> float:
            return SYSTEM.time() + dt.timedelta(days=self.days).total_seconds()

    clock = Later()
    files = (str(made.server_cert), str(made.server_key))
    watch = Certificate(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), files, clock)  # type: ignore[arg-type]  # time is all it asks
    with structlog.testing.capture_logs() as logged:
        for days in (0, 10, 20, 20, 21, 31):
            clock.days = days
            watch.look()
    assert ["has expired" in line["event"] for line in logged] == [False, False, True]
