"""Pictures of running pipelines: a live table, a line per second, the summary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from penstock.cli.terminal import Terminal
from penstock.core.visible import one_line

_STATE_STYLES = {"running": "green", "idle": "cyan", "waiting": "yellow", "paused": "yellow", "failed": "red"}


class View(Protocol):
    """What the pictures show of a pipeline; the engine's own views fit."""

    @property
    def name(self) -> str: ...
    @property
    def state(self) -> str: ...
    @property
    def reason(self) -> str | None: ...
    @property
    def events(self) -> int: ...
    @property
    def acted(self) -> int: ...
    @property
    def filtered(self) -> int: ...
    @property
    def failed(self) -> int: ...
    @property
    def rate(self) -> float: ...
    @property
    def p50_ms(self) -> float | None: ...
    @property
    def p99_ms(self) -> float | None: ...
    @property
    def lag(self) -> int | None: ...


def picture(
    views: Sequence[View], samples: Sequence[tuple[str, str]], elapsed: float, address: str | None
) -> RenderableType:
    """The live picture."""
    table = Table(expand=True, box=None, header_style="bold")
    table.add_column("pipeline")
    table.add_column("state")
    for column in ("events/s", "p50 ms", "p99 ms", "lag", "acted", "filtered", "failed"):
        table.add_column(column, justify="right")
    for view in views:
        table.add_row(*_cells(view))
    done = Table.grid(padding=(0, 2))
    for name, line in samples:
        done.add_row(Text(name, style="bold"), Text(one_line(line), no_wrap=True, overflow="ellipsis"))
    where = f"  console: {address}" if address else ""
    title = Text(f"Penstock demo, {elapsed:.0f} s{where}  (Ctrl-C ends it)")
    return Group(
        Panel(table, title=title), Panel(done, title="what the actions did last", height=max(3, len(samples) + 2))
    )


def _cells(view: View) -> list[Text]:
    state = view.state if not view.reason else f"{view.state}: {one_line(view.reason)}"
    figures = [f"{view.rate:,.0f}", _ms(view.p50_ms), _ms(view.p99_ms), "" if view.lag is None else f"{view.lag:,}"]
    counts = [f"{view.acted:,}", f"{view.filtered:,}"]
    return [
        Text(one_line(view.name), style="bold"),
        Text(state, style=_STATE_STYLES.get(view.state, "")),
        *(Text(cell) for cell in figures + counts),
        Text(f"{view.failed:,}", style="red" if view.failed else ""),
    ]


def _ms(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def one_second(views: Sequence[View], elapsed: float) -> str:
    """One line for logs and pipes."""
    parts = [
        f"{v.name} {v.state} {v.rate:.0f}/s p50={_ms(v.p50_ms) or '-'} p99={_ms(v.p99_ms) or '-'}ms"
        f" lag={'-' if v.lag is None else v.lag} failed={v.failed}"
        for v in views
    ]
    return f"{elapsed:5.1f}s  " + " | ".join(parts)


def show_summary(terminal: Terminal, summary: dict[str, Any]) -> None:
    """The summary as a table."""
    rows = []
    for name, each in summary["pipelines"].items():
        latency = each["latency_ms"]
        counts = (each["events"], each["acted"], each["filtered"], each["failed"])
        rows.append((name, *counts, latency["p50"], latency["p99"]))
    terminal.table(("PIPELINE", "EVENTS", "ACTED", "FILTERED", "FAILED", "P50 MS", "P99 MS"), rows)
