"""Setting a pipeline's offsets: where to, what that skips and repeats, and only then doing it."""

from __future__ import annotations

from typing import Any, Final

from nicegui import ui
from pydantic import ValidationError

from penstock.console import words
from penstock.console.frame import Visit
from penstock.console.parts import asking, box, button, note, problem, text
from penstock.console.tables import Column, place, table
from penstock.core.errors import ConfigError, PenstockError
from penstock.service.operations import offsets
from penstock.service.operations.offsets import MoveView, ResetRequest

_MOVES: Final = (
    Column("place", "Partition", lead=True),
    Column("old", "Now", "number"),
    Column("new", "Then", "number"),
    Column("skipped", "Skipped", "number"),
    Column("repeated", "Repeated", "number"),
)
_KINDS: Final = {
    "earliest": "The beginning",
    "latest": "The end",
    "time": "A time",
    "shift": "So many further or back",
    "offset": "An offset",
}
_FIELDS: Final = {"time": "time", "shift": "by", "offset": "offset"}
_BY_CURSOR: Final = (
    "It writes into a table, whose cursor says where it stands. The cursor is set too:"
    " what is repeated is written again, beside the rows that are there unless keys tell them apart."
)
_HINTS: Final = {"time": "2026-01-31T12:00:00Z", "shift": "-100", "offset": "42"}


async def open_offsets(visit: Visit, name: str) -> None:
    """Ask where to, show what it would do, do it."""
    by_cursor = await visit.ask(offsets.stands_by_cursor, name)
    with asking(f"Offsets of {name}") as dialog:
        text("Nothing is changed before you have seen what it does.", "muted")
        if by_cursor:
            note(_BY_CURSOR, "warn")
        with box("head"):
            kind = ui.select(_KINDS, value="earliest", label="Go to").classes("field search").props("outlined dense")
            number = ui.input("Value").classes("field").props("outlined dense")
        with box("head"):
            topic = ui.input("Only topic").classes("field").props("outlined dense clearable")
            partition = ui.input("Only partition").classes("field").props("outlined dense clearable")
        number.bind_visibility_from(kind, "value", backward=lambda chosen: chosen in _HINTS)
        kind.on_value_change(lambda event: number.props(f'placeholder="{_HINTS.get(event.value, "")}"'))
        with box("preview") as preview:
            pass
        planned: list[ResetRequest] = []

        def forget() -> None:
            preview.clear()
            planned.clear()
            reset.disable()

        def written() -> ResetRequest:
            only = {"topic": topic.value or None, "partition": _partition(str(partition.value or "").strip())}
            return _request(str(kind.value), str(number.value or ""), only | {"reapply": by_cursor})

        async def show() -> None:
            forget()
            try:
                request = written()
                moves = await visit.ask(offsets.preview, name, request)
                if written() != request:
                    return  # other words have been written meanwhile
            except PenstockError as error:
                forget()
                with preview:
                    problem(error)
                return
            forget()
            with preview:
                text(_summary(moves), "wrap")
                table(_MOVES, [_row(move) for move in moves], key="place", label="What a reset would do")
            planned.append(request)
            reset.enable()

        async def go() -> None:
            reset.disable()
            if await visit.tell(f"{name}: offsets are set", offsets.reset, name, planned[0]) is not None:
                dialog.close()

        with box("foot"):
            button("Cancel", dialog.close)
            button("Preview", show)
            reset = button("Reset offsets", go, "main-act")
            reset.disable()
        for field in (kind, number, topic, partition):
            field.on_value_change(forget)  # what was shown is not what would be done any more
    dialog.open()


def _partition(written: str) -> int | None:
    if written and not written.isdecimal():
        raise ConfigError("a partition is named by its number", received=written)
    return int(written) if written else None


def _request(kind: str, written: str, only: dict[str, Any]) -> ResetRequest:
    field = _FIELDS.get(kind)
    try:
        return ResetRequest.model_validate({"to": kind} | ({field: written} if field else {}) | only)
    except ValidationError:
        raise ConfigError(f"{written!r} is no {kind}", received=written, allowed=_HINTS.get(kind)) from None


def _summary(moves: list[MoveView]) -> str:
    skipped = sum(move.skipped or 0 for move in moves)
    repeated = sum(move.repeated or 0 for move in moves)
    if not skipped and not repeated:
        return "Nothing would be skipped or repeated."
    return (
        f"{words.number(skipped)} events would never be worked on; {words.number(repeated)} would be worked on again."
    )


def _row(move: MoveView) -> dict[str, Any]:
    return place(move.topic, move.partition) | {
        "old": move.old,
        "old_text": words.number(move.old),
        "new": move.new,
        "new_text": words.number(move.new),
        "skipped": move.skipped,
        "skipped_text": words.number(move.skipped),
        "skipped_tone": "hot" if move.skipped else "",
        "repeated": move.repeated,
        "repeated_text": words.number(move.repeated),
        "repeated_tone": "warm" if move.repeated else "",
    }
