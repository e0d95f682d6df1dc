"""Commands about pipeline files: `init`, `validate`, `test`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.command import command
from penstock.cli.exits import Exit
from penstock.cli.terminal import Terminal
from penstock.core.errors import ConfigError, PenstockError

if TYPE_CHECKING:
    from penstock.config.problems import Problem
    from penstock.service.cases import CaseResult
    from penstock.service.validation import Report

Paths = Annotated[
    list[str], typer.Argument(help="Pipeline files, folders of them, or their addresses.", metavar="FILE|DIR...")
]
Strict = Annotated[bool, typer.Option("--strict", help="One file that cannot be used stops everything.")]


def register(app: typer.Typer) -> None:
    for name, body in (("init", init), ("validate", validate), ("test", test)):
        command(app, name)(body)


def init(
    terminal: Terminal,
    folder: Annotated[Path, typer.Argument(help="Where to write; made if absent.", metavar="[DIR]")] = Path(),
    template: Annotated[str, typer.Option(help="Which template; --list shows them.")] = "webhook",
    show: Annotated[bool, typer.Option("--list", help="Show the templates and write nothing.")] = False,
) -> Exit | None:
    """Write a first pipeline with its test cases, from a template."""
    from penstock.service.gallery import TEMPLATES, write_template

    if show:
        _show_templates(terminal, {t.name: t.summary for t in TEMPLATES.values()})
        return None
    written = write_template(template, folder)
    if terminal.as_json:
        terminal.data({"template": template, "files": [str(path) for path in written]})
        return None
    for path in written:
        terminal.line(f"wrote {path}")
    terminal.line()
    terminal.line(f"next: penstock validate {folder} && penstock test {folder}")
    return None


def _show_templates(terminal: Terminal, templates: dict[str, str]) -> None:
    if terminal.as_json:
        terminal.data([{"name": name, "summary": summary} for name, summary in templates.items()])
    else:
        terminal.table(("TEMPLATE", "WHAT IT DOES"), templates.items())


def validate(
    terminal: Terminal,
    paths: Paths,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings count as errors.")] = False,
) -> Exit | None:
    """Check pipeline files: their keys and values, that their plug-ins exist, and the plug-ins' own configuration."""
    from penstock.service.validation import validate as validated

    report = validated(paths)
    if terminal.as_json:
        terminal.data(report.as_dict())
    else:
        _show_report(terminal, report)
    return None if report.ok(strict=strict) else Exit.USAGE


def _show_report(terminal: Terminal, report: Report) -> None:
    show_problems(terminal, report.warnings, "warning")
    show_problems(terminal, report.problems, "error")
    for spec in report.pipelines:
        terminal.line(f"ok  {spec.name}  ({spec.origin})", style="green")
    for workflow in report.workflows:
        terminal.line(f"ok  {workflow.full_name}  ({workflow.origin})", style="green")
    counts = (
        (len(report.pipelines), "valid pipeline"),
        *([(len(report.workflows), "valid workflow")] if report.workflows else []),
        (len(report.problems), "error"),
        (len(report.warnings), "warning"),
    )
    terminal.line(", ".join(f"{count} {word}{'' if count == 1 else 's'}" for count, word in counts))


def show_problems(terminal: Terminal, problems: Sequence[Problem], level: str) -> None:
    """Problems of files, one line each, on standard error."""
    for problem in problems:
        terminal.note(f"{level}: {problem}", style="red" if level == "error" else "yellow")
        if problem.received is not None:
            terminal.note(f"  received: {problem.received!r}")


def test(terminal: Terminal, paths: Paths) -> Exit | None:
    """Run the cases written beside pipeline files (`orders.test.yaml` beside `orders.yaml`); no broker, no Spark."""
    from penstock.service.cases import run_cases

    results: list[CaseResult] = []
    errors: list[PenstockError] = []
    for path in paths:
        try:
            results += run_cases(Path(path))
        except PenstockError as error:
            # One bad file must not hide how the cases of the others went.
            errors.append(error)
    if not results and not errors:
        hint = "write them into a file beside the pipeline: orders.test.yaml beside orders.yaml"
        errors.append(ConfigError("there are no cases", received=paths, hint=hint))
    if terminal.as_json:
        passed = not errors and all(result.ok for result in results)
        cases = [result.as_dict() for result in results]
        terminal.data({"ok": passed, "cases": cases, "errors": [error.as_dict() for error in errors]})
    else:
        _show_cases(terminal, results, errors)
    if errors:
        return Exit.USAGE
    return None if all(result.ok for result in results) else Exit.FAILED


def _show_cases(terminal: Terminal, results: Sequence[CaseResult], errors: Sequence[PenstockError]) -> None:
    for result in results:
        mark, style = ("ok", "green") if result.ok else ("FAILED", "red")
        terminal.line(f"{mark:6} {result.pipeline}: {result.name}", style=style)
        for mismatch in result.mismatches:
            terminal.line("\n".join(f"       {line}" for line in mismatch.splitlines()))
    for error in errors:
        terminal.error(error)
    failed = sum(not result.ok for result in results)
    terminal.line(f"{len(results)} case{'' if len(results) == 1 else 's'}, {failed} failed")
