"""A document that is kept in the store: checked, compared with what runs, and saved over the version it was read as."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from nicegui import ui

from penstock.config.problems import InvalidConfigError
from penstock.console.frame import Visit
from penstock.console.parts import box, button, confirm, difference, grow, heading, note, notify, problem, text
from penstock.console.spec_problems import show_problems
from penstock.core.errors import PenstockError
from penstock.service.operations import managed, pipelines, versions
from penstock.service.operations.models import PipelineDetail, ProblemView

Again = Callable[[], Awaitable[None]]


class SpecEditor:
    """The text and what can be done with it."""

    def __init__(self, visit: Visit, detail: PipelineDetail, again: Again) -> None:
        """`again` builds the tab anew, from what is kept then."""
        self._visit, self._detail, self._again = visit, detail, again
        self._kept = detail.text or ""
        lines = min(40, max(12, self._kept.count("\n") + 2))
        self._field = ui.textarea(value=self._kept).classes("field mono editor")
        self._field.props(
            f'outlined rows={lines} spellcheck=false aria-label="Document" input-style="resize: vertical"'
        )
        with box("head"):
            button("Check", self.check)
            button("Compare with what runs", self._compare)
            if visit.may("pipelines.edit"):
                self._save_button = button("Save", self._save, "main-act")
                grow()
                button("Delete…", self._ask_delete)
            else:
                self._field.props("readonly")
        with box("findings") as self._findings:
            pass

    @property
    def _text(self) -> str:
        return str(self._field.value or "")

    async def check(self) -> None:
        """Say what is right and wrong with it; nothing is kept."""
        self._findings.clear()
        with self._findings:
            try:
                found = await self._visit.ask(managed.validate_text, self._text)
            except PenstockError as error:
                problem(error)
                return
            show_problems(self._text, found.problems, found.warnings)

    async def _compare(self) -> None:
        self._findings.clear()
        with self._findings:
            try:
                found = await self._visit.ask(managed.validate_text, self._text)
                now = await self._visit.ask(pipelines.get_pipeline, self._detail.name)
            except PenstockError as error:
                problem(error)
                return
            if found.spec is None:
                show_problems(self._text, found.problems, found.warnings)
            elif now.spec is None:
                note("It has not run yet: there is nothing to compare with.")
            else:
                heading("From what runs to this document, defaults filled in")
                difference(versions.as_yaml(now.spec), versions.as_yaml(found.spec))

    async def _save(self) -> None:
        written = self._text
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
        self._findings.clear()
        with self._findings:
            if isinstance(error, InvalidConfigError):
                show_problems(written, [ProblemView.of(each) for each in error.problems], [])
                return
            problem(error)
            if error.code != "changed":
                return
            now = await self._visit.ask(pipelines.get_pipeline, self._detail.name)
            text("From what is kept now to what you have written:", "muted")
            difference(now.text or "", written)
            button("Begin again from what is kept now", self._again)

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
