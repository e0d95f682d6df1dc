"""Workflows: which there are, and what starts them."""

from __future__ import annotations

from typing import Any, Final

from nicegui import ui

from penstock.console import words
from penstock.console.frame import Visit, pages, query_of, url
from penstock.console.order_words import workflow_url
from penstock.console.parts import box, button, empty, grow, link, text, title
from penstock.console.tables import Column, cell, table
from penstock.service.operations.workflow_models import WorkflowItem
from penstock.service.operations.workflows import list_workflows

PATH: Final = "/workflows"
_COLUMNS: Final = (
    Column("workflow", "Workflow", "link", lead=True),
    Column("project", "Project"),
    Column("steps", "Steps", wide=True),
    Column("triggers", "Triggers"),
    Column("history", "History", "link"),
    Column("updated", "Changed"),
)
_AT_ONCE: Final = 200


@pages.page(PATH, "Workflows", PATH)
async def workflows(visit: Visit) -> None:
    wanted = visit.asked("q")
    page = await visit.ask(list_workflows, text=wanted, limit=_AT_ONCE, after=visit.asked("after"))
    with box("head"):
        title("Workflows")
        grow()
        search = ui.input(placeholder="Search   /", value=wanted or "").props("outlined dense clearable")
        search.classes("field search").props('data-search aria-label="Search workflows"')
        search.on("keydown.enter", lambda: ui.navigate.to(url(PATH, q=search.value)))
        search.on("clear", lambda: ui.navigate.to(PATH))
        if visit.may("workflows.edit"):
            button("New workflow…", lambda: ui.navigate.to("/new/workflow"), "main-act")
    if not page.items:
        if wanted:
            empty("No workflow is called like this.", "Take the search away to see all of them.")
        else:
            empty(
                "There is no workflow yet.",
                "Make one here, or write a document with `kind: workflow` and give it to `penstock workflows apply "
                "FILE`; or import one from Lightning with `penstock import lightning PROJECT.yaml`.",
            )
        return
    table(_COLUMNS, [_row(each) for each in page.items], key="id", label="Workflows")
    if page.next is not None:
        with box("head"):
            text(f"{_AT_ONCE} are shown.", "muted")
            link("More", query_of(visit.request, after=page.next))


def _row(flow: WorkflowItem) -> dict[str, Any]:
    on = f"{flow.enabled_triggers} of {len(flow.triggers)} enabled" if flow.triggers else "none: by hand"
    return {
        "id": flow.id,
        "workflow": flow.name,
        "workflow_text": cell(flow.name),
        "workflow_url": workflow_url(flow.id),
        "project": cell(flow.project),
        "steps": cell(" → ".join(flow.steps)),
        "triggers": on,
        "history": "work orders",
        "history_url": url("/history", workflow=flow.id),
        "updated": flow.updated_at,
        "updated_text": words.ago_of(flow.updated_at),
    }
