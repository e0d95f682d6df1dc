"""What `slack` and `teams` share: one sentence per entity change event, at most one message a second, and no error
kept back."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from abc import abstractmethod
from datetime import datetime
from typing import Annotated, Any, ClassVar

from aiohttp import ClientConnectionError, ClientError, ClientSession, ClientTimeout
from pydantic import Field

from penstock.act.entity_changes import ENTITY_CHANGE, Markup, Sentences, is_by_system
from penstock.act.webhook import WebhookAwayError, WebhookError, failure_of, read_answer
from penstock.config.spec import Model
from penstock.core.declarations import PRIVATE, Plain
from penstock.core.durations import Duration
from penstock.core.event import Event, json_bytes
from penstock.core.net.async_http import guarded_connector
from penstock.core.net.guard import AllowPrivate, guard_of
from penstock.core.net.url import parse_url
from penstock.core.plugin import Action, PipelineContext

_BETWEEN = 1.0
"""Seconds from one message to the next: chats take no more from one sender for long."""


class ChatConfig(Model):
    """Keys that both have."""

    base_url: Annotated[str, Plain("links in messages begin with it; nothing connects to it")] = (
        "http://localhost:9002/"
    )
    """Where the catalogue's pages are; links begin with it."""
    suppress_system_activity: bool = True
    """True: say nothing about what the catalogue itself did."""
    timeout: Duration = Field(default=10.0, gt=0)
    """A request that takes longer means that the chat is away."""
    allow_private: Annotated[AllowPrivate, PRIVATE] = False
    """True: the chat may be at any address, also of the local machine and of private networks. A list of networks and
    host names: at one of these as well."""


class Chat(Action):
    """One object per instance, so that its pace holds; other events than entity changes are none of its business."""

    parallel_safe: ClassVar[bool] = False
    markup: ClassVar[Markup]

    def __init__(self, config: ChatConfig, ctx: PipelineContext) -> None:
        self._config = config
        self._sentences = Sentences(config.base_url, self.markup, ctx.graph)
        self._pace = Pace(_BETWEEN)
        self._send(self._welcome(ctx.pipeline_name))

    def act(self, event: Event) -> None:
        if event.event_type != ENTITY_CHANGE:
            return
        if self._config.suppress_system_activity and is_by_system(event):
            return
        self._send(self._sentences.of(event))

    def close(self) -> None:
        """Nothing is open."""

    @abstractmethod
    def post(self, text: str) -> None:
        """Send one message; raises what the chat answered."""

    def _send(self, text: str) -> None:
        self._pace.wait()
        self.post(text)

    def _welcome(self, pipeline: str) -> str:
        mark, base = self.markup, self._config.base_url
        since = datetime.now().astimezone()
        return (
            f"Penstock tells here what changes in {mark.link('the catalogue', base)}: "
            f"pipeline {mark.bold(pipeline)} on {mark.plain(socket.gethostname())} since {since:%Y-%m-%d %H:%M:%S %Z}."
        )

    def request(self, url: str, payload: dict[str, Any], headers: dict[str, str] | None = None) -> bytes:
        """POST JSON and return the answer's body."""
        return asyncio.run(_post(url, payload, headers or {}, self._config))


class Pace:
    """Lets one call through per interval; the others wait their turn."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._lock = threading.Lock()
        self._next = 0.0

    def wait(self) -> None:
        with self._lock:
            now = time.monotonic()
            turn = max(now, self._next)
            self._next = turn + self._interval
        if turn > now:
            time.sleep(turn - now)


async def _post(address: str, payload: dict[str, Any], headers: dict[str, str], config: ChatConfig) -> bytes:
    url, guard = parse_url(address, allow_userinfo=True), guard_of(config.allow_private)
    host = url.host or ""
    guard.check_literal(url.raw_host or "")
    # I8: whatever goes wrong is told by the host; the rest of the address may be a secret.
    connector = guarded_connector(guard)
    typed = {"content-type": "application/json; charset=utf-8"}
    try:
        async with (
            ClientSession(connector=connector, timeout=ClientTimeout(total=config.timeout)) as session,
            session.post(url, data=json_bytes(payload), headers=headers | typed, allow_redirects=False) as answer,
        ):
            body = await read_answer(answer)
            if not 200 <= answer.status < 300:
                raise failure_of(answer, body, host)
            return body
    except TimeoutError:
        raise WebhookAwayError(f"{host} gave no answer within {config.timeout:g} s") from None
    except ClientConnectionError as error:
        raise WebhookAwayError(f"{host} cannot be reached: {type(error).__name__}") from None
    except ClientError as error:
        raise WebhookError(f"{host} gave no proper answer: {type(error).__name__}") from None
