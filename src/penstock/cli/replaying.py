"""Runs a replay under a progress bar, on a Spark of its own."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from penstock.cli.exits import Exit
from penstock.cli.terminal import Terminal
from penstock.config.settings import Settings
from penstock.config.spec import PipelineSpec
from penstock.core.visible import one_line
from penstock.engine.replay.replay import lane_count, lane_names
from penstock.engine.spark.context import Spark
from penstock.service.logs import configure_logs
from penstock.service.stopping import Stop
from penstock.service.warm_up import begin_spark

_REFRESH = 0.2


class Watched(Protocol):
    """A replay, as far as it is shown."""

    note: str | None

    @property
    def total(self) -> int: ...
    @property
    def done(self) -> int: ...
    @property
    def failed(self) -> bool: ...
    def run(self, spark: Spark, stop: threading.Event) -> None: ...


def run_replay(terminal: Terminal, settings: Settings, specs: Sequence[PipelineSpec], replay: Watched) -> Exit:
    """Run it to its end; Ctrl-C and SIGTERM let it end early, in good order."""
    secrets = settings.secrets.union(*(spec.secrets for spec in specs))
    configure_logs(level=settings.log.level, format=settings.log.format, secrets=secrets)
    lanes = lane_names(max(lane_count(spec, os.cpu_count() or 1) for spec in specs))
    with Stop() as asked:
        spark = begin_spark(settings, quiet_output=terminal.as_json, lanes=lanes)
        try:
            spark.start()
            asked.listen()
            with _shown(terminal, replay):
                replay.run(spark, asked.asked)
        finally:
            spark.stop()
        if asked.asked.is_set():
            return Exit.INTERRUPTED
    return Exit.FAILED if replay.failed else Exit.OK


@contextmanager
def _shown(terminal: Terminal, replay: Watched) -> Iterator[None]:
    """A bar for people; otherwise a line when it waits for something."""
    over = threading.Event()
    show = _bar if terminal.is_live else _lines
    watching = threading.Thread(target=show, args=(terminal, replay, over), name="progress", daemon=True)
    watching.start()
    try:
        yield
    finally:
        over.set()
        watching.join(5)


def _bar(terminal: Terminal, replay: Watched, over: threading.Event) -> None:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("replaying"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    note = TextColumn("{task.fields[note]}", markup=False)
    with Progress(*columns, note, console=terminal.out, transient=True) as progress:
        task = progress.add_task("replay", total=replay.total, note="")
        while not over.wait(_REFRESH):
            progress.update(
                task, completed=replay.done, note=f"waiting: {one_line(replay.note)}" if replay.note else ""
            )


def _lines(terminal: Terminal, replay: Watched, over: threading.Event) -> None:
    said: str | None = None
    while not over.wait(_REFRESH):
        if replay.note != said:
            said = replay.note
            terminal.note(f"waiting: {said}" if said else "going on")
