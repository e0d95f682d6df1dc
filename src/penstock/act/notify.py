"""The `notify` action: a message per event to any service that apprise knows."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from inspect import ismodule
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, field_validator, model_validator

from penstock.act.observed import Seen, observed
from penstock.act.webhook import WebhookAwayError, WebhookError, WebhookRefusedError
from penstock.config.spec import Model
from penstock.core.declarations import PRIVATE, SECRET, Address
from penstock.core.durations import Duration
from penstock.core.errors import PenstockError
from penstock.core.event import Event
from penstock.core.expression import Expression
from penstock.core.net.guard import AddressGuard, AddressRefused, AllowPrivate, guard_of
from penstock.core.plugin import Action, PipelineContext
from penstock.core.plugin_config import parse_config

_UNCHECKABLE = "is not reached by HTTP(S) or SMTP, so its address cannot be checked; `allow_private: true` allows it"
_CHECKED = frozenset({"requests", "smtplib"})
_UNCHECKED = frozenset({"socket", "threading", "subprocess", "apprise.utils.socket"})
_UNFINISHED = 1_000
"""Events of which we remember whom they have reached, should they be tried again."""


class NotifyConfig(Model):
    """Keys of the `notify` action."""

    urls: Annotated[list[str], Address("notification"), SECRET] = Field(min_length=1)
    """Where messages go, in apprise's way to write it: `slack://…`, `mailto://…`, `json://host/path`. Kept secret."""
    title: str = "{{ event_type }}"
    """Text, with CEL expressions in `{{ … }}`."""
    body: str | None = None
    """Text, with CEL expressions in `{{ … }}`; absent: the event as JSON."""
    embargo: Duration | None = Field(default=None, gt=0)
    """After a message, others with the same title are held back for this time; the next one says how many they were."""
    allow_private: Annotated[AllowPrivate, PRIVATE] = False
    """True: any service at any address. Otherwise only services that are reached by HTTP(S) or SMTP, at public
    addresses and at those of this list of networks and host names."""

    @field_validator("urls", mode="before")
    @classmethod
    def _one_is_a_list(cls, urls: Any) -> Any:
        return [urls] if isinstance(urls, str) else urls

    @field_validator("urls")
    @classmethod
    def _known(cls, urls: list[str]) -> list[str]:
        for number, url in enumerate(urls, 1):
            if service_of(url) is None:
                raise ValueError(f"number {number} is no address that apprise knows")
        return urls

    @model_validator(mode="after")
    def _checkable(self) -> Self:
        for number, url in enumerate(self.urls, 1):
            if self.allow_private is not True and not is_checkable(service_of(url)):
                raise ValueError(f"urls: number {number}: {_UNCHECKABLE}")
        return self

    @field_validator("title", "body")
    @classmethod
    def _compiles(cls, text: str | None) -> str | None:
        for hole in _pieces(text or "")[1::2]:
            try:
                Expression(hole.strip())
            except PenstockError as error:
                raise ValueError(str(error)) from None
        return text


class Notify(Action):
    """Sends to every address; a retry goes only to those that the event has not reached."""

    parallel_safe: ClassVar[bool] = False  # the embargo counts over all events of an instance
    config_model: ClassVar[type[NotifyConfig]] = NotifyConfig
    type_name: ClassVar[str] = "notify"

    def __init__(self, config: NotifyConfig) -> None:
        self._services = [service_of(url) for url in config.urls]
        self._title = _text(config.title)
        self._body = _text(config.body) if config.body is not None else lambda event: event.event.as_json()
        self._embargo = Embargo(config.embargo) if config.embargo is not None else None
        self._guard = guard_of(config.allow_private)
        self._reached: OrderedDict[tuple[str, int, int], set[int]] = OrderedDict()

    @classmethod
    def create(cls, config: dict[str, Any], ctx: PipelineContext) -> Self:  # noqa: ARG003 - the contract's signature
        return cls(parse_config(NotifyConfig, config, "notify"))

    def act(self, event: Event) -> None:
        title, body = self._title(event), self._body(event)
        record = event.record
        place = (record.topic(), record.partition(), record.offset())
        if self._embargo is not None and place not in self._reached:
            held = self._embargo.enter(title)
            if held is None:
                return
            body += _more(held)
        reached = self._reached.setdefault(place, set())
        for number, service in enumerate(self._services):
            if number not in reached:
                send(service, title, body, self._guard)
                reached.add(number)
        del self._reached[place]
        while len(self._reached) > _UNFINISHED:
            self._reached.popitem(last=False)

    def close(self) -> None:
        """Tell what is still held back; a service that is away now is not waited for."""
        for title, held in self._embargo.rest() if self._embargo is not None else ():
            for service in self._services:
                try:
                    send(service, title, _more(held).strip(), self._guard)
                except PenstockError:
                    continue


class Embargo:
    """One message per title and interval."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._lock = threading.Lock()
        self._held: dict[str, tuple[float, int]] = {}
        """End of the embargo, and how many were held back."""

    def enter(self, title: str) -> int | None:
        """How many were held back before this one, which may go; None: this one is held back."""
        now = time.monotonic()
        with self._lock:
            end, held = self._held.get(title, (0.0, 0))
            if now < end:
                self._held[title] = (end, held + 1)
                return None
            self._held = {each: state for each, state in self._held.items() if state[1] or state[0] > now}
            self._held[title] = (now + self._interval, 0)
            return held

    def rest(self) -> list[tuple[str, int]]:
        with self._lock:
            return [(title, held) for title, (_, held) in self._held.items() if held]


def _more(held: int) -> str:
    return f"\n\n{held} more like this since the last message" if held else ""


def service_of(url: str) -> Any:
    import apprise  # noqa: PLC0415 - slow to load, and few pipelines notify

    logging.getLogger("apprise").setLevel(logging.CRITICAL)  # it writes addresses into its log
    asset = apprise.AppriseAsset(app_id="Penstock", app_desc="Penstock", app_url="", async_mode=False)
    return apprise.Apprise.instantiate(url, asset=asset)


def is_checkable(service: Any) -> bool:
    """Whether all connections of an apprise service are made by functions that `observed` guards: its plug-in uses
    `requests`, or `smtplib` as the mail plug-in does, in the calling thread. Sockets of its own, MQTT, XMPP, UDP and
    programs of this machine are not; nor are plug-ins that log out when the garbage collector finds them."""
    kinds = [kind for kind in type(service).__mro__ if kind.__module__.startswith("apprise.plugins.")]
    packages = {".".join(kind.__module__.split(".")[:3]) for kind in kinds} - {"apprise.plugins.base"}
    modules = [module for name, module in list(sys.modules.items()) if ".".join(name.split(".")[:3]) in packages]
    used = {_origin(value) for module in modules for value in vars(module).values()}
    ends = any("__del__" in vars(kind) for kind in kinds)
    return bool(used & _CHECKED) and not used & _UNCHECKED and not ends


def _origin(value: Any) -> str:
    return value.__name__ if ismodule(value) else str(getattr(value, "__module__", ""))


def send(service: Any, title: str, body: str, guard: AddressGuard) -> None:
    """Send one message; raises what went wrong."""
    if not guard.allow_private and not is_checkable(service):
        raise AddressRefused(str(service.service_name), why=_UNCHECKABLE)
    with observed(guard) as seen:
        done = service.notify(title=title, body=body)
    if not done:
        raise _failure(str(service.service_name), seen)


def _failure(name: str, seen: Seen) -> PenstockError:
    """What a service that did not take a message means, by what it answered; without an answer it is away."""
    if seen.refused is not None:
        return seen.refused
    if seen.status is None:
        return WebhookAwayError(f"{name} cannot be reached{f': {seen.error}' if seen.error else ''}")
    said = f"{name} answered {seen.status}"
    if seen.status >= 500 or seen.status == 429:
        away = WebhookAwayError(said, received=seen.status)
        away.retry_after = seen.retry_after
        return away
    if seen.status < 400 or seen.status in (408, 425):
        return WebhookError(said, received=seen.status)
    return WebhookRefusedError(said, received=seen.status)


def _pieces(template: str) -> list[str]:
    """Text, expression, text, expression … text. In linear time, whatever is left open."""
    pieces, at = [], 0
    while (begin := template.find("{{", at)) >= 0 and (end := template.find("}}", begin + 3)) >= 0:
        pieces += [template[at:begin], template[begin + 2 : end]]
        at = end + 2
    return [*pieces, template[at:]]


def _text(template: str) -> Callable[[Event], str]:
    """A function that fills the holes of a text."""
    pieces = _pieces(template)
    texts, expressions = pieces[::2], [Expression(hole.strip()) for hole in pieces[1::2]]

    def filled(event: Event) -> str:
        values = [_shown(expression(event)) for expression in expressions]
        return "".join(part for pair in zip(texts, [*values, ""], strict=True) for part in pair)

    return filled


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return ("true" if value else "false") if isinstance(value, bool) else str(value)
