"""Pipelines that write into a database: where they stand is for its cursor to say, not for the group's offsets."""

from __future__ import annotations

from penstock.act.registry import has_cursor
from penstock.config.spec import PipelineSpec
from penstock.core.errors import ConfigError


def refuse_repeating(spec: PipelineSpec) -> None:
    """A range of the log that was written once would be written again."""
    if has_cursor(spec):
        raise ConfigError(
            f"{spec.name} writes each event into its table once; a range of them cannot be replayed",
            received=spec.name,
            hint="penstock offsets reset --reapply writes events again; dead letters can be replayed",
        )


def require_reapply(spec: PipelineSpec, *, reapply: bool) -> None:
    """Offsets that are set without the cursor would change nothing; with it, rows are written again."""
    if has_cursor(spec) and not reapply:
        raise ConfigError(
            f"{spec.name} stands where the cursor of its table stands, whatever the group's offsets are",
            received=spec.name,
            hint="--reapply (`reapply` over the API) sets the cursor too: events that are repeated are written again",
        )
    if reapply and not has_cursor(spec):
        raise ConfigError(f"{spec.name} writes into no table: its offsets are enough", hint="leave reapply out")
