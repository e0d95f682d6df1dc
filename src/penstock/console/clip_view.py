"""Inputs and results of runs, as text."""

from __future__ import annotations

from penstock.console import words
from penstock.console.parts import link, note, plain
from penstock.service.operations.work_order_models import DataclipView


def show_clip(clip: DataclipView | None, order_id: str) -> None:
    """What is in a dataclip, or why that cannot be shown."""
    if clip is None:
        plain("(it is not there any more)")
    elif clip.wiped_at is not None:
        plain(f"(wiped on {words.moment_of(clip.wiped_at)})")
    elif clip.cut:
        plain("(too large to be shown here)")
        link("All of it", f"/api/v1/work-orders/{order_id}/dataclips/{clip.id}").props("download")
    else:
        if clip.masked:
            note("Fields of it are masked by a rule of this installation.")
        plain(words.json_text(clip.body))
