"""Tables: one shape for all lists; on a phone each row is a card."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from nicegui import ui

from penstock.console.parts import once, told
from penstock.core.visible import one_line, visible

Kind = Literal["text", "link", "chip", "number", "count", "rate", "mono", "lines", "acts"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column shows the row's `name_text`, else its value, which is also what it is sorted by. Buttons name the row by
    its `called`, else by its key."""

    name: str
    label: str
    kind: Kind = "text"
    lead: bool = False
    """The row's own name."""
    wide: bool = False

    @property
    def right(self) -> bool:
        return self.kind in ("number", "count", "rate", "acts")


_KINDS: Final[dict[str, Kind]] = {"acts-cell": "acts", "chips": "chip", "rates": "rate"}
"""Classes of cells by what is in them, for the phone."""
_OPENER: Final = {
    "name": "opener",
    "label": "",
    "sortable": False,
    "kind": "opener",
    "classes": "opener",
}


class Rows(ui.table, component="static/rows.js"):
    """A table whose columns say how they are shown."""


def expandable(shown: Rows, inside: str, on_open: Callable[[Any], Awaitable[None]]) -> None:
    """Rows can be opened: `inside` is the template of what is then below one, `on_open` is told which."""
    shown.columns = [_OPENER, *shown.columns]
    shown.add_slot("inside", inside)
    opened = told(on_open)
    shown.on("opened", lambda event: opened(event.args))


def table(
    columns: Sequence[Column],
    rows: list[dict[str, Any]],
    *,
    key: str,
    label: str,
    on_act: Callable[[str, Any], object] | None = None,
    selectable: bool = False,
) -> Rows:
    """`on_act` is told which button of which row was pressed."""
    shown = [_shown(each) for each in columns]
    made = Rows(columns=shown, rows=rows, row_key=key, selection="multiple" if selectable else None)
    made.classes("rows w-full").props(f'flat dense binary-state-sort aria-label="{label}"')
    if on_act is not None:
        act = told(once(on_act))
        made.on("act", lambda event: act(str(event.args[0]), event.args[1]))
    return made


def _shown(column: Column) -> dict[str, Any]:
    classes = {"num": column.right, "lead": column.lead, "wide": column.wide}
    classes |= {name: column.kind == kind for name, kind in _KINDS.items()}
    return {
        "name": column.name,
        "label": column.label,
        # NiceGUI would draw a list itself.
        **({} if column.kind == "acts" else {"field": column.name}),
        "align": "right" if column.right else "left",
        "sortable": column.kind != "acts",
        "headerClasses": "num" if column.right else "",
        "kind": column.kind,
        # As Quasar's own cells have it.
        "classes": " ".join(["text-right" if column.right else "text-left", *(n for n, has in classes.items() if has)]),
    }


def cell(value: object) -> str:
    """Text of an event or of a person in a cell: one line, nothing in it obeyed."""
    return one_line(value)


def paragraph(value: object) -> str:
    """The same with its line breaks."""
    return visible(value)


def place(topic: str, partition: int, offset: int | None = None) -> dict[str, str]:
    """The cell `place`: a partition, or an event in it; the tenth one comes after the ninth."""
    at, padded = ("", "") if offset is None else (f"@{offset}", f"@{offset:020}")
    return {"place": f"{topic}/{partition:010}{padded}", "place_text": f"{topic}/{partition}{at}"}


def curve(points: Sequence[float]) -> tuple[str, str]:
    """Points of a line and of the area under it, in a box of 100 by 24."""
    if len(points) < 2:
        return "", ""
    top = max(points) or 1.0
    step = 100 / (len(points) - 1)
    line = " ".join(f"{index * step:.1f},{22 - 20 * value / top:.1f}" for index, value in enumerate(points))
    return line, f"0,24 {line} 100,24"
