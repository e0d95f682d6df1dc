"""`penstock topics`: list, create, produce, tail."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.command import command
from penstock.cli.exits import Exit
from penstock.cli.terminal import Terminal
from penstock.core.errors import ConfigError
from penstock.core.event import Headers
from penstock.core.visible import one_line

if TYPE_CHECKING:
    from penstock.service.topics import Topics

Bootstrap = Annotated[str | None, typer.Option("--bootstrap", "-b", help="The cluster, as HOST:PORT[,HOST:PORT…].")]
Config = Annotated[Path | None, typer.Option("--config", "-c", help="A pipeline file; its connection is used.")]
Topic = Annotated[str, typer.Argument(help="Name of the topic.")]


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Topics of a cluster.", no_args_is_help=True)
    for name, body in (("list", list_topics), ("create", create), ("produce", produce), ("tail", tail)):
        command(group, name)(body)
    app.add_typer(group, name="topics")


def _topics(bootstrap: str | None, config: Path | None) -> Topics:
    from penstock.service.topics import Topics, connection_of
    from penstock.service.validation import load_specs

    return Topics(connection_of(bootstrap, load_specs([config]) if config else []))


def list_topics(
    terminal: Terminal,
    bootstrap: Bootstrap = None,
    config: Config = None,
    internal: Annotated[bool, typer.Option("--internal", help="Also the ones of Kafka itself.")] = False,
) -> Exit | None:
    """List topics with their partitions and the records they hold."""
    found = _topics(bootstrap, config).list(internal=internal)
    if terminal.as_json:
        terminal.data([asdict(view) for view in found])
    else:
        terminal.table(("TOPIC", "PARTITIONS", "RECORDS"), ((v.topic, v.partitions, v.records) for v in found))
    return None


def create(
    terminal: Terminal,
    topic: Topic,
    bootstrap: Bootstrap = None,
    config: Config = None,
    partitions: Annotated[int, typer.Option("--partitions", "-p", min=1)] = 1,
    replication: Annotated[int, typer.Option("--replication", min=-1, help="-1: what the cluster is set to.")] = -1,
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="A topic setting, such as cleanup.policy=compact.")
    ] = None,
) -> Exit | None:
    """Create a topic."""
    _topics(bootstrap, config).create(topic, partitions, replication, _pairs(setting or [], "--set"))
    if terminal.as_json:
        terminal.data({"topic": topic, "partitions": partitions})
    else:
        terminal.line(f"created {topic} with {partitions} partition{'' if partitions == 1 else 's'}")
    return None


def produce(
    terminal: Terminal,
    topic: Topic,
    values: Annotated[
        list[str] | None, typer.Argument(help="One record each; none: a record per line of standard input.")
    ] = None,
    bootstrap: Bootstrap = None,
    config: Config = None,
    key: Annotated[str | None, typer.Option("--key", "-k", help="Key of every record.")] = None,
    header: Annotated[list[str] | None, typer.Option("--header", help="NAME=VALUE; may be repeated.")] = None,
    tombstone: Annotated[bool, typer.Option("--tombstone", help="One record without a value.")] = False,
) -> Exit | None:
    """Produce records, and wait until the cluster has them."""
    if tombstone and values:
        raise ConfigError("a tombstone has no value", received=values[0])
    headers: Headers = [(name, value.encode()) for name, value in _pair_list(header or [], "--header")]
    given: Any = [None] if tombstone else (value.encode() for value in values or _lines())
    encoded = key.encode() if key is not None else None
    placed = _topics(bootstrap, config).produce(topic, given, encoded, headers)
    if terminal.as_json:
        terminal.data([{"topic": topic, "partition": partition, "offset": offset} for partition, offset in placed])
    else:
        terminal.line(f"produced {len(placed)} record{'' if len(placed) == 1 else 's'} to {topic}")
    return None


def tail(
    terminal: Terminal,
    topic: Topic,
    bootstrap: Bootstrap = None,
    config: Config = None,
    from_start: Annotated[bool, typer.Option("--from-start", help="Begin with the oldest record.")] = False,
    last: Annotated[int, typer.Option("--last", "-n", min=0, help="Begin with the last N of each partition.")] = 10,
    count: Annotated[int | None, typer.Option("--count", min=1, help="End after so many records.")] = None,
    seconds: Annotated[float | None, typer.Option("--seconds", min=0, help="End after so many seconds.")] = None,
) -> Exit | None:
    """Print records as they come, one line each; with --json, one JSON document per line."""
    from penstock.core.deadline import Deadline
    from penstock.service.topics import record_as_dict

    deadline = None if seconds is None else Deadline.after(seconds)
    records = _topics(bootstrap, config).tail(topic, from_start=from_start, last=last, deadline=deadline)
    for number, record in enumerate(records, 1):
        shown = record_as_dict(record)
        if terminal.as_json:
            terminal.data_line(shown)
        else:
            key = "" if shown["key"] is None else f" {one_line(_text(shown['key']))}"
            place = f"{shown['topic']}/{shown['partition']}@{shown['offset']}"
            terminal.line(f"{place}{key}  {one_line(_text(shown['value']))}")
        if count is not None and number >= count:
            break
    return None


def _text(value: str | dict[str, str] | None) -> str:
    if value is None:
        return "(null)"
    return value if isinstance(value, str) else f"base64:{value['base64']}"


def _lines() -> list[str]:
    return [line.rstrip("\n") for line in sys.stdin if line.strip()]


def _pair_list(written: list[str], option: str) -> list[tuple[str, str]]:
    pairs = []
    for text in written:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise ConfigError(f"{option} wants NAME=VALUE", received=text)
        pairs.append((name, value))
    return pairs


def _pairs(written: list[str], option: str) -> dict[str, str]:
    return dict(_pair_list(written, option))
