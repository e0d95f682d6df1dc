"""Notices when an instance that should catch up no longer moves."""

from __future__ import annotations

import time

from penstock.core.errors import Unavailable
from penstock.engine.instance import Instance
from penstock.engine.pipelines.runner import PipelineRunner


class NoProgress(Unavailable):
    """Nothing has moved for a long time, and something is still to be done."""

    code = "no_progress"


class Progress:
    """Notices when nothing moves."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._seen: object = None
        self._moved_at = time.monotonic()

    def end_after(self, patience: float) -> None:
        """Raise `NoProgress` when nothing has moved for so many seconds."""
        seen = [_how_far(flow) for flow in self._instance.runners]
        if seen != self._seen:
            self._seen, self._moved_at = seen, time.monotonic()
        elif time.monotonic() > self._moved_at + patience:
            states = [
                f"{flow.name} is {flow.state}{_why(flow)}" for flow in self._instance.runners if not flow.is_halted
            ]
            raise NoProgress(
                f"not caught up, and nothing has moved for {patience:g} s: {'; '.join(states)}",
                hint="what is committed counts as done; --timeout sets how long to wait",
            )


def _how_far(flow: PipelineRunner) -> tuple[int, int]:
    with flow.partitions.lock:
        return flow.stats.counts.read, sum(state.position for state in flow.partitions)


def _why(flow: PipelineRunner) -> str:
    return f" ({flow.reason})" if flow.reason else ""
