"""What a command writes to: people's text or one JSON document, with control characters of data made visible."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, TextIO

import msgspec

from penstock.core.errors import ConfigError, PenstockError
from penstock.core.event import json_bytes
from penstock.core.visible import one_line, visible, visible_json

if TYPE_CHECKING:
    from rich.console import Console


def json_text(value: object, *, indent: bool = True) -> str:
    text = json_bytes(value)
    return visible_json((msgspec.json.format(text, indent=2) if indent else text).decode())


class Terminal:
    """The two streams of one command.

    With `as_json`, standard output carries JSON and nothing else; what people would read is left out, or goes to
    standard error.
    """

    def __init__(self, *, as_json: bool = False, debug: bool = False) -> None:
        self.as_json = as_json
        self.debug = debug
        self._reserved: TextIO | None = None

    @contextmanager
    def reserved_output(self) -> Iterator[None]:
        """Keep standard output for the command's JSON; what user code or a child prints goes to standard error."""
        if not self.as_json:
            yield
            return
        sys.stdout.flush()
        own = os.dup(1)
        os.dup2(2, 1)
        try:
            with os.fdopen(os.dup(own), "w", encoding="utf-8", errors="backslashreplace") as stream:
                self._reserved = stream
                yield
        finally:
            self._reserved = None
            sys.stdout.flush()
            os.dup2(own, 1)
            os.close(own)

    @contextmanager
    def progress(self, what: str, total: int) -> Iterator[Callable[[int], None] | None]:
        """A bar where a person watches; called with how much is done."""
        if not self.is_live:
            yield None
            return
        from rich.progress import Progress

        with Progress(console=self.out, transient=True) as bar:
            task = bar.add_task(what, total=total)
            yield lambda done: bar.update(task, completed=done)

    @cached_property
    def out(self) -> Console:
        from rich.console import Console

        # A pipe has no width of its own: 80 columns would fold what scripts look for.
        width = None if sys.stdout.isatty() else 4000
        return Console(highlight=False, markup=False, emoji=False, soft_wrap=True, width=width)

    @cached_property
    def err(self) -> Console:
        from rich.console import Console

        return Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)

    @property
    def is_live(self) -> bool:
        """Whether a moving picture makes sense: a person watches standard output."""
        return not self.as_json and self.out.is_terminal

    def data(self, value: object) -> None:
        """The command's one JSON document."""
        self._write(json_text(value))

    def data_line(self, value: object) -> None:
        """One JSON document per line, for commands that stream."""
        self._write(json_text(value, indent=False))

    def _write(self, text: str) -> None:
        stream = self._reserved or sys.stdout
        stream.write(text + "\n")
        stream.flush()

    def line(self, text: object = "", style: str | None = None) -> None:
        self.out.print(visible(text), style=style)

    def note(self, text: object, style: str | None = "dim") -> None:
        """A remark beside the output, on standard error."""
        self.err.print(visible(text), style=style)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in columns:
            table.add_column(Text(one_line(column)), overflow="fold")
        for row in rows:
            table.add_row(*(Text("" if cell is None else one_line(cell)) for cell in row))
        self.out.print(table, soft_wrap=False)

    def confirm(self, question: str, *, yes: bool) -> None:
        """Ask before something is changed; scripts say yes beforehand. A no ends the command."""
        if yes:
            return
        if self.as_json or not sys.stdin.isatty():
            raise ConfigError("nothing was done: nobody is there to be asked", hint="give --yes")

        import typer

        typer.confirm(visible(question), abort=True)

    def error(self, error: PenstockError) -> None:
        """An error as people read it, or as the JSON document."""
        if self.as_json:
            self.data({"error": error.as_dict()})
            return
        self.err.print(f"error[{error.code}]: {visible(error.message)}", style="red")
        for label, value in (("received", error.received), ("allowed", error.allowed), ("hint", error.hint)):
            if value is not None:
                self.err.print(f"  {label}: {visible(_listed(value))}")


def _listed(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple, set, frozenset)) else str(value)
