"""Log lines of a run: a page of them, more when asked for, new ones while the run goes on."""

from __future__ import annotations

from typing import Any, Final

from nicegui import ui

from penstock.console.frame import Visit
from penstock.console.parts import box, button, text
from penstock.console.tables import Column, cell, paragraph, table
from penstock.service.operations.runs import list_logs
from penstock.service.operations.work_order_models import LogView

_COLUMNS: Final = (
    Column("at", "Time", "mono"),
    Column("level", "Level", "chip"),
    Column("step", "Step"),
    Column("message", "Message", "lines", wide=True),
)
_AT_ONCE: Final = 500
_TONES: Final = {"error": "bad", "warn": "warn", "success": "good", "always": "calm"}
_ALL: Final = "all levels"
_LEVELS: Final = (_ALL, "success", "always", "info", "warn", "error", "debug")


class Logs:
    """The lines of one run."""

    def __init__(self, visit: Visit, run_id: str) -> None:
        self._visit, self._run = visit, run_id
        self._before: list[LogView] = []
        """Lines of pages that are full."""
        self._last: list[LogView] = []
        self._after: str | None = None
        """Where the last page begins."""
        self._next: str | None = None
        self._names: dict[str, str] = {}
        with box("head"):
            self._search = ui.input(placeholder="Search these lines   /").classes("field search")
            self._search.props('outlined dense clearable data-search aria-label="Search log lines"')
            self._level = ui.select(list(_LEVELS), label="Level", value=_ALL).classes("field").props("outlined dense")
            self._level.on_value_change(self._show)
        self._table = table(_COLUMNS, [], key="id", label="Log lines")
        self._table.bind_filter_from(self._search, "value", backward=lambda value: value or "")
        self._none = text("It has written no line.", "muted")
        self._more = button("More lines", self._go_on)

    async def look(self, names: dict[str, str]) -> None:
        """Ask for the last page again; `names` are those of steps, by their ids."""
        if self._next is None:
            page = await self._visit.ask(list_logs, self._run, limit=_AT_ONCE, after=self._after)
            self._last, self._next = page.items, page.next
        self._names = names
        self._show()

    async def _go_on(self) -> None:
        self._before += self._last
        self._last, self._after, self._next = [], self._next, None
        await self.look(self._names)

    def _show(self) -> None:
        wanted = self._level.value
        lines = [line for line in (*self._before, *self._last) if wanted in (_ALL, line.level)]
        rows = [self._row(line) for line in lines]
        if rows != self._table.rows:
            self._table.rows = rows
        self._table.visible, self._none.visible = bool(rows), not rows
        self._more.visible = self._next is not None

    def _row(self, line: LogView) -> dict[str, Any]:
        return {
            "id": line.id,
            "at": line.timestamp,
            "at_text": line.timestamp[11:23],
            "level": line.level,
            "level_tone": _TONES.get(line.level, "rest"),
            "step": cell(self._names.get(line.step_id or "", "")),
            "message": paragraph(line.message),
        }
