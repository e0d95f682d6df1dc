"""The HTTP server beside `penstock run`: metrics and health, on a thread of its own."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Literal

import uvicorn
from fastapi import FastAPI, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from penstock.api.certificates import Certificate
from penstock.api.connections import bounded, most_connections
from penstock.core.deadline import Deadline
from penstock.core.errors import ConfigError, Unavailable
from penstock.service.health import Health

PORTS_TRIED = 50
"""So many ports after the default one are tried before giving up."""


_HEAD_SECONDS = 10.0
"""For the head of a request to arrive."""
_MAX_MESSAGE = 1_000_000
_LOOKS = ["GET", "HEAD"]
"""Load balancers and uptime checks often ask for the status alone."""


def make_app(health: Callable[[], Health], metrics: Callable[[], bytes]) -> FastAPI:
    """The routes; `health` and `metrics` are asked at every request."""
    app = FastAPI(title="Penstock", docs_url=None, redoc_url=None, openapi_url=None)

    @app.api_route("/metrics", methods=_LOOKS, include_in_schema=False)
    def metrics_text() -> Response:
        return Response(metrics(), media_type=CONTENT_TYPE_LATEST)

    @app.api_route("/health/live", methods=_LOOKS, include_in_schema=False)
    async def live() -> JSONResponse:  # on the event loop: it answers also while every thread of the pool is taken
        return JSONResponse({"live": True})

    @app.api_route("/health/ready", methods=_LOOKS, include_in_schema=False)
    def ready() -> JSONResponse:
        now = health()
        return JSONResponse(now.as_dict(), status_code=200 if now.ready else 503)

    return app


def make_monitoring(metrics: Callable[[], bytes]) -> FastAPI:
    """The routes of DataHub's monitoring port: the metrics, and nothing else."""
    app = FastAPI(title="Penstock", docs_url=None, redoc_url=None, openapi_url=None)

    @app.get("/")
    @app.get("/metrics")
    def metrics_text() -> Response:
        return Response(metrics(), media_type=CONTENT_TYPE_LATEST)

    return app


class _TimedProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]  # whichever parser is installed
    """Ends a connection on which the head of a request does not arrive in time: a thousand of those that send a byte a
    minute would hold as many sockets."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        self._wait()
        super().data_received(data)
        if self._answering:
            self._wait_no_more()

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait_no_more()
        super().connection_lost(exc)

    @property
    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _wait(self) -> None:
        if self._late is None and not self._answering:
            self._late = self.loop.call_later(_HEAD_SECONDS, self._end)

    def _wait_no_more(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _end(self) -> None:
        self._late = None
        # A socket's connection has another protocol by now.
        if not self._answering and self.transport.get_protocol() is self:
            self.transport.close()


class Server:
    """Serves an app from `start` to `stop`.

    `port` None means the default one, and the next free one where that is taken; a port that was asked for and is taken
    is an error.
    """

    def __init__(
        self,
        app: FastAPI,
        *,
        host: str,
        port: int | None,
        default_port: int,
        if_taken: str,
        tls: tuple[str, str] | None = None,
        lifespan: Literal["on", "off"] = "off",
        trusted_proxies: Sequence[str] = (),
        max_message: int = _MAX_MESSAGE,
    ) -> None:
        """`tls`: files of the certificate and its key. `lifespan`: whether the app has things to start and stop.
        `trusted_proxies`: addresses and networks whose `X-Forwarded-*` headers are believed. `max_message`: bytes of
        one message of a socket."""
        self._host = host
        self._tls = tls
        self._proxies, self._max_message = list(trusted_proxies), max_message
        self._lifespan: Literal["on", "off"] = lifespan
        self._port = port
        self._default_port = default_port
        self._if_taken = if_taken
        self._app = app
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None
        self._certificate: Certificate | None = None
        self.address: str | None = None

    def start(self) -> str:
        """Begin to serve; the address, such as `http://127.0.0.1:8642`."""
        listener = self._bind()
        config = uvicorn.Config(
            self._app,
            log_config=None,
            access_log=False,
            lifespan=self._lifespan,
            timeout_graceful_shutdown=2,
            http=_TimedProtocol,
            ws_max_size=self._max_message,
            server_header=False,
            proxy_headers=bool(self._proxies),
            forwarded_allow_ips=self._proxies,
        )
        if self._tls is not None:
            config.ssl_certfile, config.ssl_keyfile = self._tls
        try:
            config.load()
        except (OSError, ValueError) as error:
            listener.close()
            raise ConfigError(f"the certificate or its key cannot be used: {error}", received=self._tls) from error
        config.http_protocol_class = bounded(config.http_protocol_class, most_connections())
        if self._tls is not None and config.ssl is not None:
            self._certificate = Certificate(config.ssl, self._tls)
            self._certificate.start()
        self._server = server = uvicorn.Server(config)
        self._thread = threading.Thread(target=server.run, args=([listener],), name="http", daemon=True)
        self._thread.start()
        self._wait_until_started(server)
        host = f"[{self._host}]" if ":" in self._host else self._host
        scheme = "http" if self._tls is None else "https"
        self.address = f"{scheme}://{host}:{listener.getsockname()[1]}"
        return self.address

    def stop(self) -> None:
        """Finish the answers under way and end; harmless when not started."""
        if self._server is None or self._thread is None:
            return
        if self._certificate is not None:
            self._certificate.stop()
        self._server.should_exit = True
        self._thread.join(timeout=5)
        self._server = self._thread = None

    def _wait_until_started(self, server: uvicorn.Server) -> None:
        deadline = Deadline.after(10)
        assert self._thread is not None  # noqa: S101 - set by start, for the type checker
        while not server.started and self._thread.is_alive() and not deadline.expired:
            self._thread.join(timeout=0.005)
        if not server.started:
            raise Unavailable("the HTTP server did not start", received=f"{self._host}:{self._port}")

    def _bind(self) -> socket.socket:
        if self._port is not None:
            return self._listen(self._port)
        for port in range(self._default_port, self._default_port + PORTS_TRIED):
            try:
                return self._listen(port)
            except PortTakenError:
                continue
        return self._listen(0)

    def _listen(self, port: int) -> socket.socket:
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((self._host, port))
            # Listening at once: two instances that bind the same port with SO_REUSEADDR would both succeed otherwise.
            listener.listen(128)
        except OSError as error:
            listener.close()
            if error.errno == errno.EADDRINUSE:
                raise PortTakenError(
                    "the HTTP port is taken by another process",
                    received=f"{self._host}:{port}",
                    hint=self._if_taken,
                ) from error
            raise ConfigError(f"cannot listen: {error.strerror}", received=f"{self._host}:{port}") from error
        return listener


class HttpServer(Server):
    """Metrics and health; `extend` adds to the app, the API and the console for instance.

    An address that others reach is refused unless a log-in is asked for (`open_to_others`)."""

    def __init__(
        self,
        *,
        health: Callable[[], Health],
        metrics: Callable[[], bytes],
        host: str = "127.0.0.1",
        port: int | None = None,
        default_port: int = 8642,
        extend: Callable[[FastAPI], None] | None = None,
        open_to_others: bool = False,
        tls: tuple[str, str] | None = None,
        trusted_proxies: Sequence[str] = (),
        max_message: int = _MAX_MESSAGE,
    ) -> None:
        app = make_app(health, metrics)
        if extend is not None:
            extend(app)
        super().__init__(
            app,
            host=host if open_to_others else _loopback(host),
            port=port,
            default_port=default_port,
            if_taken="set PENSTOCK_HTTP_PORT to another port, or leave it out to get the next free one",
            tls=tls,
            lifespan="off" if extend is None else "on",
            trusted_proxies=trusted_proxies,
            max_message=max_message,
        )


class MonitoringServer(Server):
    """The port that `--enable-monitoring` asks for: figures, without a log-in. A scraper that is elsewhere needs
    `--monitoring-host`; DataHub's own listens on every address."""

    def __init__(self, metrics: Callable[[], bytes], host: str, port: int) -> None:
        super().__init__(
            make_monitoring(metrics),
            host=host,
            port=port,
            default_port=port,
            if_taken="give another one with --monitoring-port",
        )


class PortTakenError(ConfigError):
    """The port that the HTTP server shall listen on is in use."""

    code = "port_taken"


def _loopback(host: str) -> str:
    address = "127.0.0.1" if host == "localhost" else host
    try:
        local = ipaddress.ip_address(address).is_loopback
    except ValueError:
        local = False
    if not local:
        raise ConfigError(
            "the HTTP server listens on this machine only, unless http.auth is on",
            received=host,
            allowed=["127.0.0.1", "localhost", "::1"],
        )
    return address
