"""One work order: its input, and its runs with their steps."""

from __future__ import annotations

from nicegui import ui

from penstock.console import words
from penstock.console.clip_view import show_clip
from penstock.console.frame import Visit, pages, refreshing
from penstock.console.order_filters import PATH
from penstock.console.order_words import (
    ENDED,
    RERUN,
    STEPS,
    run_row,
    run_url,
    short_id,
    state_name,
    state_tone,
    step_row,
    workflow_url,
)
from penstock.console.parts import box, button, card, chip, crumb, facts, grow, link, note, plain, text, title
from penstock.console.tables import table
from penstock.service.operations import work_orders as operations
from penstock.service.operations.work_order_models import RunDetail, WorkOrderDetail


@pages.page("/work-orders/{order}", "Work order", PATH)
async def work_order(visit: Visit) -> None:
    found = await visit.ask(operations.get_work_order, visit.path["order"])
    ui.page_title(f"{short_id(found.id)} · Penstock")
    shown = _Shown(visit, found)

    async def look() -> None:
        shown.show(await visit.ask(operations.get_work_order, found.id))

    shown.look = look
    refreshing(look)


class _Shown:
    """The page of one; drawn again when something has happened to it."""

    def __init__(self, visit: Visit, order: WorkOrderDetail) -> None:
        self._visit, self._id = visit, order.id
        self._may = visit.may("work_orders.operate")
        self._seen: WorkOrderDetail | None = None
        self.look = self._nothing
        with box("head"):
            crumb("History", PATH)
            title(short_id(order.id))
            self._chip = chip("pending")
            grow()
            self._retry = button("Retry", self._again, "main-act")
            self._cancel = button("Cancel", self._take_back)
        with box("stack") as self._body:
            pass
        self.show(order)

    async def _nothing(self) -> None:
        """There is nothing to look at yet."""

    def show(self, order: WorkOrderDetail) -> None:
        if order == self._seen:
            return
        self._seen = order
        self._chip.text = state_name(order.state)
        self._chip.classes(replace=f"chip {state_tone(order.state)}")
        self._retry.visible = self._may and order.state in ENDED
        self._cancel.visible = self._may and order.state not in ENDED
        self._body.clear()
        with self._body:
            with box("split"):
                with card("About it"):
                    _facts(order)
                with card("Input"):
                    show_clip(order.dataclips.get(order.dataclip_id or ""), order.id)
            if not order.runs:
                note("It has no run: a limit of the project rejected it. It can be retried.")
            for number, run in reversed(list(enumerate(order.runs, 1))):
                self._run(number, run)

    def _run(self, number: int, run: RunDetail) -> None:
        shown = run_row(run)
        with box("card"):
            with box("card-head"):
                link(f"Run {number}", run_url(run.id))
                chip(shown["state"], shown["state_tone"])
                text(f"{shown['began']}, {shown['when']}, {shown['took']}", "muted small")
                if run.error_type:
                    text(run.error_type, "small")
            with box("card-body"):
                if not run.steps:
                    text("No step of it has begun.", "muted")
                    return
                again = [RERUN] if self._may and run.finished_at is not None else []
                rows = [step_row(step) | {"acts": again} for step in run.steps]
                names = {step.id: step.name for step in run.steps}

                async def act(_: str, step_id: str) -> None:
                    await self._retried(run.id, names[str(step_id)])

                table(STEPS, rows, key="id", label=f"Steps of run {number}", on_act=act)

    async def _again(self) -> None:
        await self._retried(self._id, None)

    async def _retried(self, identifier: str, step: str | None) -> None:
        made = await self._visit.tell("It runs again.", operations.retry, identifier, step=step)
        if made is not None:
            await self.look()

    async def _take_back(self) -> None:
        await self._visit.tell("It is cancelled.", operations.cancel, self._id)
        await self.look()


def _facts(order: WorkOrderDetail) -> None:
    facts(
        [
            ("Id", order.id),
            ("Project", order.project),
            ("Trigger", order.trigger or "none: by hand, or by a pipeline"),
            ("Created", words.moment_of(order.inserted_at)),
            ("Last activity", words.moment_of(order.last_activity)),
            ("Duration", words.millis(order.duration_ms)),
        ]
    )
    with box("head"):
        text("Workflow", "muted")
        if order.workflow_deleted:
            text(f"{order.workflow} (deleted)")
        else:
            link(order.workflow, workflow_url(order.workflow_id))
    clip = order.dataclips.get(order.dataclip_id or "")
    if clip is not None and isinstance(clip.request, dict) and clip.request:
        text("Message", "muted")
        plain(words.json_text(clip.request))
