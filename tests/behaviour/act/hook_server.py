"""A real HTTP server that answers as told and remembers what it was sent."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    client: tuple[str, int]


@dataclass
class Answer:
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b"ok"


class HookServer:
    """Answers every request with what `answer` returns for it."""

    def __init__(
        self,
        answer: Callable[[Request], Answer] = lambda _request: Answer(),
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        self.requests: list[Request] = []
        self._answer = answer
        self.connections = 0
        """Accepted, whatever was sent over them."""
        self._server = self._listener(host, port)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self.port = self._server.server_address[1]

    def _listener(server, host: str, port: int) -> ThreadingHTTPServer:  # noqa: N805 - the listener's own `self` is inside
        class Listener(ThreadingHTTPServer):
            def verify_request(self, *_: Any) -> bool:
                server.connections += 1
                return True

        return Listener((host, port), server._handler())

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_request(self) -> None:
                length = int(self.headers.get("content-length", 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                request = Request(self.command, self.path, headers, self.rfile.read(length), self.client_address)
                server.requests.append(request)
                answer = server._answer(request)
                try:
                    self._reply(answer)
                except BrokenPipeError:
                    self.close_connection = True  # who asked did not wait

            def _reply(self, answer: Answer) -> None:
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_request  # noqa: N815 - the base class's names

            def log_message(self, *_: Any) -> None:
                """Tests print nothing."""

        return Handler

    def url(self, path: str = "/hook", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)
