"""How a pipeline does, as status and console show it: its state, and why."""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from penstock.core.metrics import Metrics
from penstock.core.secrets import Scrubber
from penstock.core.status import State

log = structlog.get_logger("penstock.pipeline")


class StatusReporter:
    """The state of one pipeline on this instance. Written by its runner's thread, read by any."""

    def __init__(self, name: str, secrets: Iterable[str], metrics: Metrics) -> None:
        self.state: State = "starting"
        self.reason: str | None = None
        self.stale: str | None = None
        """Why a newer version of its file is not used."""
        self._name, self._metrics = name, metrics
        self._scrub = Scrubber(secrets).scrub

    @property
    def explanation(self) -> str | None:
        """The reason of its state, and what else a person should know."""
        stale = f"it goes on as it was, for its file cannot be used: {self.stale}" if self.stale else None
        return "; ".join(text for text in (self.reason, stale) if text) or None

    def report(self, state: State, reason: str | None = None) -> None:
        # I8: the message of a plug-in that cannot be created has not been scrubbed by a worker.
        reason = self._scrub(reason) if reason else None
        if (state, reason) == (self.state, self.reason):
            return
        self.state, self.reason = state, reason
        try:
            self._metrics.set_state(self._name, state)
            log.info("pipeline state", pipeline=self._name, state=state, **({"reason": reason} if reason else {}))
        except Exception:
            log.exception("a state cannot be shown", pipeline=self._name)  # L3
