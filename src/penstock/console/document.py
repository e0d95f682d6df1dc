"""A document that is written in the browser: the text, what can be done with it, and what is found about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from nicegui import ui

from penstock.config.problems import InvalidConfigError
from penstock.console.frame import Visit
from penstock.console.parts import box, button, difference, problem, text
from penstock.console.spec_problems import show_problems
from penstock.core.errors import PenstockError
from penstock.service.access import Actor
from penstock.service.operations.desk import Desk
from penstock.service.operations.models import ProblemView, Validation

Validate = Callable[[Desk, Actor, str], Validation]


class Document:
    """A field for the text; `buttons` is a line for what can be done, behind the one that checks it."""

    def __init__(self, visit: Visit, kept: str, validate: Validate, *, readonly: bool = False) -> None:
        self._visit, self._validate = visit, validate
        lines = min(40, max(12, kept.count("\n") + 2))
        self._field = ui.textarea(value=kept).classes("field mono editor")
        self._field.props(
            f'outlined rows={lines} spellcheck=false aria-label="Document" input-style="resize: vertical"'
        )
        if readonly:
            self._field.props("readonly")
        with box("head") as self.buttons:
            button("Check", self.check)
        with box("findings") as self._findings:
            pass

    @property
    def text(self) -> str:
        return str(self._field.value or "")

    def write(self, other: str) -> None:
        """Another text in its place."""
        self._field.value = other
        self._findings.clear()

    @contextmanager
    def findings(self) -> Iterator[None]:
        """The block says what was found, in place of what was said before."""
        self._findings.clear()
        with self._findings:
            yield

    async def check(self) -> None:
        """Say what is right and wrong with it; nothing is kept."""
        await self.checked(told=True)

    async def checked(self, *, told: bool = False) -> Validation | None:
        """What it means; None where it cannot be used, which is said. `told`: also where it can."""
        written = self.text
        try:
            found = await self._visit.ask(self._validate, written)
        except PenstockError as error:
            self.refuse(written, error)
            return None
        if told or not found.valid:
            self._show(written, found.problems, found.warnings)
        return found if found.valid else None

    def refuse(self, written: str, error: PenstockError) -> None:
        """Say why it was not taken."""
        if isinstance(error, InvalidConfigError):
            self._show(written, [ProblemView.of(each) for each in error.problems], [])
        else:
            with self.findings():
                problem(error)

    def overtaken(self, error: PenstockError, kept: str, again: Callable[[], object]) -> None:
        """Somebody else has saved meanwhile: `kept` is what is there now, `again` begins from it."""
        with self.findings():
            problem(error)
            text("From what is kept now to what you have written:", "muted")
            difference(kept, self.text)
            button("Begin again from what is kept now", again)

    def _show(self, written: str, problems: Sequence[ProblemView], warnings: Sequence[ProblemView]) -> None:
        with self.findings():
            show_problems(written, problems, warnings)
