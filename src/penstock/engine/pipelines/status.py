"""How a pipeline does, as status and console show it: its state, and why."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from penstock.config.spec import PipelineSpec
from penstock.core.backoff import Backoff
from penstock.core.secrets import Scrubber
from penstock.core.status import State
from penstock.engine.pipelines.context import EngineContext
from penstock.engine.pipelines.planner import Planned
from penstock.pipeline.messages import Blueprint

log = structlog.get_logger("penstock.pipeline")


class Shown(Planned):
    """The part of a flow that says how it does."""

    def __init__(self, spec: PipelineSpec, blueprint: Blueprint, around: EngineContext, *, pinned: bool) -> None:
        super().__init__(spec, blueprint, around, pinned=pinned)
        self.state: State = "starting"
        self.reason: str | None = None
        self.stale: str | None = None
        """Why a newer version of its file is not used."""
        self._scrub: Callable[[str], str] = Scrubber(spec.secrets).scrub
        self._joining = Backoff()
        """Of the group: joining it failed, or something broke while in it."""

    @property
    def said(self) -> str | None:
        """The reason of its state, and what else a person should know."""
        stale = f"it goes on as it was, for its file cannot be used: {self.stale}" if self.stale else None
        return "; ".join(text for text in (self.reason, stale) if text) or None

    def say(self, state: State, reason: str | None = None) -> None:
        # I8: what a plug-in says while it is made has not been through the worker's hands.
        reason = self._scrub(reason) if reason else None
        if (state, reason) != (self.state, self.reason):
            self.state, self.reason = state, reason
            self.around.metrics.set_state(self.name, state)
            log.info("pipeline state", pipeline=self.name, state=state, **({"reason": reason} if reason else {}))

    def _show_membership(self) -> None:
        if self.state == "failed":
            return
        trouble = self.membership.trouble() or next(
            (own.blocked_by for own in list(self.membership.owned.values()) if own.blocked_by), None
        )
        if trouble:
            self.say("waiting", trouble)
        elif not (self._outage.failures or self.units.trouble.failures or self._joining.failures):
            self.say(
                "idle" if self.warmth.is_cold or not self.membership.owned else "running",
                self.membership.remark(),
            )
