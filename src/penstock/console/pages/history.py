"""History: work orders and what became of them; narrowed by the address, opened, run again, cancelled, exported."""

from __future__ import annotations

from typing import Any, Final

from nicegui import ui

from penstock.console import words
from penstock.console.frame import Visit, pages, refreshing, url
from penstock.console.order_filters import PATH, Chosen, chosen
from penstock.console.order_words import STATES, opened_row, order_row, state_name
from penstock.console.parts import box, button, empty, fold, grow, link, once, problem, text, title, told
from penstock.console.tables import Column, cell, expandable, table
from penstock.core.errors import PenstockError
from penstock.service.operations import work_orders as operations
from penstock.service.operations.paging import Page
from penstock.service.operations.work_order_models import CountView, WorkOrderItem
from penstock.service.operations.workflows import list_workflows

_COLUMNS: Final = (
    Column("order", "Work order", "link", lead=True),
    Column("workflow", "Workflow", "link"),
    Column("input", "Input", "link"),
    Column("created", "Created"),
    Column("activity", "Last activity"),
    Column("took", "Duration", "number"),
    Column("state", "Status", "chip"),
    Column("runs", "Runs", "number"),
)
_SIZE: Final = 10
_SIZES: Final = (10, 25, 50, 100)
_TIMES: Final = (
    ("received_after", "Received after"),
    ("received_before", "Received before"),
    ("active_after", "Active after"),
    ("active_before", "Active before"),
)
_SPANS: Final = (("last hour", "1h"), ("last day", "24h"), ("last 7 days", "7d"))
# Vue escapes what stands in {{ }}; the addresses are made by the console.
_INSIDE: Final = """
<div v-if='!props.row.inside' class='muted'>Asking…</div>
<div v-else-if='!props.row.inside.length' class='muted'>It has no run: it was rejected by a limit. Retry it.</div>
<div v-for='run in props.row.inside' :key='run.id' class='run'>
  <div class='head'><span class='muted small'>Run</span><a :href='run.run_url'>{{ run.run }}</a>
    <span class='chip' :class='run.state_tone'>{{ run.state }}</span>
    <span class='muted small'>{{ run.began }}, {{ run.when }}, {{ run.took }}</span></div>
  <div v-for='step in run.steps' :key='step.id' class='run-step'>
    <span class='wrap'>{{ step.step }}</span>
    <span><span class='chip' :class='step.exit_tone'>{{ step.exit }}</span></span>
    <span class='small wrap'>{{ step.exit_why }}</span>
    <span class='muted small'>{{ step.took }}</span>
    <span><button v-if='step.again' class='act' type='button'
      v-on:click='() => $parent.$emit(`again`, run.id, step.name)'>Rerun from here</button></span>
  </div>
</div>
"""


@pages.page(PATH, "History", PATH)
async def history(visit: Visit) -> None:
    asked = chosen(visit)
    with box("head"):
        title("History")
        count = text("", "muted")
        grow()
        _search(asked)
    if asked.words:
        _tags(asked)
    with box("aside"):
        with box("card"), box("card-body"):
            await _filters(visit, asked)
        with box("stack"):
            try:
                page = await _page(visit, asked)
                count.text = _counted(await visit.ask(operations.count_work_orders, asked.query))
            except PenstockError as error:
                problem(error)
                return
            if page.items:
                _List(visit, asked, page)
            else:
                _nothing(asked)
                _appearing(visit, asked)


def _appearing(visit: Visit, asked: Chosen) -> None:
    """The first one that comes is shown by itself."""

    async def look() -> None:
        if (await _page(visit, asked)).items:
            ui.navigate.reload()

    if "search" not in asked.words:
        refreshing(look)


async def _page(visit: Visit, asked: Chosen) -> Page[WorkOrderItem]:
    return await visit.ask(
        operations.list_work_orders, asked.query, order=asked.sort, limit=_size(visit), after=visit.asked("after")
    )


def _size(visit: Visit) -> int:
    written = visit.asked("size") or ""
    return int(written) if written in map(str, _SIZES) else _SIZE


def _counted(found: CountView) -> str:
    return f"{words.number(found.number)}{'+' if found.capped else ''}"


def _search(asked: Chosen) -> None:
    field = ui.input(placeholder="Search ids, inputs, logs   /", value=asked.words.get("search", ""))
    field.props("outlined dense clearable").classes("field search").props('data-search aria-label="Search work orders"')
    field.on("keydown.enter", lambda: ui.navigate.to(asked.address(search=str(field.value or "") or None)))
    field.on("clear", lambda: ui.navigate.to(asked.address(search=None)))


def _tags(asked: Chosen) -> None:
    with box("head"):
        for name in asked.words:
            with box("tag"):
                text(asked.said(name), tag="span")
                link("✕", asked.address(**{name: None})).props(f'aria-label="Without {name}"')
        link("Clear all", PATH)


def _nothing(asked: Chosen) -> None:
    if asked.words:
        empty("No work order is like this.", "Take a filter away to see more, or ask for any time.")
    else:
        empty(
            "No work order within 30 days.",
            "A message that a trigger takes in becomes a work order. Make a trigger, or run a workflow by hand.",
        )
        with box("head"):
            link("Triggers", "/triggers")
            link("Workflows", "/workflows")


async def _filters(visit: Visit, asked: Chosen) -> None:
    with box("facet"):
        text("Status", "name")
        for state in STATES:
            here = state in asked.states
            _choice(state_name(state), asked.with_state(state), here=here)
    flows = (await visit.ask(list_workflows, limit=1000)).items
    projects = sorted({flow.project for flow in flows})
    if len(projects) > 1:
        _select("Project", {name: cell(name) for name in projects}, asked, "project")
    names = {flow.id: cell(f"{flow.project}/{flow.name}" if len(projects) > 1 else flow.name) for flow in flows}
    if (named := asked.words.get("workflow")) and named not in names:
        names[named] = cell(named)
    if names:
        _select("Workflow", names, asked, "workflow")
    _times(asked)


def _choice(name: str, address: str, *, here: bool) -> None:
    with link("", address, "here" if here else "") as line:
        line.props(f"aria-current={'true' if here else 'false'}")
        text(name, "value", "span")


def _select(label: str, options: dict[str, str], asked: Chosen, name: str) -> None:
    field = ui.select(options, label=label, value=asked.words.get(name), clearable=True, with_input=len(options) > 10)
    field.classes("field").props("outlined dense")
    field.on_value_change(lambda event: ui.navigate.to(asked.address(**{name: event.value})))


def _times(asked: Chosen) -> None:
    plain: dict[str, str | None] = dict.fromkeys([name for name, _ in _TIMES] + ["any_time"])
    with box("facet"):
        text("Active", "name")
        for label, ago in _SPANS:
            address = asked.address(**(plain | {"active_after": ago}))
            _choice(label, address, here=asked.words.get("active_after") == ago)
        _choice("last 30 days", asked.address(**plain), here=not any(name in asked.words for name in plain))
        _choice("any time", asked.address(**(plain | {"any_time": "true"})), here="any_time" in asked.words)
    fields: dict[str, ui.input] = {}
    with fold("Times"), box("stack"):
        for name, label in _TIMES:
            fields[name] = ui.input(label, value=asked.words.get(name, ""), placeholder="2h, or 2026-11-01")
            fields[name].classes("field").props("outlined dense")

        def go() -> None:
            said: dict[str, str | None] = {
                name: str(field.value or "").strip() or None for name, field in fields.items()
            }
            ui.navigate.to(asked.address(**({"any_time": None} | said)))

        button("Apply", go)


class _List:
    """A page of work orders, looked at again and again."""

    def __init__(self, visit: Visit, asked: Chosen, page: Page[WorkOrderItem]) -> None:
        self._visit, self._asked = visit, asked
        self._may = visit.may("work_orders.operate")
        self._inside: dict[str, tuple[str, list[dict[str, Any]]]] = {}
        """Runs of orders that were opened, and the activity that they are of."""
        self._opened: set[str] = set()
        with box("head"):
            self._hint = text("", "muted small")
            grow()
            self._sorts()
            self._retry = button("Retry all…", lambda: self._bulk("retry"))
            self._cancel = button("Cancel all…", lambda: self._bulk("cancel"))
            self._retry.visible = self._cancel.visible = self._may
            link("Export", asked.export).props("download")
        self._table = table(_COLUMNS, self._rows(page), key="id", label="Work orders", selectable=self._may)
        expandable(self._table, _INSIDE, self._open)
        again = told(once(self._again))
        self._table.on("again", lambda event: again(*map(str, event.args)))
        self._table.on_select(lambda _: self._name_them())
        self._name_them()
        self._turning(page)
        if "search" not in asked.words:
            # A search may take a second; it is not repeated for nothing.
            refreshing(self._look)

    def _sorts(self) -> None:
        for name, label in (("created", "created"), ("activity", "last activity")):
            here = self._asked.sort == name
            link(f"by {label}", self._asked.address(sort=None if name == "created" else name), "small").props(
                f"aria-current={'true' if here else 'false'}"
            )

    def _turning(self, page: Page[WorkOrderItem]) -> None:
        size = str(_size(self._visit)) if _size(self._visit) != _SIZE else None
        with box("head"):
            if self._visit.asked("after"):
                link("First page", self._asked.address(size=size))
            if page.next is not None:
                link("Next page", self._asked.address(size=size, after=page.next))
            grow()
            text("Rows per page", "muted small")
            for each in _SIZES:
                here = each == _size(self._visit)
                shown = link(str(each), self._asked.address(size=None if each == _SIZE else str(each)), "small")
                shown.props(f"aria-current={'true' if here else 'false'}")

    def _rows(self, page: Page[WorkOrderItem]) -> list[dict[str, Any]]:
        return [
            order_row(order) | {"inside": self._inside[order.id][1] if order.id in self._inside else None}
            for order in page.items
        ]

    def _selected(self) -> list[str]:
        return [str(row["id"]) for row in self._table.selected]

    def _name_them(self) -> None:
        many = len(self._table.selected)
        if self._may:
            self._hint.text = f"{many} selected." if many else "Act on all that match, or on those you select."
        self._retry.text = f"Retry {many or 'all'}…"
        self._cancel.text = f"Cancel {many or 'all'}…"

    def _bulk(self, kind: str) -> None:
        ids = ",".join(self._selected())
        there = url("/history/bulk", kind=kind, ids=ids) if ids else self._asked.address("/history/bulk", kind=kind)
        ui.navigate.to(there)

    async def _open(self, order_id: str) -> None:
        self._opened.add(str(order_id))
        await self._look()

    async def _again(self, run_id: str, step: str) -> None:
        made = await self._visit.tell(f"It runs again from {step}.", operations.retry, run_id, step=step)
        if made is not None:
            await self._look()

    async def _look(self) -> None:
        page = await _page(self._visit, self._asked)
        for order in page.items:
            known = self._inside.get(order.id)
            if order.id in self._opened and (known is None or known[0] != order.last_activity):
                detail = await self._visit.ask(operations.get_work_order, order.id)
                runs = [opened_row(run, may_rerun=self._may) for run in reversed(detail.runs)]
                self._inside[order.id] = (order.last_activity, runs)
        rows = self._rows(page)
        if rows != self._table.rows:
            self._table.rows = rows
