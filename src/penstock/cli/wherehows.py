"""`penstock wherehows`: sample events, a look at what a processor makes of one, tables, the merge."""

from __future__ import annotations

import re
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from penstock.cli.command import command
from penstock.cli.exits import Exit
from penstock.cli.terminal import Terminal
from penstock.core.errors import ConfigError, Unavailable

if TYPE_CHECKING:
    from penstock.service.samples import Produced, SampleRegistry
    from penstock.tables.merge import MergeRun
    from penstock.tables.preview import Preview

Url = Annotated[str, typer.Option("--url", envvar="WHZ_DB_URL", help="The database, as a SQLAlchemy or JDBC URL.")]
_PLACE = re.compile(r"(?P<topic>[^/@]+)/(?P<partition>\d+)@(?P<offset>\d+)")


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Processors, staging tables and samples of WhereHows.", no_args_is_help=True)
    for name, body in (("sample", sample), ("dry-run", dry_run), ("ddl", ddl), ("merge", merge)):
        command(group, name)(body)
    app.add_typer(group, name="wherehows")


def sample(
    terminal: Terminal,
    bootstrap: Annotated[str | None, typer.Option("--bootstrap", "-b", help="The cluster, as HOST:PORT[,…].")] = None,
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="A pipeline file; its connection is used.")
    ] = None,
    registry: Annotated[str | None, typer.Option("--registry", help="Registry that is given the schemas.")] = None,
    dialect: Annotated[str, typer.Option("--dialect", help="confluent, linkedin or gobblin.")] = "confluent",
    serve: Annotated[
        str | None, typer.Option("--serve", help="[HOST:]PORT at which this command is the registry, until Ctrl-C.")
    ] = None,
    topic: Annotated[list[str] | None, typer.Option("--topic", help="Only this topic; may be repeated.")] = None,
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="Events per topic.")] = 10,
    job: Annotated[Path | None, typer.Option("--job", help="Write a job file that reads the samples.")] = None,
) -> Exit | None:
    """Produce sample events of every kind, framed as WhereHows' topics are, for a first look."""
    from penstock.service.samples import SampleRegistry, job_text, produce_samples
    from penstock.service.topics import connection_of
    from penstock.service.validation import load_specs

    if dialect not in ("confluent", "linkedin", "gobblin"):
        raise ConfigError("no such dialect", received=dialect, allowed=["confluent", "linkedin", "gobblin"])
    if registry is not None and serve is not None:
        raise ConfigError("the schemas are in one registry", hint="give --registry or --serve")
    connection = connection_of(bootstrap, load_specs([config]) if config else [])
    server = None if serve is None else SampleRegistry(serve)
    spoken = cast("Literal['confluent', 'linkedin', 'gobblin']", "linkedin" if registry is None else dialect)
    produced = produce_samples(connection, topic or [], count, registry=registry, dialect=spoken)
    address = server.url if server else registry
    if job is not None:
        if address is None:
            raise ConfigError("a job needs a registry", hint="give --registry URL or --serve PORT")
        job.write_text(job_text(connection.bootstrap, address, spoken, produced))
    _show_samples(terminal, produced, address, job)
    _serve(terminal, server)
    return None


def _show_samples(terminal: Terminal, produced: list[Produced], address: str | None, job: Path | None) -> None:
    if terminal.as_json:
        terminal.data([each.as_dict() for each in produced])
        return
    rows = ((p.topic, p.events, p.processor, p.table, f"{p.id_type} {p.schema_id}") for p in produced)
    terminal.table(("TOPIC", "EVENTS", "PROCESSOR", "TABLE", "SCHEMA ID"), rows)
    if address is None:
        terminal.note("no registry knows these ids: give --registry URL, or --serve PORT to have one for a first look")
    if job is not None:
        terminal.line()
        terminal.line(f"next: set WHZ_DB_URL, then penstock db create-staging --url $WHZ_DB_URL && penstock run {job}")


def _serve(terminal: Terminal, server: SampleRegistry | None) -> None:
    if server is None:
        return
    # A shell that starts it in the background lets it ignore Ctrl-C, and others end it by SIGTERM.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    terminal.note(f"the schemas are at {server.url} until Ctrl-C")
    with suppress(KeyboardInterrupt):
        server.serve()


def dry_run(
    terminal: Terminal,
    processor: Annotated[
        str | None, typer.Argument(help="Short name, WhereHows' class name, pkg.mod:Class or ./file.py:Class.")
    ] = None,
    event: Annotated[Path | None, typer.Option("--event", help="The event as JSON; - is standard input.")] = None,
    config: Annotated[Path | None, typer.Option("--config", "-c", help="A pipeline or job file; with --at.")] = None,
    at: Annotated[str | None, typer.Option("--at", help="A message, as TOPIC/PARTITION@OFFSET.")] = None,
    topic: Annotated[str, typer.Option("--topic", help="Topic that the processor is told.")] = "",
    table: Annotated[str | None, typer.Option("--table", help="Table that the rows would go to.")] = None,
    url: Annotated[str | None, typer.Option("--url", help="Database to look things up in; it stays as it is.")] = None,
    values: Annotated[str, typer.Option("--values", help="fixed, or v0.2.1.")] = "fixed",
) -> Exit | None:
    """Show the rows that an event would give, or its dead letter; nothing is stored. A dead letter ends with 1."""
    if at is not None:
        if config is None:
            raise ConfigError("which pipeline?", hint="give --config FILE with --at")
        shown = _of_message(config, at)
    elif processor is not None and event is not None:
        if values not in ("fixed", "v0.2.1"):
            raise ConfigError("no such values", received=values, allowed=["fixed", "v0.2.1"])
        from penstock.service.processing import preview_event, read_event

        record = read_event(_text(event))
        chosen = cast("Literal['fixed', 'v0.2.1']", values)
        shown = preview_event(processor, record, topic=topic, table=table, address=url, values=chosen)
    else:
        raise ConfigError(
            "which event?", hint="give PROCESSOR --event FILE, or --config FILE --at TOPIC/PARTITION@OFFSET"
        )
    return _show_preview(terminal, shown)


def _of_message(config: Path, at: str) -> Preview:
    from penstock.service.message_preview import preview_message

    place = _PLACE.fullmatch(at)
    if place is None:
        raise ConfigError("a message is named as TOPIC/PARTITION@OFFSET", received=at)
    return preview_message([config], place["topic"], int(place["partition"]), int(place["offset"]))


def _text(file: Path) -> str:
    if str(file) == "-":
        return sys.stdin.read()
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}", received=str(file)) from None


def _show_preview(terminal: Terminal, shown: Preview) -> Exit | None:
    data = shown.as_dict()
    if terminal.as_json:
        terminal.data(data)
    elif shown.error:
        terminal.line(f"dead letter: {shown.error['message']}", style="red")
    elif not shown.rows:
        terminal.line("nothing to store")
    for table, row in () if terminal.as_json else shown.rows:
        terminal.line(table or "row", style="bold")
        terminal.table(("COLUMN", "VALUE"), ((name, _cell(value)) for name, value in row.items()))
    return Exit.FAILED if shown.error else None


def _cell(value: Any) -> str:
    return "NULL" if value is None else str(value)


def ddl(
    terminal: Terminal,
    processor: Annotated[str, typer.Argument(help="pkg.mod:Class or ./file.py:Class; its `columns` are read.")],
    table: Annotated[str | None, typer.Option("--table", help="Name of the table; else that of the class.")] = None,
    dialect: Annotated[str, typer.Option("--dialect", help="postgresql, mysql, mariadb or sqlite.")] = "postgresql",
) -> Exit | None:
    """Print the statement that makes the table of a processor's rows."""
    from penstock.service.processing import ddl as statement_of

    named = table or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", processor.rpartition(":")[2]).lower().replace("-", "_")
    statement = statement_of(processor, named, dialect)
    if terminal.as_json:
        terminal.data({"processor": processor, "table": named, "dialect": dialect, "statement": statement})
    else:
        terminal.line(statement.rstrip())
    return None


def merge(
    terminal: Terminal,
    url: Url,
    table: Annotated[
        list[str] | None, typer.Option("--table", help="Only this staging table; may be repeated.")
    ] = None,
    start: Annotated[str | None, typer.Option("--from", help="Events since this time, instead of new rows.")] = None,
    end: Annotated[str | None, typer.Option("--to", help="Events before this time, instead of new rows.")] = None,
    every: Annotated[str | None, typer.Option("--every", help="Again and again, for instance 5m.")] = None,
    keep: Annotated[
        str | None, typer.Option("--keep", help="Delete merged staging rows of events older than this, such as 90d.")
    ] = None,
) -> Exit | None:
    """Merge staging rows into log_dataset_instance_load_status: what is new, or a range of time."""
    from penstock.service.staging import merge_load_status

    between, pause, kept = (_time(start), _time(end)), _seconds(every), _seconds(keep)
    if pause is not None and pause < 1:
        raise ConfigError("--every is a second at least", received=every)
    while True:
        try:
            run, deleted = merge_load_status(url, table or [], *between, kept)
            _show_merge(terminal, run, deleted, streamed=pause is not None)
        except Unavailable as error:
            if pause is None:
                raise
            terminal.note(f"waiting: {error}")
        if pause is None:
            return None
        time.sleep(pause)


def _seconds(text: str | None) -> float | None:
    from penstock.core.durations import parse_duration

    try:
        return None if text is None else parse_duration(text)
    except ValueError as error:
        raise ConfigError(str(error), received=text) from None


def _time(text: str | None) -> int | None:
    from penstock.core.clock import parse_time

    if text is None or text.isdecimal():
        return None if text is None else int(text)
    try:
        return parse_time(text)
    except ValueError as error:
        raise ConfigError(str(error), received=text) from None


def _show_merge(terminal: Terminal, run: MergeRun, deleted: int, *, streamed: bool) -> None:
    if terminal.as_json:
        (terminal.data_line if streamed else terminal.data)(run.as_dict() | {"deleted": deleted})
        return
    text = f"{run.rows_read} rows read, {run.inserted} inserted, {run.updated} updated"
    text += f", {run.refused} refused by the database" if run.refused else ""
    terminal.line(text + (f", {deleted} staging rows deleted" if deleted else ""))
