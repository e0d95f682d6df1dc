"""The spec of a pipeline: its document or its YAML, how it differs from what runs, its versions, and the way back."""

from __future__ import annotations

from typing import Final

from penstock.console import words
from penstock.console.frame import Visit
from penstock.console.parts import asking, box, button, card, changed_lines, empty, facts, notify, plain, problem
from penstock.console.spec_editor import SpecEditor
from penstock.console.tables import Column, cell, table
from penstock.core.errors import PenstockError
from penstock.service.operations import managed, pipelines, versions
from penstock.service.operations.models import PipelineDetail, VersionView

_VERSIONS: Final = (
    Column("version", "Version", "mono", lead=True),
    Column("saved", "Saved"),
    Column("by", "By"),
    Column("acts", "", "acts"),
)
_COMPARE: Final = "Compare"
_ROLL_BACK: Final = "Roll back"


class SpecTab:
    """Filled when it is opened for the first time, and built anew whenever the document has changed."""

    def __init__(self, visit: Visit, name: str) -> None:
        self._visit, self._name = visit, name
        self._filled = False
        with box("stack") as self._body:
            pass

    async def opened(self) -> None:
        """Most visits end before: a check looks names up, which may take a while."""
        if not self._filled:
            self._filled = True
            await self.show()

    async def show(self) -> None:
        detail = await self._visit.ask(pipelines.get_pipeline, self._name)
        known = await self._visit.ask(versions.versions, self._name)
        self._body.clear()
        with self._body:
            if detail.managed:
                await self._document(detail, known)
            else:
                self._yaml(detail)
            if known:
                self._versions(detail, known)

    async def _document(self, detail: PipelineDetail, known: list[VersionView]) -> None:
        current = next((each for each in known if each.current), None)
        facts(
            [
                ("Kept in", "the store"),
                ("Version", detail.revision),
                ("Changed", f"{words.moment_of(current.saved_at)} by {current.by}" if current else None),
                ("Project", detail.project),
            ]
        )
        editor = SpecEditor(self._visit, detail, self.show)
        await editor.check()

    def _yaml(self, detail: PipelineDetail) -> None:
        if detail.spec is None:
            empty("Its spec is not known yet.", "It is kept when an instance runs the pipeline for the first time.")
            return
        facts([("File", detail.file), ("Version", detail.version)])
        plain(versions.as_yaml(detail.spec))

    def _versions(self, detail: PipelineDetail, known: list[VersionView]) -> None:
        may = detail.managed and self._visit.may("pipelines.edit")
        rows = [
            {
                "version": each.version,
                "version_text": f"{each.version} (current)" if each.current else each.version,
                "saved": each.saved_at,
                "saved_text": words.moment_of(each.saved_at),
                "by": cell(each.by or ""),
                "acts": [] if each.current else [_COMPARE, _ROLL_BACK] if may else [_COMPARE],
            }
            for each in known
        ]
        current = next((each.version for each in known if each.current), "running")

        async def act(pressed: str, version: str) -> None:
            await self._open(detail, str(version), current, rolls_back=pressed == _ROLL_BACK)

        with card("Versions"):
            table(_VERSIONS, rows, key="version", label="Versions", on_act=act)

    async def _open(self, detail: PipelineDetail, version: str, current: str, *, rolls_back: bool) -> None:
        old, new = (current, version) if rolls_back else (version, current)
        try:
            found = await self._visit.ask(versions.diff, self._name, old, new)
        except PenstockError as error:
            notify(str(error), good=False)
            return
        with asking(f"Roll back to version {version}" if rolls_back else f"From version {old} to {new}") as dialog:
            changed_lines(found.diff.splitlines())
            with box("refusal") as refusal:
                pass

            async def go() -> None:
                try:
                    made = await self._visit.ask(managed.rollback, self._name, version, detail.revision)
                except PenstockError as error:
                    refusal.clear()
                    with refusal:
                        problem(error)
                    return
                dialog.close()
                notify(f"Version {version} is kept again, as version {made.revision}.")
                await self.show()

            with box("foot"):
                button("Cancel" if rolls_back else "Close", dialog.close)
                if rolls_back:
                    button("Roll back", go, "main-act")
        dialog.open()
