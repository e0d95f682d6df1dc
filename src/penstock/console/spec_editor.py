"""A document that is kept in the store: checked, compared with what runs, and saved over the version it was read as."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from nicegui import ui

from penstock.console.document import Document
from penstock.console.frame import Visit
from penstock.console.parts import button, confirm, difference, grow, heading, note, notify, problem
from penstock.core.errors import PenstockError
from penstock.service.operations import managed, pipelines, versions
from penstock.service.operations.models import PipelineDetail

Again = Callable[[], Awaitable[None]]


class SpecEditor:
    """The text and what can be done with it."""

    def __init__(self, visit: Visit, detail: PipelineDetail, again: Again) -> None:
        """`again` builds the tab anew, from what is kept then."""
        self._visit, self._detail, self._again = visit, detail, again
        self._kept = detail.text or ""
        may = visit.may("pipelines.edit")
        self._document = Document(visit, self._kept, managed.validate_text, readonly=not may)
        with self._document.buttons:
            button("Compare with what runs", self._compare)
            if may:
                self._save_button = button("Save", self._save, "main-act")
                grow()
                button("Delete…", self._ask_delete)

    async def check(self) -> None:
        await self._document.check()

    async def _compare(self) -> None:
        found = await self._document.checked()
        if found is None or found.spec is None:
            return
        with self._document.findings():
            try:
                now = await self._visit.ask(pipelines.get_pipeline, self._detail.name)
            except PenstockError as error:
                problem(error)
                return
            if now.spec is None:
                note("It has not run yet: there is nothing to compare with.")
            else:
                heading("From what runs to this document, defaults filled in")
                difference(versions.as_yaml(now.spec), versions.as_yaml(found.spec))

    async def _save(self) -> None:
        written = self._document.text
        if written == self._kept:
            notify("Nothing was changed.")
            return
        self._save_button.disable()
        try:
            made = await self._visit.ask(managed.replace, self._detail.name, written, self._detail.revision)
        except PenstockError as error:
            await self._refused(written, error)
            return
        finally:
            self._save_button.enable()
        notify(f"Saved as version {made.revision}; running instances take it within seconds.")
        await self._again()

    async def _refused(self, written: str, error: PenstockError) -> None:
        if error.code != "changed":
            self._document.refuse(written, error)
            return
        now = await self._visit.ask(pipelines.get_pipeline, self._detail.name)
        self._document.overtaken(error, now.text or "", self._again)

    def _ask_delete(self) -> None:
        name = self._detail.name

        async def go(_: str | None) -> None:
            try:
                await self._visit.ask(managed.delete, name, self._detail.revision)
            except PenstockError as error:
                notify(str(error), good=False)
                return
            self._visit.data.forget()
            ui.navigate.to("/")

        say = "Every instance finishes what is under way and runs it no more. Its versions and dead letters stay."
        confirm(f"Delete {name}?", say, go, button_label="Delete").open()
