"""One trigger, or a new one: its settings, tried and previewed before they are saved; switched, deleted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

from nicegui import ui
from pydantic import ValidationError

from penstock.console import words
from penstock.console.frame import Visit, pages, pipeline_url, refreshing, url
from penstock.console.order_words import workflow_url
from penstock.console.parts import (
    TONES,
    box,
    button,
    card,
    chip,
    confirm,
    crumb,
    empty,
    facts,
    figure,
    grow,
    link,
    note,
    title,
)
from penstock.console.tables import cell
from penstock.console.trigger_form import TriggerForm
from penstock.console.trigger_switch import switch
from penstock.console.trigger_trial import show_messages, show_report
from penstock.console.trigger_words import trigger_url
from penstock.core.errors import PenstockError
from penstock.core.visible import visible
from penstock.service.access import Actor
from penstock.service.operations import trigger_trials as trials
from penstock.service.operations import triggers as operations
from penstock.service.operations.desk import Desk
from penstock.service.operations.trigger_models import NewTrigger, TriggerChange, TriggerDetail
from penstock.service.operations.workflows import list_workflows

T = TypeVar("T")
Draft = TypeVar("Draft", NewTrigger, TriggerChange)

_PATH: Final = "/triggers"
_MESSAGES: Final = 10


@pages.page("/triggers/new", "New trigger", _PATH)
async def new_trigger(visit: Visit) -> None:
    flows = (await visit.ask(list_workflows, limit=1000)).items
    with box("head"):
        crumb("Triggers", _PATH)
        title("New trigger")
    if not visit.may("triggers.edit"):
        empty("Your role lets you look at triggers, not make them.", "Ask an admin for the role operator.")
        return
    if not flows:
        empty("There is no workflow that it could start.", "Make one under Workflows; then it can have a trigger.")
        return
    schema = await visit.ask(operations.trigger_schema)
    asked = visit.asked("workflow")
    names = {flow.id: cell(f"{flow.project}/{flow.name}") for flow in flows}
    with card("Settings"):
        with box("fields"):
            workflow = ui.select(names, label="Workflow", value=asked if asked in names else next(iter(names)))
            name = ui.input("Name", value="kafka")
            for field in (workflow, name):
                field.classes("field").props("outlined dense")
        form = TriggerForm(schema, None)
        enabled = ui.checkbox("Enable it at once", value=True)

    def draft() -> NewTrigger:
        return form.new(str(workflow.value), str(name.value or "").strip(), enabled=bool(enabled.value))

    async def save() -> None:
        made = await editor.given(lambda new: visit.ask(operations.create, new))
        if made is not None:
            visit.data.forget()
            ui.navigate.to(trigger_url(made.id))

    editor = _Editor(visit, form, draft)
    editor.buttons("Save trigger", save)


class _Editor(Generic[Draft]):
    """A form, and what is asked about what is written in it."""

    def __init__(
        self, visit: Visit, form: TriggerForm, draft: Callable[[], Draft], trigger_id: str | None = None
    ) -> None:
        self._visit, self._form, self._id = visit, form, trigger_id
        self._draft: Callable[[], Draft] = draft

    def buttons(self, label: str, save: Callable[[], Awaitable[None]]) -> None:
        """Below the form; what they find out comes below them."""
        with box("head"):
            button(label, save, "main-act")
            testing = button("Test connection", self._test)
            previewing = button("Preview messages", self._preview)
            testing.visible = previewing.visible = self._visit.may("triggers.test")
            self._waiting = ui.spinner(size="1.4em")
            self._waiting.visible = False
        with box("stack") as self._found:
            pass

    async def given(self, ask: Callable[[Draft], Awaitable[T]]) -> T | None:
        """The answer to a question about what is written; None where it is refused, each reason on its field."""
        self._form.forget_errors()
        self._found.clear()
        self._waiting.visible = True
        try:
            return await ask(self._draft())
        except (PenstockError, ValidationError) as error:
            self._form.refused(error)
            return None
        finally:
            self._waiting.visible = False

    async def _test(self) -> None:
        report = await self.given(lambda draft: self._visit.ask(trials.try_draft, draft, trigger_id=self._id))
        if report is not None:
            with self._found, card("Connection"):
                show_report(report)

    async def _preview(self) -> None:
        messages = await self.given(
            lambda draft: self._visit.ask(trials.preview, draft, trigger_id=self._id, last=_MESSAGES)
        )
        if messages is not None:
            with self._found, card("Preview"):
                show_messages(messages)


@pages.page("/triggers/{trigger}", "Trigger", _PATH)
async def trigger(visit: Visit) -> None:
    known = await visit.ask(operations.get_trigger, visit.path["trigger"])
    ui.page_title(f"{cell(known.name)} · Penstock")
    head = _Head(visit, known)
    may = visit.may("triggers.edit")
    if may:
        await _edit(visit, head)
    else:
        with card("Settings"):
            facts([("Hosts", known.hosts), ("Topics", known.topics), ("Group", known.group_id)])
    with card("About it"):
        facts(
            [
                ("Id", known.id),
                ("Group", known.group_id),
                ("Comment", known.comment),
                ("Changed", words.moment_of(known.updated_at)),
            ]
        )
        with box("head"):
            link(f"Workflow {known.workflow}", workflow_url(known.workflow_id))
            link("Partitions, lag and errors", pipeline_url(known.pipeline))
            link("Work orders", url("/history", trigger=known.id))
            link("Dead letters", url("/dead-letters", pipeline=known.pipeline))
    refreshing(head.look)


async def _edit(visit: Visit, head: _Head) -> None:
    schema = await visit.ask(operations.trigger_schema)
    with card("Settings"):
        form = TriggerForm(schema, head.known)

        editor = _Editor(visit, form, form.change, head.known.id)

        async def save() -> None:
            known = head.known
            done = await editor.given(lambda change: visit.ask(operations.replace, known.id, change, known.revision))
            if done is not None:
                visit.data.forget()
                ui.navigate.to(url(trigger_url(done.id), saved=done.revision))

        editor.buttons("Save", save)


def _settings(of: TriggerDetail) -> object:
    return of.kafka_configuration, of.options, of.comment


def _deleted(desk: Desk, actor: Actor, trigger_id: str, revision: int) -> bool:
    operations.delete(desk, actor, trigger_id, revision)
    return True


class _Head:
    """Name, state, figures and what can be done."""

    def __init__(self, visit: Visit, known: TriggerDetail) -> None:
        self._visit, self.known = visit, known
        with box("head"):
            crumb("Triggers", _PATH)
            title(known.name)
            self._chip = chip("disabled")
            grow()
            with box("head") as acts:
                self._switch = button("Enable", self._turn, "main-act")
                button("Delete…", self._ask_delete, "danger")
            acts.visible = visit.may("triggers.edit")
        if visit.asked("saved") == str(known.revision):
            note("Saved; instances take it up within two seconds.")
        self._why = note("", "warn")
        for warning in known.warnings:
            note(warning, "warn")
        with box("figures"):
            self._lag, _ = figure("messages waiting", "")
            self._messages, _ = figure("messages since its instances started", "")
            self._letters, _ = figure("open dead letters", "")
        self._show(known)

    async def look(self) -> None:
        now = await self._visit.ask(operations.get_trigger, self.known.id)
        # What the form was filled with is what a change is a change of.
        kept = {name: getattr(self.known, name) for name in ("revision", "kafka_configuration", "options", "comment")}
        self.known = now.model_copy(update=kept)
        self._show(now)

    def _show(self, now: TriggerDetail) -> None:
        self._chip.text = now.state
        self._chip.classes(replace=f"chip {TONES.get(now.state, 'rest')}")
        self._why.text = visible(now.reason or "")
        self._why.visible = bool(now.reason)
        self._switch.text = "Disable" if now.enabled else "Enable"
        self._lag.text = words.short(now.lag)
        self._messages.text = words.number(now.messages)
        self._letters.text = words.number(now.dead_letters)

    async def _turn(self) -> None:
        await switch(self._visit, self.known, self._turned)

    async def _turned(self) -> None:
        """Being switched is a change, too; one that the form knows of, unless somebody changed something else."""
        now = await self._visit.ask(operations.get_trigger, self.known.id)
        same = _settings(now) == _settings(self.known)
        self.known = now if same else now.model_copy(update={"revision": self.known.revision})
        self._show(now)

    def _ask_delete(self) -> None:
        async def go(_: str | None) -> None:
            if await self._visit.tell(None, _deleted, self.known.id, self.known.revision):
                ui.navigate.to(_PATH)

        say = "It ends on every instance. The work orders that it brought in stay in the history."
        confirm(f"Delete {self.known.name}?", say, go, button_label="Delete").open()
