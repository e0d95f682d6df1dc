"""New pipelines and workflows: written from a document that works, checked, and kept in the store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from nicegui import ui

from penstock.console import starters
from penstock.console.document import Document, Validate
from penstock.console.frame import Visit, pages, pipeline_url, url
from penstock.console.order_words import workflow_url
from penstock.console.parts import box, button, card, crumb, empty, title
from penstock.console.tables import cell
from penstock.core.errors import PenstockError
from penstock.service.access import Actor, allows
from penstock.service.operations import managed, users, workflow_documents
from penstock.service.operations.desk import Desk

PIPELINE: Final = "/new/pipeline"
WORKFLOW: Final = "/new/workflow"
_EVERYWHERE: Final = ""
"""Stands for no project: such a pipeline belongs to the instance."""


@pages.page(PIPELINE, "New pipeline", "/")
async def new_pipeline(visit: Visit) -> None:
    with box("head"):
        crumb("Pipelines", "/")
        title("New pipeline")
    if not visit.may("pipelines.edit"):
        empty("Your role lets you look at pipelines, not make them.", "Ask an admin for the role operator.")
        return

    async def keep(text: str, project: str | None) -> str:
        made = await visit.ask(managed.create, text, project=project)
        visit.data.forget()
        return url(pipeline_url(made.name), tab="spec")

    _editor(visit, starters.PIPELINES, managed.validate_text, keep, await visit.ask(_projects))


@pages.page(WORKFLOW, "New workflow", "/workflows")
async def new_workflow(visit: Visit) -> None:
    with box("head"):
        crumb("Workflows", "/workflows")
        title("New workflow")
    if not visit.may("workflows.edit"):
        empty("Your role lets you look at workflows, not make them.", "Ask an admin for the role operator.")
        return

    async def keep(text: str, _: str | None) -> str:
        made = await visit.ask(workflow_documents.create, text)
        return workflow_url(made.id)

    _editor(visit, starters.WORKFLOWS, workflow_documents.validate_text, keep, {})


def _editor(
    visit: Visit,
    examples: Mapping[str, str],
    validate: Validate,
    keep: Callable[[str, str | None], Awaitable[str]],
    projects: dict[str, str],
) -> None:
    """`keep` is given the text and the project that it shall belong to; its answer is where to go then."""
    first = next(iter(examples))
    with card("Document"):
        with box("fields"):
            begin = ui.select(list(examples), label="Begin with", value=first).classes("field").props("outlined dense")
            project = ui.select(projects, label="Project", value=next(iter(projects), None))
            project.classes("field").props("outlined dense")
            project.visible = len(projects) > 1
        document = Document(visit, examples[first], validate)

    async def save() -> None:
        written = document.text
        making.disable()
        try:
            target = await keep(written, str(project.value) if project.value else None)
        except PenstockError as error:
            document.refuse(written, error)
            return
        finally:
            making.enable()
        ui.navigate.to(target)

    with document.buttons:
        making = button("Create", save, "main-act")
    begin.on_value_change(lambda event: document.write(examples[event.value]))


def _projects(desk: Desk, actor: Actor) -> dict[str, str]:
    """Where the actor may keep a pipeline, by id; the instance itself for those whose role holds everywhere."""
    mine = {
        project.id: cell(project.name)
        for project in users.list_projects(desk, actor)
        if allows(actor, "pipelines.edit", project.id)
    }
    return {_EVERYWHERE: "none: the whole instance"} | mine if allows(actor, "pipelines.edit") else mine
