"""A workflow run by hand: with what, and from which step."""

from __future__ import annotations

from typing import Final

from nicegui import ui

from penstock.console.frame import Visit
from penstock.console.order_words import run_url
from penstock.console.parts import asking, box, button, problem, text
from penstock.console.tables import cell
from penstock.core.errors import PenstockError
from penstock.service.operations.workflow_models import WorkflowDetail
from penstock.service.operations.workflows import run

_EXAMPLE: Final = '{\n  "data": {}\n}'
_START: Final = ""


def open_run(visit: Visit, found: WorkflowDetail) -> None:
    """The run is begun by an instance; its page shows how it goes."""
    with asking(f"Run {found.name}") as dialog:
        dialog.props("no-backdrop-dismiss")  # a slip of the hand would lose what was written
        text("The input, a JSON object. A message's body would stand under `data`.", "muted")
        body = ui.textarea(value=_EXAMPLE).props('outlined rows=10 input-style="resize: vertical"')
        body.classes("field mono").props('aria-label="Input"')
        steps = {_START: "the start"} | {step: cell(step) for step in found.steps}
        begin = ui.select(steps, label="From", value=_START).classes("field").props("outlined dense")
        name = ui.input("Name of the input (optional)").classes("field").props("outlined dense")
        with box("stack") as errors:
            pass

        async def go() -> None:
            errors.clear()
            try:
                made = await visit.ask(
                    run,
                    found.id,
                    body=str(body.value or "") or None,
                    name=str(name.value or "").strip() or None,
                    step=str(begin.value) or None,
                )
            except PenstockError as error:
                with errors:
                    problem(error)
                return
            dialog.close()
            ui.navigate.to(run_url(made.run))

        with box("foot"):
            button("Cancel", dialog.close)
            button("Run", go, "main-act")
    dialog.open()
