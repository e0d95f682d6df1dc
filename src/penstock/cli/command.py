"""How a command is declared: each gets `--json` and `--debug`, a documented exit code, and no traceback."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable
from typing import Annotated, Any, get_type_hints

import typer

from penstock.cli.exits import Exit, code_of
from penstock.cli.terminal import Terminal
from penstock.core.errors import PenstockError

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of text for people.")]
Debug = Annotated[bool, typer.Option("--debug", envvar="PENSTOCK_DEBUG", help="Show the traceback of an error.")]

Body = Callable[..., Exit | None]


def command(
    app: typer.Typer, name: str, *, debug: Any = Debug, context: dict[str, Any] | None = None
) -> Callable[[Body], Body]:
    """Register `body(terminal, …)` as the command `name`; typer reads its options from the other parameters.

    `debug` declares that option where it differs, `context` adds to how the command line is read.
    """

    def register(body: Body) -> Body:
        app.command(name, help=inspect.getdoc(body), context_settings=context)(_wrapped(body, debug))
        return body

    return register


def _wrapped(body: Body, debug_option: Any) -> Callable[..., None]:
    def run(*, as_json: bool, debug: bool, **arguments: Any) -> None:
        terminal = Terminal(as_json=as_json, debug=debug)
        with terminal.reserved_output():
            code = guarded(terminal, lambda: body(terminal, **arguments))
        raise typer.Exit(int(code))

    hints = get_type_hints(body, include_extras=True)
    own = list(inspect.signature(body).parameters.values())[1:]
    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[p.name]) for p in own]
    for name, annotation in (("as_json", AsJson), ("debug", debug_option)):
        parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=annotation))
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined] # inspect honours it, typeshed has no name for it
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run


def guarded(terminal: Terminal, work: Callable[[], Exit | None]) -> Exit:
    """Run a command's work; whatever it raises becomes a message and an exit code."""
    try:
        return work() or Exit.OK
    except PenstockError as error:
        _trace(terminal)
        terminal.error(error)
        return code_of(error)
    except KeyboardInterrupt:
        terminal.note("interrupted")
        return Exit.INTERRUPTED
    except (BrokenPipeError, typer.Exit, typer.Abort):
        raise
    except Exception as error:  # noqa: BLE001 - the last place where anything can still be said to the user
        _trace(terminal)
        name = type(error).__name__
        hint = None if terminal.debug else "run again with --debug and report what it shows"
        terminal.error(PenstockError(f"this is a fault of Penstock: {name}: {error}", hint=hint))
        return Exit.BUG


def _trace(terminal: Terminal) -> None:
    if terminal.debug:
        terminal.note(traceback.format_exc(), style=None)
