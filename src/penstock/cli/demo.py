"""`penstock demo`: three pipelines on an embedded broker, as a live picture."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.command import command
from penstock.cli.exits import Exit
from penstock.cli.terminal import Terminal

if TYPE_CHECKING:
    from penstock.engine.instance import Instance
    from penstock.service.demo import Demo


def register(app: typer.Typer) -> None:
    command(app, "demo")(demo)


def demo(
    terminal: Terminal,
    seconds: Annotated[float | None, typer.Option(min=1, help="End by itself after so many seconds of events.")] = None,
    rate: Annotated[float, typer.Option(min=1, max=20_000, help="Events per second that are made.")] = 300,
) -> Exit | None:
    """Watch three pipelines work on made-up events; needs nothing but Java."""
    from penstock.cli.picture import show_summary
    from penstock.cli.running import run_with_server
    from penstock.service.demo import Demo

    with Demo(rate) as stage:
        watcher = _Watcher(terminal, stage, seconds)
        watcher.introduce()
        ended = run_with_server(
            stage.settings(),
            [stage.pipelines],
            on_address=watcher.at_address,
            on_ready=watcher.begin,
            stop=watcher.stop,
            quiet_output=True,
        )
        watcher.end()
    if terminal.as_json:
        terminal.data(ended.summary)
    else:
        show_summary(terminal, ended.summary)
    return ended.code


class _Watcher:
    """Draws once a second beside the running instance, and stops it when the time is over."""

    def __init__(self, terminal: Terminal, stage: Demo, seconds: float | None) -> None:
        self._terminal = terminal
        self._stage = stage
        self._seconds = seconds
        self._address: str | None = None
        self._thread: threading.Thread | None = None
        self._over = threading.Event()
        self.stop = threading.Event()

    def introduce(self) -> None:
        if self._terminal.as_json:
            return
        self._terminal.line("The demo's pipelines, as files:")
        for file in self._stage.files:
            self._terminal.line(f"  {file}")
        self._terminal.line("Starting Spark; this takes some seconds.")

    def at_address(self, address: str | None) -> None:
        self._address = address

    def begin(self, instance: Instance) -> None:
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

        begin = time.monotonic()
        with Live(console=self._terminal.out, refresh_per_second=4, transient=True) as live:
            while not self._done(begin):
                elapsed = time.monotonic() - begin
                live.update(picture(instance.snapshot(), self._stage.samples(), elapsed, self._address))

    def _lines(self, instance: Instance) -> None:
        from penstock.cli.picture import one_second

        begin = time.monotonic()
        while not self._done(begin):
            if not self._terminal.as_json:
                self._terminal.line(one_second(instance.snapshot(), time.monotonic() - begin))

    def _done(self, begin: float) -> bool:
        """Wait until the next picture is due; True when it is time to stop."""
        left = None if self._seconds is None else begin + self._seconds - time.monotonic()
        if left is not None and left <= 0:
            return True
        return self._over.wait(1.0 if left is None else min(1.0, left))
