"""What every page has: the header with its places, the banner on health, the keys, and one way to ask the service."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Concatenate, Final, ParamSpec, TypeVar
from urllib.parse import quote, urlencode

from fastapi import Request, Response
from fastapi.responses import RedirectResponse
from nicegui import ui
from nicegui.client import ClientConnectionTimeout
from nicegui.elements.mixins.text_element import TextElement

from penstock.console.data import FAILED_ORDERS, Data
from penstock.console.overview import Verdict
from penstock.console.parts import box, button, link, notify, text
from penstock.console.threads import in_thread
from penstock.console.trouble import outage, show_mistake, show_nobody, show_refusal, tell_mistake, theme
from penstock.console.words import number
from penstock.core.errors import PenstockError
from penstock.core.visible import visible
from penstock.service.access import Actor, NotAllowed, Right, allows_somewhere
from penstock.service.authentication import Authentication, LogInFirst
from penstock.service.operations.desk import Desk

P = ParamSpec("P")
T = TypeVar("T")

PLACES: Final = (
    ("Pipelines", "/", "p"),
    ("Dead letters", "/dead-letters", "d"),
    ("History", "/history", "h"),
    ("Workflows", "/workflows", "w"),
    ("Triggers", "/triggers", "r"),
    ("Jobs", "/jobs", "j"),
    ("Topics", "/topics", "t"),
    ("Instances", "/instances", "i"),
    ("Notices", "/notifications", "n"),
    ("Audit", "/audit", "a"),
    ("Users", "/users", "u"),
)
_RIGHTS: Final[dict[str, Right]] = {
    "/notifications": "notices.view",
    "/audit": "audit.view",
    "/users": "tokens.own",
}
"""Places that not everybody is shown."""
_FAILED: Final = f"/history?{urlencode(FAILED_ORDERS | {'state': ','.join(FAILED_ORDERS['state'])}, safe=',')}"
_KNOWN: Final = 10.0
"""Seconds after which a page that is open asks again who has opened it."""
_SLOW: Final = 30.0
"""Seconds that a page may take: a broker that is away is waited for."""
REFRESH: Final = 2.0
"""Seconds between two looks of a page that shows what goes on."""


def url(path: str, **query: object) -> str:
    """An address of the console; what is None is left out."""
    given = {name: value for name, value in query.items() if value not in (None, "")}
    return f"{path}?{urlencode(given)}" if given else path


def pipeline_url(name: str) -> str:
    return f"/pipelines/{quote(name, safe='')}"


@dataclass(slots=True)
class Visit:
    """One page, open in one tab."""

    data: Data
    request: Request
    _actor: Actor
    _known_until: float = field(default_factory=lambda: time.monotonic() + _KNOWN)

    @property
    def path(self) -> dict[str, str]:
        return {name: str(value) for name, value in self.request.path_params.items()}

    def asked(self, name: str) -> str | None:
        """A value of the address; None where it is absent or empty."""
        return self.request.query_params.get(name) or None

    def may(self, right: Right) -> bool:
        """Whether whoever opened the page has the right somewhere."""
        return allows_somewhere(self._actor, right)

    def places(self) -> list[tuple[str, str]]:
        """Names and addresses of the pages that whoever opened this one is shown."""
        return [(name, to) for name, to, _ in PLACES if to not in _RIGHTS or self.may(_RIGHTS[to])]

    @property
    def who(self) -> str:
        return self._actor.name

    async def ask(self, question: Callable[Concatenate[Desk, Actor, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Ask an operation, in a thread of its own."""

        def asked() -> T:
            if time.monotonic() >= self._known_until:
                # A page may stay open for longer than a session lasts, or a role.
                self._actor = self.data.actor(self.request)
                self._known_until = time.monotonic() + _KNOWN
            try:
                return question(self.data.desk, self._actor, *args, **kwargs)
            except NotAllowed as error:
                self.data.desk.note_refusal(self._actor, getattr(question, "__name__", "console"), error)
                raise

        return await in_thread(asked)

    async def tell(
        self, done: str | None, command: Callable[Concatenate[Desk, Actor, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T | None:
        """Give a command and say that it is done, or why it was refused; None then."""
        try:
            answer = await self.ask(command, *args, **kwargs)
        except PenstockError as error:
            notify(str(error), good=False)
            return None
        self.data.forget()
        if done:
            notify(done)
        return answer


Build = Callable[[Visit], Awaitable[None]]


class Pages:
    """Registers pages; they find what they need here when they are opened."""

    def __init__(self) -> None:
        self._data: Data | None = None

    def serve(self, data: Data) -> None:
        self._data = data

    def page(self, path: str, name: str, here: str) -> Callable[[Build], Build]:
        """A page within the frame. A refused question becomes a problem on it, with the reason."""

        def register(build: Build) -> Build:
            @ui.page(path, title=f"{name} · Penstock", response_timeout=_SLOW)
            async def built(request: Request) -> Response | None:
                try:
                    visit = await self.recognised(request)
                except PenstockError as error:
                    show_nobody(request, error, lambda: self.recognised(request))
                    return None
                if visit is None:
                    back = request.url.path + (f"?{request.url.query}" if request.url.query else "")
                    return RedirectResponse(url("/login", next=back), status_code=303)
                main = await _frame(visit, here)
                with main:
                    try:
                        await build(visit)
                    except ClientConnectionTimeout:
                        raise  # nobody looks any more
                    except Exception as error:  # noqa: BLE001 - whatever it is, the page says so and the log has it
                        if main.is_deleted:
                            return None  # as above: its tab was closed while it asked
                        if isinstance(error, PenstockError):
                            show_refusal(error, lambda: visit.ask(visit.data.overview))
                        else:
                            show_mistake(error)
                return None

            return build

        return register

    @property
    def data(self) -> Data:
        if self._data is None:
            raise RuntimeError("the console is not being served")
        return self._data

    @property
    def authentication(self) -> Authentication:
        return self.data.authentication

    async def recognised(self, request: Request) -> Visit | None:
        """Who opens a page; None: someone who has to log in first."""

        def visit() -> Visit | None:
            try:
                return Visit(self.data, request, self.data.actor(request))
            except LogInFirst:
                return None

        return await in_thread(visit)


pages: Final = Pages()


async def _frame(visit: Visit, here: str) -> ui.element:
    ui.on_exception(tell_mistake)
    dark = theme(visit.request)
    with box("top"), box("top-row"):
        with ui.element("a").classes("brand").props('href="/" aria-label="Penstock, home"'):
            ui.element("img").props('src="/_console/mark.svg" alt=""')
            text("Penstock", tag="span")
        with ui.element("nav").classes("nav").props('aria-label="Places"'):
            for name, target in visit.places():
                link(name, target, "here" if target == here else "")
        with box("tools"):
            button("?", lambda: ui.run_javascript("document.getElementById('keys').showModal()"), "tiny").props(
                'aria-label="Keys"'
            )
            _theme_button(dark)
            if visit.data.authentication.required:
                text(visit.who, "who small", "span")
                button("Log out", lambda: ui.run_javascript("penstockLogOut()"), "tiny")
    await _show_banner(visit)
    _keys(visit)
    with box("main") as main:
        return main


def _theme_button(dark: ui.dark_mode) -> None:
    names: dict[bool | None, str] = {None: "Auto", False: "Light", True: "Dark"}
    turns: dict[bool | None, bool | None] = {None: False, False: True, True: None}

    async def turn() -> None:
        wanted = turns[dark.value]
        # Before it is seen: whoever goes on to another page then finds it there.
        await ui.run_javascript(f"penstockTheme('{names[wanted].lower()}')", timeout=_SLOW)
        dark.value, shown.text = wanted, names[wanted]

    shown = button(names[dark.value], turn, "tiny").props('aria-label="Light or dark"')


class _Banner:
    """How all pipelines are, on every page. Figures in it change all the time; links stay, for one may be in focus."""

    def __init__(self) -> None:
        self._wrong: dict[tuple[str, str], tuple[ui.element, TextElement]] = {}
        with box("banner") as self._banner:
            self._banner.props("role=status")
            with ui.element("div"):
                self._sentence = text("", "say", "span")
                with ui.element("span").classes("wrong") as self._pipelines:
                    pass
                self._letters = link("", "/dead-letters")
                self._orders = link("", _FAILED)

    def show(self, found: Verdict) -> None:
        self._banner.classes(replace=f"banner {found.level}")
        self._sentence.text = visible(found.sentence)
        self._name({(each.pipeline, each.title): f" {each.wrong}" for each in found.pipelines})
        letters, orders = found.letters, found.orders
        self._letters.text = f"{number(letters)} open dead letter{'' if letters == 1 else 's'}" if letters else ""
        self._orders.text = (
            f"{orders} work order{'' if orders == '1' else 's'} failed within the hour" if orders else ""
        )
        for shown in (self._letters, self._orders):
            shown.visible = bool(shown.text)

    def _name(self, wrong: dict[tuple[str, str], str]) -> None:
        for gone in self._wrong.keys() - wrong.keys():
            self._wrong.pop(gone)[0].delete()
        for place, (named, said) in enumerate(wrong.items()):
            if named not in self._wrong:
                with self._pipelines, ui.element("span") as around:
                    link(named[1], pipeline_url(named[0]))
                    self._wrong[named] = (around, text(said, tag="span"))
            around, shown = self._wrong[named]
            shown.text = visible(said)
            if self._pipelines.default_slot.children[place] is not around:
                around.move(target_index=place)


async def _show_banner(visit: Visit) -> None:
    banner = _Banner()

    async def look() -> None:
        try:
            banner.show((await visit.ask(visit.data.overview)).verdict)
        except LogInFirst:
            banner.show(Verdict("bad", "Your session has ended. Log in again: reload the page."))
        except NotAllowed as error:
            banner.show(Verdict("warn", error.message))
        except PenstockError as error:
            banner.show(Verdict("bad", f"{outage(error)} What is shown is as it was before."))

    await look()
    ui.timer(REFRESH, look, immediate=False)


def _keys(visit: Visit) -> None:
    with ui.element("dialog").classes("keys").props('id=keys aria-label="Keys"'):
        text("Keys", "sub", "h2")
        shown: list[tuple[str, str]] = [("/", "search"), ("?", "this list")]
        shown += [(f"g {key}", name) for name, to, key in PLACES if (name, to) in visit.places()]
        with box("facts"):
            for key, name in shown:
                text(key, tag="kbd")
                text(name)
        with ui.element("form").props("method=dialog"):
            text("Close", tag="button").classes("act")


@asynccontextmanager
async def waiting() -> AsyncIterator[None]:
    """Around a question that may take seconds: the page is there meanwhile, and says so."""
    with box("head") as shown:
        ui.spinner(size="1.6em")
        text("Asking the cluster…", "muted")
    await ui.context.client.connected(timeout=_SLOW)
    try:
        yield
    finally:
        if not shown.is_deleted:  # as it is where the tab was closed meanwhile
            shown.delete()


def refreshing(look: Callable[[], Awaitable[None]]) -> ui.timer:
    """Look again and again while the page is open; an outage leaves what is shown as it is."""

    async def safely() -> None:
        try:
            await look()
        except PenstockError:
            return  # the banner says it

    return ui.timer(REFRESH, safely, immediate=False)


def query_of(request: Request, **changes: Any) -> str:
    """The page's own address with some values changed; None takes one out."""
    given: dict[str, Any] = dict(request.query_params) | changes
    return url(request.url.path, **given)
