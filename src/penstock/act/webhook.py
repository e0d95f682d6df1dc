"""The `webhook` action: one HTTP request per event, many at a time over connections that are kept."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Annotated, Any, ClassVar, Literal, Self

from aiohttp import ClientConnectionError, ClientError, ClientResponse, ClientSession, ClientTimeout
from pydantic import Field, field_validator

from penstock.config.spec import Model
from penstock.core.declarations import PRIVATE, REFERABLE, Address
from penstock.core.durations import Duration
from penstock.core.errors import ConfigError, PenstockError, Terminal, Transient, Unavailable
from penstock.core.event import Event, json_bytes
from penstock.core.expression import Cel, Expression
from penstock.core.net.async_http import guarded_connector
from penstock.core.net.guard import AddressRefused, AllowPrivate, guard_of
from penstock.core.net.url import parse_url
from penstock.core.plugin import Action, PipelineContext
from penstock.core.plugin_config import parse_config

_ANSWER = 65_536
"""Bytes of an answer that are read, so that its connection can be used again; a longer answer costs the connection."""
_SHOWN = 500
"""Characters of an answer that a failure shows."""
_TOO_MANY = 429
"""With all of 5xx an answer about the server, not about the event: the pipeline waits."""
_AGAIN = frozenset({408, 425})

Content = tuple[bytes, str]


class WebhookRefusedError(PenstockError, Terminal):
    """The server will not take this event, however often it is sent."""

    code = "webhook-refused"


class WebhookError(PenstockError, Transient):
    """The server failed on this event; it may take it the next time."""

    code = "webhook-failed"


class WebhookAwayError(Unavailable):
    """The server cannot be reached, or asks for a pause."""

    code = "webhook-away"
    retry_after: float | None = None
    """Seconds the server asks to wait."""


class WebhookConfig(Model):
    """Keys of the `webhook` action."""

    url: Annotated[str, Address("url"), REFERABLE]
    """Where to send; http or https."""
    method: Literal["POST", "PUT", "PATCH", "DELETE"] = "POST"
    """HTTP method."""
    headers: Annotated[dict[str, str], REFERABLE] = Field(default_factory=dict)
    """Added to each request."""
    body: Literal["event", "envelope", "value"] | dict[str, Cel] = "event"
    """`event`: the value as JSON; `envelope`: type and meta, too; `value`: text, bytes as they are; or field to CEL."""
    timeout: Duration = Field(default=10.0, gt=0)
    """A request that takes longer fails. Keep it below `options.timeout`."""
    concurrency: int = Field(default=100, ge=1, le=10_000)
    """Connections at most; how many events are sent side by side is `options.concurrency`."""
    fail_on: frozenset[int] = frozenset()
    """Statuses of 5xx or 429 that are the event's own fault: it fails, where the pipeline would wait for the server."""
    allow_private: Annotated[AllowPrivate, PRIVATE] = False
    """True: any address may be called, also of the local machine and of private networks. A list of networks and host
    names: these as well as public ones."""

    @field_validator("url")
    @classmethod
    def _usable(cls, url: str) -> str:
        parse_url(url, allow_userinfo=True, example="https://example.org/hook")
        return url

    @field_validator("headers")
    @classmethod
    def _one_line(cls, headers: dict[str, str]) -> dict[str, str]:
        for name, value in headers.items():
            if not name.isascii() or any(c in "\r\n\0" for c in name + value):
                raise ValueError(f"header {name!r} must be one line")
        return headers


class Webhook(Action):
    """Sends each event; 2xx is done. Redirects are not followed."""

    parallel_safe: ClassVar[bool] = True
    config_model: ClassVar[type[WebhookConfig]] = WebhookConfig
    type_name: ClassVar[str] = "webhook"

    def __init__(self, config: WebhookConfig) -> None:
        self._config = config
        self._url = parse_url(config.url, allow_userinfo=True)
        self._host = self._url.host or ""
        self._guard = guard_of(config.allow_private)
        try:
            self._guard.check_literal(self._url.raw_host or "")
        except AddressRefused as error:
            raise ConfigError(f"webhook: `url`: {error.message}", received=error.received, hint=error.hint) from None
        self._content = _content(config.body)
        self._own_type = any(name.lower() == "content-type" for name in config.headers)
        self._session: ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @classmethod
    def create(cls, config: dict[str, Any], ctx: PipelineContext) -> Self:  # noqa: ARG003 - the contract's signature
        return cls(parse_config(WebhookConfig, config, "webhook"))

    async def act(self, event: Event) -> None:
        body, kind = self._content(event)
        headers = None if self._own_type else {"content-type": kind}
        try:
            async with self._open().request(
                self._config.method, self._url, data=body, headers=headers, allow_redirects=False
            ) as answer:
                text = await read_answer(answer)
                if not 200 <= answer.status < 300:
                    raise failure_of(answer, text, self._host, self._config.fail_on)
        except TimeoutError:
            raise WebhookAwayError(f"{self._host} gave no answer within {self._config.timeout:g} s") from None
        except ClientConnectionError as error:
            raise WebhookAwayError(f"{self._host} cannot be reached: {error or type(error).__name__}") from error
        except ClientError as error:
            raise WebhookError(f"{self._host} gave no proper answer: {error}") from error

    async def close(self) -> None:  # type: ignore[override]  # the worker awaits what is awaitable
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _open(self) -> ClientSession:
        """The session; made here because it belongs to the loop that it is made in."""
        loop = asyncio.get_running_loop()
        if self._session is None or self._loop is not loop:
            config = self._config
            self._session = ClientSession(
                connector=guarded_connector(self._guard, config.concurrency),
                timeout=ClientTimeout(total=config.timeout),
                headers=config.headers,
                auto_decompress=False,  # a small answer could unpack to a huge one
            )
            self._loop = loop
        return self._session


def _content(body: str | dict[str, Cel]) -> Callable[[Event], Content]:
    if body == "event":
        return lambda event: (event.event.as_json().encode(), "application/json")
    if body == "envelope":
        return lambda event: (event.as_json().encode(), "application/json")
    if body == "value":
        return _value_content
    fields = [(name, Expression(source)) for name, source in dict(body).items()]  # type: ignore[arg-type]  # the texts are dealt with above
    return lambda event: (json_bytes({name: expression(event) for name, expression in fields}), "application/json")


def _value_content(event: Event) -> Content:
    if isinstance(event.value, bytes):
        return event.value, "application/octet-stream"
    if isinstance(event.value, str):
        return event.value.encode(), "text/plain; charset=utf-8"
    return json_bytes(event.value), "application/json"


async def read_answer(answer: ClientResponse) -> bytes:
    """The answer, as far as it is read."""
    chunks: list[bytes] = []
    size = 0
    while size < _ANSWER and (chunk := await answer.content.read(_ANSWER - size)):
        chunks.append(chunk)
        size += len(chunk)
    return b"".join(chunks)


def failure_of(answer: ClientResponse, body: bytes, host: str, fail_on: frozenset[int] = frozenset()) -> PenstockError:
    """What an answer other than 2xx means: the server is away, or the event is at fault."""
    status = answer.status
    shown = body.decode(errors="replace").strip()[:_SHOWN]
    message = f"{host} answered {status} {answer.reason or ''}".rstrip() + (f": {shown}" if shown else "")
    if (status >= 500 or status == _TOO_MANY) and status not in fail_on:
        away = WebhookAwayError(message, received=status)
        away.retry_after = retry_after(answer.headers.get("Retry-After"))
        return away
    if status in _AGAIN or status in fail_on:
        return WebhookError(message, received=status)
    hint = "redirects are not followed; write the final URL" if 300 <= status < 400 else None
    return WebhookRefusedError(message, received=status, hint=hint)


def retry_after(header: str | None) -> float | None:
    """Seconds to wait, from a number of seconds or a date; None where there is neither."""
    if header is None:
        return None
    if header.strip().isdecimal():
        return float(header)
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - time.time())
    except ValueError:
        return None
