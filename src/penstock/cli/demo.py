"""`penstock demo`: actions, a table and a workflow on an embedded broker, as a live picture."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.command import command
from penstock.cli.exits import Exit
from penstock.cli.terminal import Terminal

if TYPE_CHECKING:
    from penstock.engine.instance import Instance
    from penstock.engine.pipelines.stats import PipelineView
    from penstock.service.demo import Demo

_FIRST_EVENTS = 60.0
"""Seconds after which the demo's time runs even if a pipeline has met no event: something is wrong then."""


def register(app: typer.Typer) -> None:
    command(app, "demo")(demo)


def demo(
    terminal: Terminal,
    seconds: Annotated[float | None, typer.Option(min=1, help="End by itself after so many seconds of events.")] = None,
    rate: Annotated[float, typer.Option(min=1, max=20_000, help="Events per second that are made.")] = 300,
) -> Exit | None:
    """Watch actions, a table and a workflow work on made-up events; needs nothing but Java."""
    from penstock.cli.picture import show_summary
    from penstock.cli.running import run_with_server
    from penstock.service.demo import Demo
    from penstock.service.stopping import Stop
    from penstock.service.warm_up import begin_spark

    # Whoever ends it while it starts leaves no broker and no folder behind either.
    with Stop() as stop, Demo(rate) as stage:
        watcher = _Watcher(terminal, stage, seconds, stop.asked)
        watcher.introduce()
        ended = run_with_server(
            stage.settings(),
            [stage.pipelines],
            on_address=watcher.at_address,
            on_ready=watcher.begin,
            stop=watcher.stop,
            spark=begin_spark(stage.settings(), quiet_output=True),
        )
        watcher.end()
    pipelines = {Demo.title(name): each for name, each in ended.summary["pipelines"].items()}
    summary = ended.summary | {"pipelines": pipelines}
    if terminal.as_json:
        terminal.data(summary)
    else:
        show_summary(terminal, summary)
    return ended.code


class _Watcher:
    """Draws once a second beside the running instance, and stops it when the time is over."""

    def __init__(self, terminal: Terminal, stage: Demo, seconds: float | None, stop: threading.Event) -> None:
        self._terminal = terminal
        self._stage = stage
        self._clock = _Clock(seconds)
        self._address: str | None = None
        self._thread: threading.Thread | None = None
        self._over = threading.Event()
        self.stop = stop

    def introduce(self) -> None:
        if self._terminal.as_json:
            return
        self._terminal.line("The demo's pipelines, as files:")
        for file in self._stage.files:
            self._terminal.line(f"  {file}")
        self._terminal.line("Starting Spark; this takes some seconds.")

    def at_address(self, address: str | None) -> None:
        self._address = address
        if address and not self._terminal.as_json:
            self._terminal.line(f"The console: {address}")

    def begin(self, instance: Instance) -> None:
        self._clock.start()
        self._stage.start_events()
        self._thread = threading.Thread(target=self._watch, args=(instance,), name="demo-picture", daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join(timeout=10)

    def _watch(self, instance: Instance) -> None:
        try:
            if self._terminal.is_live:
                self._live(instance)
            else:
                self._lines(instance)
        finally:
            self._stage.stop_events()
            self.stop.set()

    def _live(self, instance: Instance) -> None:
        from rich.live import Live

        from penstock.cli.picture import picture

        with Live(console=self._terminal.out, refresh_per_second=4, transient=True) as live:
            for views in self._seconds_of(instance):
                live.update(picture(views, self._stage.samples(), self._clock.elapsed, self._address))

    def _lines(self, instance: Instance) -> None:
        from penstock.cli.picture import one_second

        for views in self._seconds_of(instance):
            if not self._terminal.as_json:
                self._terminal.line(one_second(views, self._clock.elapsed))

    def _seconds_of(self, instance: Instance) -> Iterator[Sequence[PipelineView]]:
        """The pipelines once a second, until the time is over."""
        while self._clock.left > 0:
            if self._over.wait(min(1.0, self._clock.left)):
                return
            views = [replace(view, name=self._stage.title(view.name)) for view in instance.snapshot()]
            self._clock.saw(views)
            yield views


class _Clock:
    """Counts the demo's seconds, from the moment on when every pipeline has met events."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._started = time.monotonic()
        self._first: float | None = None

    def start(self) -> None:
        self._started = time.monotonic()

    @property
    def elapsed(self) -> float:
        return time.monotonic() - (self._first or self._started)

    @property
    def left(self) -> float:
        return math.inf if self._seconds is None or self._first is None else max(0.0, self._seconds - self.elapsed)

    def saw(self, views: Sequence[PipelineView]) -> None:
        if self._first is None and (all(view.events for view in views) or self.elapsed > _FIRST_EVENTS):
            self._first = time.monotonic()
