"""`penstock run` and `penstock dry-run`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.command import command
from penstock.cli.exits import Exit
from penstock.cli.files import Paths, Strict, show_problems
from penstock.cli.terminal import Terminal

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.cli.running import Ended
    from penstock.engine.instance import Instance
    from penstock.kafka.probe import Finding
    from penstock.service.dry_run import DryRun
    from penstock.service.stopping import Stop

OptionalPaths = Annotated[
    list[str] | None,
    typer.Argument(
        help="Files of pipelines and workflows, folders of them, or their addresses; none: only the store's triggers.",
        metavar="[FILE|DIR...]",
    ),
]

_MARKS = {True: ("ok", "green"), False: ("FAILED", "red"), None: ("skipped", "yellow")}


def register(app: typer.Typer) -> None:
    command(app, "run")(run)
    command(app, "dry-run")(dry_run)


def run(
    terminal: Terminal,
    paths: OptionalPaths = None,
    until_caught_up: Annotated[
        bool, typer.Option("--until-caught-up", help="Read all topics to the end known at start, then stop.")
    ] = False,
    timeout: Annotated[
        float,
        typer.Option(min=1, help="With --until-caught-up: give up when nothing has moved for so many seconds."),
    ] = 300.0,
    strict: Strict = False,
) -> Exit | None:
    """Run pipelines and workflows, and the triggers of the store, until SIGTERM or Ctrl-C, or until caught up."""
    from penstock.service.stopping import Stop

    # From here to the last line: whoever stops a process that still starts, or stops it twice, ends it in good order.
    with Stop() as stop:
        ended = _run(terminal, list(paths or []), stop, until_caught_up=until_caught_up, timeout=timeout, strict=strict)
        if terminal.as_json:
            terminal.data(ended.summary)
        else:
            from penstock.cli.picture import show_summary

            show_summary(terminal, ended.summary)
    return ended.code


def _run(
    terminal: Terminal, paths: list[str], stop: Stop, *, until_caught_up: bool, timeout: float, strict: bool
) -> Ended:
    import structlog

    from penstock.config.settings import Settings
    from penstock.service.warm_up import begin_spark

    log = structlog.get_logger("penstock.run")
    settings = Settings.load()
    # Before the imports below: the JVM takes as long to start as they do.
    spark = begin_spark(settings, quiet_output=terminal.as_json)

    from penstock.cli.running import run_with_server

    serves_console = settings.http.console and not until_caught_up

    def say(what: str, value: object) -> None:
        # Where the log is for machines, so is every line beside it.
        if settings.log.format == "json":
            log.info(what, value=value)
        else:
            terminal.note(f"{what}: {', '.join(value) if isinstance(value, list) else value}", style=None)

    def at_address(address: str | None) -> None:
        if address:
            say("console, API, metrics and health" if serves_console else "metrics and health", address)

    def first_token(file: Path) -> None:
        say("first admin token, good for 24 hours, to log in to the console with", str(file))

    def ready(instance: Instance) -> None:
        say("ready", [view.name for view in instance.snapshot()] or "no pipeline yet")

    return run_with_server(
        settings,
        paths,
        on_address=at_address,
        on_ready=ready,
        on_first_token=first_token,
        until_caught_up=until_caught_up,
        patience=timeout,
        strict=strict,
        stop=stop.asked,
        spark=spark,
    )


def dry_run(
    terminal: Terminal,
    paths: Paths,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds that each step may take.")] = 5.0,
) -> Exit | None:
    """Touch every connection of the pipelines, each step apart; nothing is read or changed."""
    from penstock.service.dry_run import dry_run as tried

    result = tried(list(paths), timeout)
    if terminal.as_json:
        terminal.data(result.as_dict())
    else:
        _show_dry_run(terminal, result)
    return _dry_run_code(result)


def _show_dry_run(terminal: Terminal, result: DryRun) -> None:
    show_problems(terminal, result.warnings, "warning")
    show_problems(terminal, result.problems, "error")
    for name, findings in result.findings.items():
        terminal.line(name, style="bold")
        for finding in findings:
            show_finding(terminal, finding)


def show_finding(terminal: Terminal, finding: Finding) -> None:
    """One step, how it went, and what to do about it."""
    word, style = _MARKS[finding.ok]
    terminal.line(f"  {word:8} {finding.step:10} {finding.target}: {finding.detail}", style=style)
    if finding.hint and not finding.ok:
        terminal.line(f"{'':22}{finding.hint}")


def _dry_run_code(result: DryRun) -> Exit | None:
    if result.problems:
        return Exit.USAGE
    if result.unreachable:
        return Exit.UNREACHABLE
    return Exit.FAILED if result.failed else None
