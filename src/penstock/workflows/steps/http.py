"""A step that is an HTTP request; the answer becomes `response` of the state."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Annotated, Any, Final, Literal, TypeVar

import orjson
from aiohttp import ClientError, ClientSession, ClientTimeout
from pydantic import Field, field_validator

from penstock.config.model import Model
from penstock.core.declarations import PRIVATE, REFERABLE, Address
from penstock.core.durations import Duration
from penstock.core.errors import ConfigError
from penstock.core.event import json_bytes
from penstock.core.expression import StateExpression
from penstock.core.net.async_http import guarded_connector
from penstock.core.net.guard import AddressRefused, AllowPrivate, guard_of
from penstock.core.net.url import parse_url
from penstock.core.plugin_config import parse_config
from penstock.workflows.failing import StepFailed
from penstock.workflows.steps.step import State, Step, StepContext

_ANSWER: Final = 10 * 1024 * 1024
"""Bytes of an answer that are read; a longer one fails the step."""
_LOOK_EVERY: Final = 0.2
_CONNECTIONS: Final = 100

T = TypeVar("T")


class HttpStepConfig(Model):
    """Keys of an `http` step."""

    url: Annotated[str, Address("url"), REFERABLE]
    """Where to send; http or https."""
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"] = "POST"
    """HTTP method."""
    headers: Annotated[dict[str, str], REFERABLE] = Field(default_factory=dict)
    """Added to the request."""
    header_expressions: dict[str, str] = Field(default_factory=dict)
    """Headers as CEL over `state`; what is no text becomes JSON."""
    body: str = "state"
    """`state`: all of it, as JSON; `none`; or a CEL expression over `state` whose value is sent as JSON. GET and HEAD
    send none."""
    timeout: Duration = Field(default=30.0, gt=0)
    """A request that takes longer fails."""
    allow_private: Annotated[AllowPrivate, PRIVATE] = False
    """True: any address may be called, also of the local machine and of private networks. A list of networks and host
    names: these as well as public ones."""

    @field_validator("url")
    @classmethod
    def _usable(cls, url: str) -> str:
        parse_url(url, allow_userinfo=True, example="https://example.org/patients")
        return url


class HttpStep(Step):
    """2xx and 3xx are answers, from 400 on the step fails; both are in the state. Redirects are not followed."""

    def __init__(self, config: dict[str, Any], folder: str | None) -> None:  # noqa: ARG002 - as of the other kinds
        self._config = parse_config(HttpStepConfig, config, "http")
        self._url = parse_url(self._config.url, allow_userinfo=True)
        self._guard = guard_of(self._config.allow_private)
        try:
            self._guard.check_literal(self._url.raw_host or "")
        except AddressRefused as error:
            raise ConfigError(f"http: `url`: {error.message}", received=error.received, hint=error.hint) from None
        named = self._config.body in {"state", "none"}
        self._body = None if named else StateExpression(self._config.body)
        self._headers = {name: StateExpression(text) for name, text in self._config.header_expressions.items()}
        self._session: ClientSession | None = None

    def run(self, state: State, ctx: StepContext) -> Any:
        headers = dict(self._config.headers)
        headers |= {name: _text(expression(state)) for name, expression in self._headers.items()}
        answer = _LOOP.wait(self._send(self._content(state), headers), ctx)
        state = {**state, "response": answer}
        if answer["status"] >= 400:
            shown = str(answer["body"])[:500]
            failed = StepFailed(f"{self._url.host} answered {answer['status']}: {shown}", received=answer["status"])
            failed.state = state
            raise failed
        return state

    def close(self) -> None:
        if self._session is not None:
            _LOOP.start(self._session.close())

    def _content(self, state: State) -> bytes | None:
        if self._config.method in {"GET", "HEAD"} or self._config.body == "none":
            return None
        return json_bytes(state if self._body is None else self._body(state))

    async def _send(self, body: bytes | None, headers: dict[str, str]) -> dict[str, Any]:
        if body is not None and not any(name.lower() == "content-type" for name in headers):
            headers["content-type"] = "application/json"
        try:
            async with self._open().request(
                self._config.method, self._url, data=body, headers=headers, allow_redirects=False
            ) as answer:
                content = await answer.content.read(_ANSWER + 1)
                while len(content) <= _ANSWER and (more := await answer.content.read(_ANSWER + 1 - len(content))):
                    content += more
                if len(content) > _ANSWER:
                    raise StepFailed(f"{self._url.host} answered with more than {_ANSWER} bytes")
                found = {name.lower(): value for name, value in answer.headers.items()}
                return {"status": answer.status, "headers": found, "body": _parsed(content)}
        except TimeoutError:
            raise StepFailed(f"{self._url.host} gave no answer within {self._config.timeout:g} s") from None
        except ClientError as error:
            raise StepFailed(f"{self._url.host} gave no answer: {error or type(error).__name__}") from error

    def _open(self) -> ClientSession:
        if self._session is None:
            self._session = ClientSession(
                connector=guarded_connector(self._guard, _CONNECTIONS),
                timeout=ClientTimeout(total=self._config.timeout),
            )
        return self._session


class _Loop:
    """One event loop per process, in a thread of its own, for the requests of all steps."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self, work: Coroutine[Any, Any, T]) -> Any:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="http-steps", daemon=True).start()
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def wait(self, work: Coroutine[Any, Any, T], ctx: StepContext) -> T:
        future = self.start(work)
        while True:
            try:
                result: T = future.result(_LOOK_EVERY)
            except FutureTimeout:
                if future.done():
                    raise
                try:
                    ctx.check()
                except BaseException:
                    future.cancel()
                    raise
            else:
                return result


_LOOP: Final = _Loop()


def _parsed(content: bytes) -> Any:
    """JSON as what it says, anything else as text."""
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError:
        return content.decode(errors="replace")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json_bytes(value).decode()
