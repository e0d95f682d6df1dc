"""Many work orders run again or cancelled: what that would take before it is begun, and how far it is."""

from __future__ import annotations

from typing import Final

from nicegui import ui

from penstock.console import words
from penstock.console.frame import Visit, pages
from penstock.console.job_page import OVER, Bar, JobHead, follow
from penstock.console.order_filters import PATH, chosen
from penstock.console.parts import box, button, card, empty, facts, figure, link, problem, text, title
from penstock.console.tables import cell
from penstock.core.errors import ConfigError, PenstockError
from penstock.core.visible import visible
from penstock.service.operations import work_orders as operations
from penstock.service.operations.work_order_models import Kind, WorkOrderChoice, WorkOrderJob
from penstock.service.operations.workflows import get_workflow, list_workflows

_KINDS: Final[dict[str, Kind]] = {"retry": "retry", "cancel": "cancel"}
_SAID: Final[dict[Kind, tuple[str, str]]] = {
    "retry": ("Retry", "run again"),
    "cancel": ("Cancel", "cancelled; what has begun goes on"),
}
_DONE: Final = {"retry": "run again", "cancel": "cancelled", "export": "exported"}
_START: Final = ""


@pages.page("/history/bulk", "Many work orders", PATH)
async def bulk(visit: Visit) -> None:
    kind = _KINDS.get(visit.asked("kind") or "")
    if kind is None:
        raise ConfigError("what is to be done with them?", received=visit.asked("kind"), allowed=list(_KINDS))
    name, said = _SAID[kind]
    asked = chosen(visit)
    named = asked.words.get("ids")
    choice = WorkOrderChoice(ids=asked.query.ids) if named else asked.choice
    title(f"{name} work orders")
    plan = await visit.ask(operations.plan, kind, choice)
    if not plan.work_orders:
        empty(f"There is nothing to {kind}.", "Take a filter away, or select some.")
        link("History", PATH)
        return
    many = f"{words.number(plan.work_orders)} work order{'' if plan.work_orders == 1 else 's'}"
    which = f"{len(asked.query.ids)} selected" if named else asked.sentence()
    text(f"A dry run: nothing has been done yet. Of {which}, {many} would be {said}, oldest first.")
    with box("card"), box("card-body"):
        steps = await _steps(visit, asked.words.get("workflow")) if kind == "retry" else {}
        begin = ui.select({_START: "the start"} | steps, label="From", value=_START).classes("field search")
        begin.props("outlined dense")
        begin.visible = bool(steps)
        with box("stack") as errors:
            pass

        async def go() -> None:
            errors.clear()
            try:
                job = await visit.ask(operations.start, kind, choice, step=str(begin.value) or None)
            except PenstockError as error:
                with errors:
                    problem(error)
                return
            ui.navigate.to(f"/history/jobs/{job.id}")

        with box("head"):
            button(f"{name} {many}", go, "main-act")
            link("Back", asked.address(ids=None) if named else asked.address())


async def _steps(visit: Visit, workflow: str | None) -> dict[str, str]:
    """Steps of the one workflow that is asked for, or of the only one that there is: a step is of one workflow."""
    if workflow is None:
        return {}
    flows = (await visit.ask(list_workflows, limit=1000)).items
    found = next((flow.id for flow in flows if workflow in (flow.id, flow.name, f"{flow.project}/{flow.name}")), None)
    if found is None:
        return {}
    return {step: cell(step) for step in (await visit.ask(get_workflow, found)).steps}


@pages.page("/history/jobs/{job}", "Job", "/jobs")
async def bulk_job(visit: Visit) -> None:
    identifier = visit.path["job"]
    found = await visit.ask(operations.job, identifier)
    follow(lambda: visit.ask(operations.job, identifier), _Progress(visit, found).show)


class _Progress:
    """How far a job is."""

    def __init__(self, visit: Visit, job: WorkOrderJob) -> None:
        self._head = JobHead(visit, f"{job.kind.capitalize()} of work orders", operations.stop_job, job.id)
        self._note = text("It waits for an instance.", "note warn")
        self._bar = Bar()
        with box("figures"):
            self._done, _ = figure(_DONE[job.kind], "")
            self._skipped, _ = figure("skipped", "")
            self._left, _ = figure("left", "")
        self._end = text("", "note")
        with card("About it"):
            facts([("Of", job.what), ("By", job.by), ("Asked for", words.moment_of(job.asked_at))])
            link("History", PATH)
        self._may = visit.may("work_orders.operate")
        self.show(job)

    def show(self, job: WorkOrderJob) -> None:
        over, reached = job.state in OVER, job.done + job.skipped
        self._done.text = words.number(job.done)
        self._skipped.text = words.number(job.skipped)
        self._left.text = words.number(max(0, job.total - reached))
        self._bar.show(1 if job.state == "done" else reached, 1 if job.state == "done" else job.total)
        self._note.visible = job.state == "waiting"
        many = f"{words.number(job.done)} of {words.number(job.total)} work orders"
        skipped = f"; {words.number(job.skipped)} were skipped" if job.skipped else ""
        self._end.text = visible(f"{many} are {_DONE[job.kind]}{skipped}.") if over else ""
        self._end.visible = over
        self._head.show(job.state, may_stop=self._may)
