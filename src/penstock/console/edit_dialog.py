"""Another value for one dead letter: edited as text or hex, compared with what it was, then replayed."""

from __future__ import annotations

from typing import Final

from nicegui import ui

from penstock.console import words
from penstock.console.bytes_view import raw
from penstock.console.frame import Visit
from penstock.console.parts import asking, box, button, difference, problem, text
from penstock.core.errors import ConfigError, PenstockError
from penstock.service.operations import dead_letters as operations
from penstock.service.operations.letter_models import LetterChoice, LetterDetail
from penstock.service.replay import Edit

_LONGEST: Final = 400_000
"""Characters that are edited here: a browser's message to the server ends at a megabyte, and is escaped."""


def open_edit(visit: Visit, letter: LetterDetail) -> None:
    """The letter keeps its own bytes; only the replay gets the new ones."""
    value, choice = raw(letter.value), LetterChoice(ids=[letter.id])
    before = words.editable(value)
    as_hex = before is None
    shown = before if before is not None else (value or b"").hex(" ")
    if len(shown) > _LONGEST:
        raise ConfigError(
            f"a value of {words.size(len(value or b''))} is too large to be edited in a browser",
            hint=f"POST it to /api/v1/dead-letters/{letter.id}/replay",
        )

    with asking("Edit and replay") as dialog:
        dialog.props("no-backdrop-dismiss")  # a slip of the hand would lose what was written
        kind = "as hex, for the bytes are not plain text" if as_hex else "as text"
        text(f"The value, {kind}. The dead letter keeps its original bytes.", "muted")
        field = ui.textarea(value=shown).props('outlined rows=12 input-style="resize: vertical"')
        field.classes("field mono").props('aria-label="Value"')
        null = ui.checkbox("A null value instead (a tombstone)", value=value is None)
        with box("preview") as preview:
            pass

        def edited() -> Edit:
            if null.value:
                return Edit(None)
            written = str(field.value or "")
            if not as_hex:
                return Edit(written.encode())
            try:
                return Edit(bytes.fromhex(written))
            except ValueError as error:
                raise ConfigError(f"this is no hex: {error}", allowed="pairs of 0-9 and a-f") from None

        # A difference is of what was written when it was asked for.
        for given in (field, null):
            given.on_value_change(preview.clear)

        async def compare() -> None:
            preview.clear()
            with preview:
                try:
                    edit = edited()
                    plan = await visit.ask(operations.plan_replay, choice)
                except PenstockError as error:
                    problem(error)
                    return
                difference(shown, "null" if edit.value is None else str(field.value or ""))
                text(f"{plan.letters} event would go through {letter.pipeline} as it is now.", "muted small")

        async def go() -> None:
            try:
                edit = edited()
            except PenstockError as error:
                preview.clear()
                with preview:
                    problem(error)
                return
            job = await visit.tell(None, operations.replay, choice, edit=edit)
            if job is not None:
                dialog.close()
                ui.navigate.to(f"/jobs/{job.id}")

        with box("foot"):
            button("Cancel", dialog.close)
            button("Show difference", compare)
            button("Replay with this value", go, "main-act")
    dialog.open()
