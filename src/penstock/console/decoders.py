"""The decoder report: what every decoder makes of a record, and why those that fail do."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.console.parts import box, chip, plain, text
from penstock.service.operations.topics import DecoderAttempt


def show_attempts(attempts: Sequence[DecoderAttempt]) -> None:
    """The pipeline's own decoder first, then those that succeed."""
    for tried in attempts:
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
