"""Setting a pipeline's offsets: where to, what that skips and repeats, and only then doing it."""

from __future__ import annotations

from typing import Any, Final

from nicegui import ui

from penstock.console import words
from penstock.console.frame import Visit
from penstock.console.parts import asking, box, button, problem, text
from penstock.console.tables import Column, table
from penstock.core.clock import parse_time
from penstock.core.errors import ConfigError, PenstockError
from penstock.service.offsets import Move, Target

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
_HINTS: Final = {"time": "2026-01-31T12:00:00Z", "shift": "-100", "offset": "42"}


def open_offsets(visit: Visit, name: str) -> None:
    """Ask where to, show what it would do, do it."""
    with asking(f"Offsets of {name}") as dialog:
        text("Nothing is changed before you have seen what it does.", "muted")
        with box("head"):
            kind = ui.select(_KINDS, value="earliest", label="Go to").classes("field search").props("outlined dense")
            number = ui.input("Value").classes("field").props("outlined dense")
        with box("head"):
            topic = ui.input("Only topic").classes("field").props("outlined dense clearable")
            partition = (
                ui.number("Only partition", min=0, precision=0).classes("field").props("outlined dense clearable")
            )
        number.bind_visibility_from(kind, "value", backward=lambda chosen: chosen in _HINTS)
        kind.on_value_change(lambda event: number.props(f'placeholder="{_HINTS.get(event.value, "")}"'))
        with box("preview") as preview:
            pass
        planned: list[tuple[Target, dict[str, Any]]] = []

        async def show() -> None:
            preview.clear()
            planned.clear()
            reset.disable()
            where: dict[str, Any] = {
                "topic": topic.value or None,
                "partition": None if partition.value is None else int(partition.value),
            }
            try:
                target = _target(str(kind.value), str(number.value or ""))
                moves = await visit.ask(visit.data.preview_reset, name, target, **where)
            except PenstockError as error:
                with preview:
                    problem(error)
                return
            with preview:
                text(_summary(moves), "wrap")
                table(_MOVES, [_row(move) for move in moves], key="place", label="What a reset would do")
            planned.append((target, where))
            reset.enable()

        async def go() -> None:
            target, where = planned[0]
            reset.disable()
            done = await visit.tell(None, visit.data.reset, name, target, **where, reapply=False)
            if done is not None:
                dialog.close()
                ui.notify(f"offsets of {name} set to {target}", type="positive")

        with box("foot"):
            button("Cancel", dialog.close)
            button("Preview", show)
            reset = button("Reset offsets", go, "main-act")
            reset.disable()
    dialog.open()


def _target(kind: str, written: str) -> Target:
    try:
        match kind:
            case "time":
                return Target("time", parse_time(written))
            case "shift":
                return Target("shift", int(written))
            case "offset":
                return Target("offset", int(written))
            case "latest":
                return Target("latest")
            case _:
                return Target("earliest")
    except ValueError:
        raise ConfigError(
            f"{written!r} is no {'time' if kind == 'time' else 'whole number'}", received=written, allowed=_HINTS[kind]
        ) from None


def _summary(moves: list[Move]) -> str:
    skipped = sum(move.skipped or 0 for move in moves)
    repeated = sum(move.repeated or 0 for move in moves)
    if not skipped and not repeated:
        return "Nothing would be skipped or repeated."
    return (
        f"{words.number(skipped)} events would never be worked on; {words.number(repeated)} would be worked on again."
    )


def _row(move: Move) -> dict[str, Any]:
    return {
        "place": f"{move.topic}/{move.partition}",
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
