"""One workflow: its steps and what follows what, its triggers, what it did last; run by hand from here."""

from __future__ import annotations

from typing import Final

from nicegui import ui

from penstock.console import words
from penstock.console.frame import Visit, pages, refreshing, url
from penstock.console.order_words import order_row
from penstock.console.parts import box, button, card, confirm, crumb, empty, facts, grow, link, note, text, title
from penstock.console.run_dialog import open_run
from penstock.console.tables import Column, cell, table
from penstock.console.trigger_words import trigger_row
from penstock.console.workflow_editor import WorkflowEditor
from penstock.console.workflow_graph import draw, placed
from penstock.service.access import Actor
from penstock.service.operations import work_orders, workflow_documents
from penstock.service.operations import workflows as operations
from penstock.service.operations.desk import Desk
from penstock.service.operations.work_order_models import WorkOrderQuery
from penstock.service.operations.workflow_models import WorkflowDetail

_PATH: Final = "/workflows"
_TRIGGERS: Final = (
    Column("trigger", "Trigger", "link", lead=True),
    Column("state", "State", "chip"),
    Column("topics", "Topics", wide=True),
    Column("messages", "Messages", "number"),
    Column("letters", "Dead letters", "number"),
)
_ORDERS: Final = (
    Column("order", "Work order", "link", lead=True),
    Column("input", "Input", "link"),
    Column("created", "Created"),
    Column("took", "Duration", "number"),
    Column("state", "Status", "chip"),
    Column("runs", "Runs", "number"),
)
_LAST: Final = 10


@pages.page("/workflows/{workflow}", "Workflow", _PATH)
async def workflow(visit: Visit) -> None:
    found = await visit.ask(operations.get_workflow, visit.path["workflow"])
    ui.page_title(f"{cell(found.name)} · Penstock")
    _head(visit, found)
    with card("Steps"):
        draw(placed(found.definition, [each.name for each in found.trigger_items]), f"Steps of {found.name}")
    with card("Triggers"):
        _triggers(visit, found)
    with card("Last work orders"):
        orders = _Orders(visit, found)
        await orders.look()
    with card("Definition"):
        await WorkflowEditor(visit, found).versions()
    with card("About it"):
        facts(
            [
                ("Id", found.id),
                ("Project", found.project),
                ("From", found.origin),
                ("Concurrency", found.concurrency or "as the project says"),
                ("Changed", words.moment_of(found.updated_at)),
            ]
        )
    refreshing(orders.look)


def _head(visit: Visit, found: WorkflowDetail) -> None:
    async def delete(_: str | None) -> None:
        if await visit.tell(None, _deleted, found.id, found.revision):
            ui.navigate.to(_PATH)

    def ask_delete() -> None:
        say = "Its triggers end, on every instance. The work orders that they brought in stay in the history."
        confirm(f"Delete {found.name}?", say, delete, button_label="Delete").open()

    if visit.asked("saved") == str(found.revision):
        note("Saved; runs that begin from now on use it.")
    with box("head"):
        crumb("Workflows", _PATH)
        title(found.name)
        grow()
        if visit.may("workflows.operate"):
            button("Run…", lambda: open_run(visit, found), "main-act")
        if visit.may("workflows.edit"):
            button("Delete…", ask_delete, "danger")


def _deleted(desk: Desk, actor: Actor, workflow_id: str, revision: int) -> bool:
    workflow_documents.delete(desk, actor, workflow_id, revision)
    return True


def _triggers(visit: Visit, found: WorkflowDetail) -> None:
    if found.trigger_items:
        table(_TRIGGERS, [trigger_row(each) for each in found.trigger_items], key="id", label="Triggers")
    else:
        text("None: it is run by hand, or by pipelines.", "muted")
    if visit.may("triggers.edit"):
        with box("head"):
            button("New trigger…", lambda: ui.navigate.to(url("/triggers/new", workflow=found.id)))


class _Orders:
    """What the workflow did last; looked at again and again."""

    def __init__(self, visit: Visit, found: WorkflowDetail) -> None:
        self._visit = visit
        self._query = WorkOrderQuery(workflow=found.id, any_time=True)
        self._table = table(_ORDERS, [], key="id", label="Last work orders")
        with box("stack") as self._none:
            empty("Nothing yet.", "A message of an enabled trigger makes a work order; so does Run.")
        link("All of them", url("/history", workflow=found.id))

    async def look(self) -> None:
        page = await self._visit.ask(work_orders.list_work_orders, self._query, limit=_LAST)
        rows = [order_row(order) for order in page.items]
        if rows != self._table.rows:
            self._table.rows = rows
        self._table.visible, self._none.visible = bool(rows), not rows
