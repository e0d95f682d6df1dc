"""Tables: one shape for all lists; on a phone each row is a card."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from nicegui import ui
from nicegui.events import GenericEventArguments

from penstock.core.visible import one_line, visible

Kind = Literal["text", "link", "chip", "number", "rate", "mono", "lines", "acts"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column shows the row's `name_text`, else its value, which is also what it is sorted by."""

    name: str
    label: str
    kind: Kind = "text"
    lead: bool = False
    """The row's own name."""
    wide: bool = False

    @property
    def right(self) -> bool:
        return self.kind in ("number", "rate", "acts")


# `@` stands for the row's value. Vue escapes what stands in {{ }} and in bound attributes; addresses are made by the
# console, never by an event.
_SHOWN: Final = "{{ @_text ?? @ }}"
_WHY: Final = "<div v-if='@_why' class='why'>{{ @_why }}</div>"
_CELLS: Final[dict[Kind, str]] = {
    "text": f"<div><div>{_SHOWN}</div>{_WHY}</div>",
    "mono": f"<span class='mono wrap'>{_SHOWN}</span>",
    "lines": f"<div class='lines'>{_SHOWN}</div>",
    "number": f"<span :class='@_tone'>{_SHOWN}</span>",
    "link": f"<div><a v-if='@_url' :href='@_url'>{_SHOWN}</a><span v-else>{_SHOWN}</span>{_WHY}</div>",
    "chip": f"<div><span class='chip' :class='@_tone'>{_SHOWN}</span>{_WHY}</div>",
    "rate": "<div class='rate'><svg class='spark' viewBox='0 0 100 24' preserveAspectRatio='none' aria-hidden='true'>"
    f"<polygon :points='@_area'/><polyline :points='@_curve'/></svg><span>{_SHOWN}</span></div>",
    "acts": "<div class='acts'><button v-for='act in @' :key='act' class='act' type='button'"
    " :aria-label='`${act} ${props.key}`' v-on:click='() => $parent.$emit(`act`, act, props.key)'>{{ act }}</button>"
    "</div>",
}


def _cell(column: Column) -> str:
    classes = {"num": column.right, "lead": column.lead, "wide": column.wide, "acts-cell": column.kind == "acts"}
    given = " ".join(name for name, wanted in classes.items() if wanted)
    content = _CELLS[column.kind].replace("@", f"props.row.{column.name}")
    return f'<q-td key="{column.name}" :props="props" data-label="{column.label}" class="{given}">{content}</q-td>'


_OPENER: Final = (
    "<q-td key='opener' :props='props' class='opener'><button class='act' type='button' :aria-expanded='props.expand'"
    " :aria-label='`${props.expand ? `Close` : `Open`} ${props.key}`'"
    " v-on:click='() => { props.expand = !props.expand; if (props.expand) $parent.$emit(`opened`, props.key) }'>"
    "{{ props.expand ? '▾' : '▸' }}</button></q-td>"
)
_CHOICE: Final = (
    "<q-td auto-width><q-checkbox v-model='props.selected' dense :aria-label='`Select ${props.key}`'/></q-td>"
)


def expandable(
    shown: ui.table, columns: Sequence[Column], inside: str, on_open: Callable[[Any], Awaitable[None]]
) -> None:
    """Rows can be opened: `inside` is the template of what is then below one, `on_open` is told which."""
    cells = "".join(_cell(each) for each in columns)
    choice = _CHOICE if shown.selection else ""
    shown.columns = [{"name": "opener", "label": "", "field": "opener", "sortable": False}, *shown.columns]
    shown.add_slot(
        "body",
        f"<q-tr :props='props'>{choice}{_OPENER}{cells}</q-tr>"
        f"<q-tr v-if='props.expand' :props='props' class='inside'><q-td colspan='100%'>{inside}</q-td></q-tr>",
    )

    async def opened(event: GenericEventArguments) -> None:
        await on_open(event.args)

    shown.on("opened", opened)


def table(
    columns: Sequence[Column],
    rows: list[dict[str, Any]],
    *,
    key: str,
    label: str,
    on_act: Callable[[str, Any], object] | None = None,
    selectable: bool = False,
) -> ui.table:
    """`on_act` is told which button of which row was pressed."""
    shown = [
        {
            "name": each.name,
            "label": each.label,
            "field": each.name,
            "align": "right" if each.right else "left",
            "sortable": each.kind != "acts",
            "headerClasses": "num" if each.right else "",
        }
        for each in columns
    ]
    made = ui.table(columns=shown, rows=rows, row_key=key, selection="multiple" if selectable else None)
    made.classes("rows w-full").props(f'flat dense binary-state-sort aria-label="{label}"')
    for each in columns:
        made.add_slot(f"body-cell-{each.name}", _cell(each))
    if on_act is not None:

        async def acted(event: GenericEventArguments) -> None:
            answer = on_act(str(event.args[0]), event.args[1])
            if hasattr(answer, "__await__"):
                await answer

        made.on("act", acted)
    return made


def cell(value: object) -> str:
    """Text of an event or of a person in a cell: one line, nothing in it obeyed."""
    return one_line(value)


def paragraph(value: object) -> str:
    """The same with its line breaks."""
    return visible(value)


def curve(points: Sequence[float]) -> tuple[str, str]:
    """Points of a line and of the area under it, in a box of 100 by 24."""
    if len(points) < 2:
        return "", ""
    top = max(points) or 1.0
    step = 100 / (len(points) - 1)
    line = " ".join(f"{index * step:.1f},{22 - 20 * value / top:.1f}" for index, value in enumerate(points))
    return line, f"0,24 {line} 100,24"
