"""A schema registry over real HTTP with faults that can be switched on; held to the same contract suite as Apicurio."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import fastavro

from tests.support.certs import Certificates
from tests.support.ports import free_port

Answer = tuple[int, Any]


class Refused(Exception):
    """An answer in the registry's error shape."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.answer: Answer = (status, {"error_code": code, "message": message})


@dataclass
class Faults:
    """What goes wrong at the moment; every field may be changed while the server runs."""

    latency_s: float = 0.0
    """Wait this long before each answer."""
    status: int | None = None
    """Answer every request with this HTTP status."""
    garbage: bytes | None = None
    """Answer every request with 200 and these bytes."""


@dataclass
class Schemas:
    """The registry's content: schemas by id, versions by subject."""

    by_id: dict[int, dict[str, Any]] = field(default_factory=dict)
    subjects: dict[str, list[int]] = field(default_factory=dict)

    def register(self, subject: str, body: dict[str, Any]) -> int:
        content = {
            "schema": body["schema"],
            "schemaType": body.get("schemaType", "AVRO"),
            "references": body.get("references") or [],
        }
        self._check(content)
        found = next((number for number, known in self.by_id.items() if known == content), None)
        number = found or len(self.by_id) + 1
        self.by_id[number] = content
        versions = self.subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return number

    def _check(self, content: dict[str, Any]) -> None:
        names: dict[str, Any] = {}
        try:
            parsed = json.loads(content["schema"])
            if content["schemaType"] == "AVRO":
                self._load(content["references"], names)
                fastavro.parse_schema(parsed, named_schemas=names)
        except Refused:
            raise
        except Exception as error:
            raise Refused(422, 42201, f"Invalid schema: {error}") from error

    def _load(self, references: list[dict[str, Any]], names: dict[str, Any]) -> None:
        for reference in references:
            known = self.by_id[self.version(reference["subject"], str(reference["version"]))["id"]]
            self._load(known["references"], names)
            if reference["name"] not in names:
                fastavro.parse_schema(json.loads(known["schema"]), named_schemas=names)

    def version(self, subject: str, version: str) -> dict[str, Any]:
        versions = self.subjects.get(subject)
        if versions is None:
            raise Refused(404, 40401, f"Subject '{subject}' not found.")
        number = len(versions) if version in ("latest", "-1") else int(version) if version.isdigit() else 0
        if not 0 < number <= len(versions):
            raise Refused(404, 40402, f"Version {version} not found.")
        found = versions[number - 1]
        return {"subject": subject, "version": number, "id": found} | _shown(self.by_id[found])

    def by_number(self, number: int) -> dict[str, Any]:
        if number not in self.by_id:
            raise Refused(404, 40403, f"Schema {number} not found")
        return self.by_id[number]

    def lookup(self, subject: str, body: dict[str, Any]) -> dict[str, Any]:
        for place, number in enumerate(self.subjects.get(subject, []), 1):
            if self.by_id[number]["schema"] == body["schema"]:
                return self.version(subject, str(place))
        raise Refused(404, 40403 if subject in self.subjects else 40401, "Schema not found")

    def users_of(self, number: int) -> list[dict[str, Any]]:
        self.by_number(number)
        return [
            {"subject": subject, "version": versions.index(number) + 1}
            for subject, versions in self.subjects.items()
            if number in versions
        ]


def _shown(content: dict[str, Any]) -> dict[str, Any]:
    """A schema as the API shows it: the default type and empty references are left out."""
    shown = {"schema": content["schema"]}
    if content["schemaType"] != "AVRO":
        shown["schemaType"] = content["schemaType"]
    if content["references"]:
        shown["references"] = content["references"]
    return shown


class RegistryServer:
    """The part of the Confluent REST API that consumers and producers use, on a loopback port."""

    def __init__(self, *, auth: tuple[str, str] | None = None, certificates: Certificates | None = None) -> None:
        self.faults = Faults()
        self.schemas = Schemas()
        self.requests: list[str] = []
        """Method and path of every request that came in, also of those that were refused."""
        self.auth = auth
        self.port = free_port()
        self._certificates = certificates
        self._server: ThreadingHTTPServer | None = None
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}" if self._certificates else f"http://127.0.0.1:{self.port}"

    def start(self) -> Self:
        self.up()
        return self

    def up(self) -> None:
        """Listen (again); what was registered before is still there."""
        server = ThreadingHTTPServer(("127.0.0.1", self.port), self._handler())
        server.daemon_threads = True
        if self._certificates:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self._certificates.server_cert, self._certificates.server_key)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        self._server = server
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def down(self) -> None:
        """Close the port and every connection: new ones are refused."""
        if self._server is None:
            return
        self._server.shutdown()
        self._server.server_close()
        self._server = None
        with self._lock:
            for connection in list(self._open):
                # Its thread has files over it: to close it alone would let it go on.
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
                connection.close()
            self._open.clear()

    def close(self) -> None:
        self.down()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def register(
        self, subject: str, schema: str, kind: str = "AVRO", references: list[dict[str, Any]] | None = None
    ) -> int:
        """Register without HTTP, whatever faults are on; returns the id."""
        with self._lock:
            return self.schemas.register(subject, {"schema": schema, "schemaType": kind, "references": references})

    def answer(self, method: str, path: str, body: Any, authorization: str | None) -> Answer:
        """Status and JSON body for a request."""
        self.requests.append(f"{method} {path}")
        time.sleep(self.faults.latency_s)
        if self.faults.status is not None:
            return self.faults.status, {"error_code": 50001, "message": "switched-on fault"}
        if self.auth and authorization != "Basic " + base64.b64encode(":".join(self.auth).encode()).decode():
            return 401, {"error_code": 40101, "message": "Unauthorized"}
        try:
            with self._lock:
                return 200, self._route(method, path.partition("?")[0], body)
        except Refused as refused:
            return refused.answer

    def _route(self, method: str, path: str, body: Any) -> Any:
        for verb, pattern, work in _ROUTES:
            match = re.fullmatch(pattern, path)
            if match and verb == method:
                return work(self.schemas, match, body)
        raise Refused(404, 404, "HTTP 404 Not Found")

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        registry = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                registry._open.add(self.connection)

            def finish(self) -> None:
                registry._open.discard(self.connection)
                super().finish()

            def handle(self) -> None:
                try:
                    super().handle()
                except (OSError, ValueError):
                    self.close_connection = True  # the client, or `down`, closed the connection under us

            def _answer(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                raw = self.rfile.read(length)
                body = json.loads(raw) if raw else None
                status, answer = registry.answer(self.command, self.path, body, self.headers.get("authorization"))
                garbage = registry.faults.garbage
                content = json.dumps(answer).encode() if garbage is None else garbage
                self.send_response(status if garbage is None else 200)
                self.send_header("content-type", "application/vnd.schemaregistry.v1+json")
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_DELETE = do_PUT = _answer  # noqa: N815 - names the base class looks for

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's signature
                pass

        return Handler


_ROUTES: list[tuple[str, str, Callable[[Schemas, re.Match[str], Any], Any]]] = [
    ("GET", r"/subjects", lambda known, _, __: sorted(known.subjects)),
    ("POST", r"/subjects/([^/]+)/versions", lambda known, m, body: {"id": known.register(m[1], body)}),
    ("POST", r"/subjects/([^/]+)", lambda known, m, body: known.lookup(m[1], body)),
    (
        "GET",
        r"/subjects/([^/]+)/versions",
        lambda known, m, _: list(range(1, known.version(m[1], "latest")["version"] + 1)),
    ),
    ("GET", r"/subjects/([^/]+)/versions/([^/]+)", lambda known, m, _: known.version(m[1], m[2])),
    ("GET", r"/schemas/ids/(\d+)", lambda known, m, _: _shown(known.by_number(int(m[1])))),
    ("GET", r"/schemas/ids/(\d+)/versions", lambda known, m, _: known.users_of(int(m[1]))),
    ("GET", r"/schemas/types", lambda *_: ["JSON", "PROTOBUF", "AVRO"]),
]
