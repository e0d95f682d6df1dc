"""The decoder report: what every decoder makes of a record, and why those that fail do."""

from __future__ import annotations

from penstock.config.spec import PipelineSpec
from penstock.console.frame import Visit
from penstock.console.parts import box, chip, plain, text
from penstock.core.event import Record


async def show_decoders(visit: Visit, record: Record, spec: PipelineSpec | None) -> None:
    """The pipeline's own decoder first, then those that succeed."""
    if record.value() is None:
        text("The value is null: there is nothing to decode.", "muted")
        return
    for tried in await visit.ask(visit.data.decoders, record, spec):
        with box("card"):
            with box("card-head"):
                text(tried.decoder, "mono")
                chip("decoded" if tried.why is None else "failed", "good" if tried.why is None else "rest")
                if tried.configured:
                    text("the pipeline's own", "muted small")
            with box("card-body"):
                if tried.why is not None:
                    text(tried.why, "wrap")
                else:
                    plain(tried.value or "")
