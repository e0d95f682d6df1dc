"""A workflow's steps and edges as a document: checked, saved over what it was read as, with its older versions."""

from __future__ import annotations

from typing import Final

from nicegui import ui

from penstock.console import words
from penstock.console.document import Document
from penstock.console.frame import Visit, url
from penstock.console.order_words import workflow_url
from penstock.console.parts import asking, box, button, difference, note, notify
from penstock.console.tables import Column, table
from penstock.core.errors import PenstockError
from penstock.service.operations import workflow_documents as documents
from penstock.service.operations import workflows as operations
from penstock.service.operations.workflow_models import WorkflowDetail

_VERSIONS: Final = (
    Column("version", "Version", "mono", lead=True),
    Column("saved", "Saved"),
    Column("acts", "", "acts"),
)
_COMPARE: Final = "Compare"
_TAKE: Final = "Write it here"


class WorkflowEditor:
    """The text, what can be done with it, and what it was before."""

    def __init__(self, visit: Visit, found: WorkflowDetail) -> None:
        self._visit, self._found = visit, found
        self._may = visit.may("workflows.edit")
        if self._may and (passing := documents.lasts_until(found.origin)):
            note(passing, "warn")
        self._document = Document(visit, found.text, documents.validate_text, readonly=not self._may)
        with self._document.buttons:
            if self._may:
                self._save_button = button("Save", self._save, "main-act")

    async def versions(self) -> None:
        """Below it, all that there were."""
        known = await self._visit.ask(operations.versions, self._found.id)
        rows = [
            {
                "version": each.id,
                "version_text": f"{each.version[:12]} (current)" if each.current else each.version[:12],
                "saved": each.saved_at,
                "saved_text": words.moment_of(each.saved_at),
                "acts": [] if each.current else [_COMPARE, _TAKE] if self._may else [_COMPARE],
            }
            for each in known
        ]
        if len(rows) > 1:
            table(_VERSIONS, rows, key="version", label="Versions", on_act=self._act)

    async def _act(self, pressed: str, version: str) -> None:
        old = await self._visit.tell(None, operations.version_text, self._found.id, version)
        if old is None:
            return
        if pressed == _TAKE:
            self._document.write(old.text)
            notify("It is written above; it is not saved yet.")
            return
        with asking("From this version to what is kept now") as dialog:
            difference(old.text, self._found.text)
            with box("foot"):
                button("Close", dialog.close)
        dialog.open()

    async def _save(self) -> None:
        found, written = self._found, self._document.text
        if written == found.text:
            notify("Nothing was changed.")
            return
        self._save_button.disable()
        try:
            made = await self._visit.ask(documents.replace, found.id, written, found.revision)
        except PenstockError as error:
            await self._refused(written, error)
            return
        finally:
            self._save_button.enable()
        ui.navigate.to(url(workflow_url(made.id), saved=made.revision))

    async def _refused(self, written: str, error: PenstockError) -> None:
        if error.code != "changed":
            self._document.refuse(written, error)
            return
        now = await self._visit.ask(operations.get_workflow, self._found.id)
        self._document.overtaken(error, now.text, lambda: ui.navigate.to(workflow_url(now.id)))
