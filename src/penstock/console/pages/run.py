"""One run: how far it came in its workflow, what each step was given and returned, and what it wrote."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from penstock.console import words
from penstock.console.clip_view import show_clip
from penstock.console.frame import Visit, pages, refreshing
from penstock.console.order_filters import PATH
from penstock.console.order_words import (
    RERUN,
    STEPS,
    exit_tone,
    order_url,
    run_row,
    run_url,
    short_id,
    state_name,
    state_tone,
    step_row,
    workflow_url,
)
from penstock.console.parts import asking, box, button, card, chip, crumb, facts, grow, link, text, title
from penstock.console.run_logs import Logs
from penstock.console.tables import table
from penstock.console.workflow_graph import draw, placed
from penstock.core.errors import PenstockError
from penstock.service.operations import work_orders, workflows
from penstock.service.operations.runs import get_run
from penstock.service.operations.work_order_models import RunPage, StepView

_INPUT, _OUTPUT = "Input", "Output"


@pages.page("/runs/{run}", "Run", PATH)
async def run(visit: Visit) -> None:
    found = await visit.ask(get_run, visit.path["run"])
    ui.page_title(f"run {short_id(found.id)} · Penstock")
    shown = _Shown(visit, found, await _definition(visit, found))
    await shown.show(found)

    async def look() -> None:
        now = await visit.ask(get_run, found.id)
        await shown.show(now)
        if now.finished_at is not None:
            timer.deactivate()

    if found.finished_at is None:
        timer = refreshing(look)


async def _definition(visit: Visit, found: RunPage) -> dict[str, Any] | None:
    """The workflow as it was for this run; None where that is not known any more."""
    try:
        return (await visit.ask(workflows.version_text, found.workflow_id, found.snapshot_id)).definition
    except PenstockError:
        return None  # the workflow was deleted; the run stays


class _Shown:
    """The page of one run."""

    def __init__(self, visit: Visit, found: RunPage, definition: dict[str, Any] | None) -> None:
        self._visit, self._definition, self._seen = visit, definition, found
        self._may = visit.may("work_orders.operate")
        with box("head"):
            crumb("History", PATH)
            crumb(short_id(found.work_order_id), order_url(found.work_order_id))
            title(f"Run {short_id(found.id)}")
            self._chip = chip("available")
            grow()
            self._retry = button("Run again", lambda: self._again(None), "main-act")
            self._cancel = button("Cancel", self._take_back)
        with box("stack") as self._body:
            pass
        with card("Log"):
            self._logs = Logs(visit, found.id)
        with card("About it") as self._about:
            pass
        self._drawn = False

    async def show(self, now: RunPage) -> None:
        changed = not self._drawn or now != self._seen
        self._seen, self._drawn = now, True
        if changed:
            self._draw(now)
        await self._logs.look({step.id: step.name for step in now.steps})

    def _draw(self, now: RunPage) -> None:
        ended = now.finished_at is not None
        self._chip.text = state_name(now.state)
        self._chip.classes(replace=f"chip {state_tone(now.state)}")
        self._retry.visible, self._cancel.visible = self._may and ended, self._may and not ended
        self._body.clear()
        with self._body:
            with card("Workflow"):
                if self._definition is None:
                    text(f"{now.workflow} is not as it was for this run any more.", "muted")
                else:
                    tones = {step.name: exit_tone(step.exit_reason) for step in now.steps}
                    triggers = [str(name) for name in self._definition.get("triggers", ())]
                    draw(placed(self._definition, triggers), f"Steps of {now.workflow}", tones)
            with card("Steps"):
                self._steps(now, ended=ended)
        self._about.clear()
        with self._about:
            _facts(now)

    def _steps(self, now: RunPage, *, ended: bool) -> None:
        if not now.steps:
            text("No step of it has begun.", "muted")
            return
        steps = {step.id: step for step in now.steps}

        async def act(label: str, step_id: str) -> None:
            if label == RERUN:
                await self._again(steps[step_id].name)
            else:
                self._open(label, steps[step_id])

        table(STEPS, [_row(step, again=self._may and ended) for step in now.steps], key="id", label="Steps", on_act=act)

    def _open(self, label: str, step: StepView) -> None:
        identifier = step.input_dataclip_id if label == _INPUT else step.output_dataclip_id
        clip = self._seen.dataclips.get(identifier or "")
        with asking(f"{label} of {step.name}") as dialog:
            show_clip(clip, self._seen.work_order_id)
            with box("foot"):
                button("Close", dialog.close)
        dialog.open()

    async def _again(self, step: str | None) -> None:
        made = await self._visit.tell(None, work_orders.retry, self._seen.id, step=step)
        if made is not None:
            ui.navigate.to(run_url(made.run))

    async def _take_back(self) -> None:
        await self._visit.tell("It is cancelled.", work_orders.cancel, self._seen.id)
        await self.show(await self._visit.ask(get_run, self._seen.id))


def _row(step: StepView, *, again: bool) -> dict[str, Any]:
    acts = [_INPUT] * (step.input_dataclip_id is not None) + [_OUTPUT] * (step.output_dataclip_id is not None)
    return step_row(step) | {"acts": acts + [RERUN] * again}


def _facts(now: RunPage) -> None:
    shown = run_row(now)
    facts(
        [
            ("Id", now.id),
            ("Project", now.project),
            ("Began", shown["began"]),
            ("Error", now.error_type),
            ("Queue", f"{now.queue}, {now.priority} priority"),
            ("Created", words.moment_of(now.inserted_at)),
            ("Claimed", words.moment_of(now.claimed_at)),
            ("Started", words.moment_of(now.started_at)),
            ("Finished", words.moment_of(now.finished_at)),
            ("Duration", words.millis(now.duration_ms)),
        ]
    )
    if not now.workflow_deleted:
        link(f"Workflow {now.workflow}", workflow_url(now.workflow_id))
