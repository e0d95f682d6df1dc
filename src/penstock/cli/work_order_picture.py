"""Work orders as people read them in a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock.core.event import json_bytes
from penstock.core.visible import one_line

if TYPE_CHECKING:
    from penstock.cli.terminal import Terminal
    from penstock.store.work.history_model import Count, WorkOrderRow

_FACTS = ("id", "state", "project", "workflow", "trigger", "inserted_at", "last_activity")
_SHOWN = 2_000
"""Characters of a body."""


def show_list(
    terminal: Terminal, rows: Sequence[WorkOrderRow], data: Sequence[dict[str, Any]], count: Count | None
) -> None:
    from penstock.service.work_order_shapes import total_duration_ms

    if not rows:
        terminal.line("no work orders")
        return
    columns = ("ID", "WORKFLOW", "TRIGGER", "RECEIVED", "LAST ACTIVITY", "DURATION", "STATE", "RUNS")
    shown = [
        (
            *(each["id"], f"{each['project']}/{each['workflow']}", each["trigger"]),
            *(_seconds(each["inserted_at"]), _seconds(each["last_activity"])),
            *(_duration(total_duration_ms(row.runs)), row.state, len(row.runs)),
        )
        for row, each in zip(rows, data, strict=True)
    ]
    terminal.table(columns, shown)
    if count is not None and (count.is_capped or count.number > len(rows)):
        terminal.line(f"{len(rows)} of {count.number:,}{'+' if count.is_capped else ''}; --limit and --page show more")


def show_one(terminal: Terminal, data: dict[str, Any]) -> None:
    for name in _FACTS:
        if data[name] is not None:
            terminal.line(f"{name:16} {one_line(data[name])}")
    clip = data["dataclips"].get(data["dataclip_id"])
    terminal.line(f"{'input':16} {_body(clip)}")
    for run in data["runs"]:
        terminal.line()
        terminal.line(f"{'run':16} {run['id']} {run['state']}{_because(run['error_type'])}")
        terminal.line(f"{'':16} {_seconds(run['started_at']) or 'not begun'} {_duration(run['duration_ms'])}".rstrip())
        for step in run["steps"]:
            reason = f"{step['exit_reason'] or 'at work'}{_because(step['error_type'])}"
            terminal.line(f"  {'step':14} {one_line(step['name'])}: {reason} {_duration(step['duration_ms'])}".rstrip())
        for line in run["logs"]:
            terminal.line(f"  {'log':14} {line['timestamp']} {line['level']} {one_line(line['message'])}")
        if run["has_more_logs"]:
            terminal.line(f"  {'log':14} … more: penstock work-orders export has all of them")


def show_jobs(terminal: Terminal, found: Sequence[dict[str, Any]]) -> None:
    if not found:
        terminal.line("no jobs")
        return
    columns = ("ID", "KIND", "STATE", "DONE", "SKIPPED", "TOTAL", "ASKED BY", "ASKED AT")
    names = ("id", "kind", "state", "done", "skipped", "total", "asked_by")
    terminal.table(columns, [(*(job[name] for name in names), _seconds(job["inserted_at"])) for job in found])


def _body(clip: dict[str, Any] | None) -> str:
    if clip is None:
        return "(deleted)"
    if clip["wiped_at"] is not None:
        return f"(wiped at {clip['wiped_at']})"
    text = json_bytes(clip["body"]).decode()
    return one_line(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")


def _because(error: str | None) -> str:
    return f" ({one_line(error)})" if error else ""


def _duration(millis: float | None) -> str:
    if millis is None:
        return ""
    return f"{millis:.0f} ms" if millis < 1_000 else f"{millis / 1_000:.1f} s"


def _seconds(time: str | None) -> str:
    return f"{time[:19]}Z" if time else ""
