"""The pieces that pages are made of: chips, empty states, problems, text of events, dialogs."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, ParamSpec

from nicegui import ui
from nicegui.elements.mixins.text_element import TextElement

from penstock.console import words
from penstock.core.errors import PenstockError
from penstock.core.visible import visible

P = ParamSpec("P")

_LOUDNESS: Final = {
    "good": ("running", "idle", "replayed", "done", "success"),
    "warn": ("waiting", "parked", "rejected"),
    "bad": ("failed", "invalid", "new", "crashed", "killed", "exception", "lost"),
    "calm": ("paused", "starting", "stopping", "replaying", "queued", "pending", "available", "claimed", "started"),
}
TONES: Final = {state: tone for tone, states in _LOUDNESS.items() for state in states}
"""How loud each state, status and end of a job is; what is not here is at rest."""


def text(shown: object, classes: str = "", tag: str = "div") -> TextElement:
    """Text, and never anything else: what would steer the browser or turn the direction of text is made visible."""
    return TextElement(tag=tag, text=visible(shown)).classes(classes)


def title(shown: str) -> TextElement:
    return text(shown, "title", "h1")


def heading(shown: str) -> TextElement:
    return text(shown, "sub", "h2")


def link(shown: str, target: str, classes: str = "") -> ui.link:
    return ui.link(visible(shown), target).classes(classes)


def crumb(shown: str, target: str) -> None:
    """The way back, before a title."""
    link(shown, target, "crumb")
    text("/", "crumb", "span")


def grow() -> None:
    """What comes after it stands at the other end of the line."""
    with box("grow"):
        pass


def chip(state: str, tone: str | None = None) -> TextElement:
    """A state by its word, its colour and its mark."""
    return text(state, f"chip {tone or TONES.get(state, 'rest')}", "span")


def told(act: Callable[P, object]) -> Callable[P, object]:
    """What is done when something is pressed; where it is refused, the page says why."""

    async def awaited(answer: Awaitable[object]) -> None:
        try:
            await answer
        except PenstockError as error:
            notify(str(error), good=False)

    @functools.wraps(act)
    def pressed(*args: P.args, **kwargs: P.kwargs) -> object:
        try:
            answer = act(*args, **kwargs)
        except PenstockError as error:
            notify(str(error), good=False)
            return None
        # Not whatever can be awaited: a dialog can, and closing one answers with it; awaited, it opens again.
        return awaited(answer) if inspect.iscoroutine(answer) else answer

    return pressed


def once(act: Callable[P, object]) -> Callable[P, object]:
    """What is done when something is pressed; pressed again while that is under way, it does nothing."""
    under_way: list[object] = []

    async def awaited(answer: Awaitable[object], same: object) -> None:
        try:
            await answer
        finally:
            under_way.remove(same)

    @functools.wraps(act)
    def pressed(*args: P.args, **kwargs: P.kwargs) -> object:
        same = (args, kwargs)
        if same in under_way:
            return None
        answer = act(*args, **kwargs)
        if not inspect.iscoroutine(answer):
            return answer
        under_way.append(same)
        return awaited(answer, same)

    return pressed


def button(label: str, act: Callable[[], object] | Callable[[], Awaitable[object]], classes: str = "") -> ui.button:
    return ui.button(label, on_click=told(once(act)), color=None).classes(f"btn {classes}").props("no-caps unelevated")


@contextmanager
def box(classes: str) -> Iterator[ui.element]:
    with ui.element("div").classes(classes) as element:
        yield element


def fold(name: str) -> ui.expansion:
    """What is shown when its name is pressed. At once: what moves while it unfolds is missed by a quick click."""
    return ui.expansion(visible(name)).classes("w-full").props('dense :duration="0"')


@contextmanager
def card(name: str) -> Iterator[ui.element]:
    """A titled card; the block fills its body."""
    with box("card"):
        with box("card-head"):
            heading(name)
        with box("card-body") as body:
            yield body


def empty(say: str, following: str = "") -> None:
    """Nothing is here, and what to do about that."""
    with box("empty"):
        text(say, "say")
        if following:
            text(following, "next")


def problem(error: Exception | str) -> None:
    """What went wrong, what was received, what is allowed, what to do next."""
    with box("problem") as here:
        here.props("role=alert")
        if not isinstance(error, PenstockError):
            text(error)
            return
        text(error.message)
        for name, said in (("received", error.received), ("allowed", error.allowed), ("try", error.hint)):
            if said is not None:
                words_said = ", ".join(map(str, said)) if isinstance(said, list | tuple) else said
                text(f"{name}: {words_said}", "small")


def note(said: str, tone: str = "") -> TextElement:
    """Something to know before going on."""
    return text(said, f"note {tone}")


def facts(pairs: Sequence[tuple[str, object]]) -> None:
    """Names and what they are, in two columns."""
    with box("facts"):
        for name, value in pairs:
            text(name, "name")
            text("—" if value is None or value == "" else value, "wrap")


def figure(name: str, value: str, tone: str = "", *, target: str | None = None) -> tuple[TextElement, TextElement]:
    """A number with its name under it; with `target`, the way to what it counts."""
    with link("", target, "figure") if target else ui.element("div").classes("figure"):
        return text(value, f"number {tone}"), text(name, "name")


def plain(shown: str, classes: str = "") -> TextElement:
    """Text of an event as it is."""
    return text(words.bounded(shown), f"text {classes}", "pre")


def raw_bytes(raw: bytes | None) -> None:
    """Bytes as hex."""
    plain("null" if raw is None else words.hex_dump(raw), "hex")


def difference(before: str, after: str) -> None:
    """What was changed, line by line."""
    changed_lines(list(difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=3)))


def changed_lines(unified: Sequence[str]) -> None:
    """A unified difference, without its heading."""
    lines = unified[2:]
    if not lines:
        text("No difference.", "muted")
        return
    kinds = {"+": "add", "-": "del", "@": "at"}
    with box("diff"):
        for line in lines[:2000]:
            text(line, kinds.get(line[:1], ""))


def notify(said: str, *, good: bool = True) -> None:
    ui.notify(visible(said), type="positive" if good else "negative", position="bottom", multi_line=True)


@contextmanager
def asking(name: str) -> Iterator[ui.dialog]:
    """A dialog with a title; the block fills it, and opens it when it likes."""
    # On the page itself: the button that opens it may go away meanwhile, and must not take it along.
    with ui.context.client.content, ui.dialog() as dialog, ui.card().classes("ask"):
        dialog.props["aria-label"] = visible(name)
        heading(name)
        yield dialog


def confirm(
    name: str, say: str, act: Callable[[str | None], Awaitable[object]], *, reason: bool = False, button_label: str
) -> ui.dialog:
    """Ask before something is done; with `reason`, one must be given and is handed on."""
    with asking(name) as dialog:
        text(say, "wrap")
        given = ui.input("Reason").classes("field").props("outlined dense autofocus") if reason else None

        async def go() -> None:
            said = given.value.strip() if given is not None else None
            if given is not None and not said:
                given.props('error error-message="A reason is wanted: it is kept with what was done."')
                return
            if not dialog.value:
                return  # it was pressed before
            dialog.close()
            await act(said)

        with box("foot"):
            button("Cancel", dialog.close)
            button(button_label, go, "main-act")
    return dialog
