"""A schema registry that answers in WhereHows' three dialects over real HTTP, with faults that can be switched on."""

from __future__ import annotations

import json
import re
import ssl
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from tests.support.certs import Certificates
from tests.support.ports import free_port
from tests.support.registry import Faults

_PATHS = {
    "linkedin": re.compile(r"/schemaRegistry/schemas/id=(.+)"),
    "gobblin": re.compile(r"/schemaRegistry/id=(.+)"),
    "confluent": re.compile(r"/schemaRegistry/schemas/ids/(.+)"),
}
_VERSION = re.compile(r"/schemaRegistry/subjects/([^/]+)/versions/(\d+)")


@dataclass
class DialectServer:
    """Serves the schemas by the text of their ids under `/schemaRegistry`, in one dialect."""

    dialect: str
    schemas: dict[str, Any] = field(default_factory=dict)
    subjects: dict[str, Any] = field(default_factory=dict)
    """Confluent: the schema of each subject's only version."""
    references: list[dict[str, Any]] = field(default_factory=list)
    """Confluent: said with every schema of an id."""
    login: str | None = None
    """The `Authorization` header that is asked for."""
    empty: bool = False
    """An unknown id is answered by 204."""
    error_body: bytes | None = None
    """In the place of the JSON of an error."""
    faults: Faults = field(default_factory=Faults)
    requests: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    certificates: Certificates | None = None
    """Given: clients must show theirs."""
    port: int = field(default_factory=free_port)

    @property
    def url(self) -> str:
        return f"{'https' if self.certificates else 'http'}://localhost:{self.port}/schemaRegistry"

    def __enter__(self) -> Self:
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), self._handler())
        self._server.daemon_threads = True
        if self.certificates:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self.certificates.server_cert, self.certificates.server_key)
            context.load_verify_locations(self.certificates.ca_file)
            context.verify_mode = ssl.CERT_REQUIRED
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str, authorization: str | None) -> tuple[int, bytes]:
        time.sleep(self.faults.latency_s)
        if self.faults.garbage is not None:
            return 200, self.faults.garbage
        if self.faults.status is not None:
            return self._error(self.faults.status, 50001, "switched-on fault")
        if self.login is not None and authorization != self.login:
            return self._error(401, 40101, "Unauthorized")
        found = _PATHS[self.dialect].fullmatch(path)
        if found and found[1] in self.schemas:
            return 200, self._shown(self.schemas[found[1]], self.references)
        version = _VERSION.fullmatch(path)
        if version and self.dialect == "confluent" and version[1] in self.subjects:
            return 200, self._shown(self.subjects[version[1]], [])
        return (204, b"") if self.empty else self._error(404, 40403, "Schema not found")

    def _shown(self, schema: Any, references: list[dict[str, Any]]) -> bytes:
        if self.dialect != "confluent":
            return json.dumps(schema).encode()
        return json.dumps({"schema": json.dumps(schema), "references": references}).encode()

    def _error(self, status: int, code: int, message: str) -> tuple[int, bytes]:
        body = json.dumps({"error_code": code, "message": message}).encode()
        return status, body if self.error_body is None else self.error_body

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.requests.append(self.path)
                registry.headers.append({name.lower(): value for name, value in self.headers.items()})
                status, body = registry.answer(self.path, self.headers.get("authorization"))
                self.send_response(status)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's signature
                pass

        return Handler
