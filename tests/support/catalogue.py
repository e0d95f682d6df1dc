"""A stand-in of DataHub's catalogue: an HTTP server that answers its client and keeps what was asked."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qs, urlsplit


class Call(NamedTuple):
    """One request."""

    method: str
    path: str
    token: str | None
    body: Any


class Catalogue:
    """Listens on a loopback port; `downstreams` has what it answers about lineage, by URN."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.downstreams: dict[str, list[str]] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def proposals(self) -> list[dict[str, Any]]:
        """Changes that were proposed, in order."""
        return [call.body["proposal"] for call in list(self.calls) if "action=ingestProposal" in call.path]

    def _answer(self, call: Call) -> Any:
        if call.path.startswith("/config"):
            version = {"acryldata/datahub": {"version": "v1.3.0", "commit": "1"}}
            return {"noCode": "true", "versions": version, "datahub": {"serverType": "test"}}
        if call.path.startswith("/relationships"):
            [urn] = parse_qs(urlsplit(call.path).query)["urn"]
            found = [{"type": "DownstreamOf", "entity": each} for each in self.downstreams.get(urn, ())]
            return {"start": 0, "count": len(found), "total": len(found), "relationships": found}
        return {}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        catalogue = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _serve(self) -> None:
                raw = self.rfile.read(int(self.headers.get("content-length") or 0))
                body = json.loads(raw) if raw else None
                token = self.headers.get("authorization")
                call = Call(self.command, self.path, token, body)
                catalogue.calls.append(call)
                answer = json.dumps(catalogue._answer(call)).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            do_GET = do_POST = _serve  # noqa: N815 - the names that http.server calls

            def log_message(self, *_: object) -> None:
                """Not into the test's output."""

        return Handler
