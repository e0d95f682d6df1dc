"""Action classes as users of DataHub Actions write them; both sides load this file, unchanged."""

from __future__ import annotations

import time
from typing import Any

from datahub_actions.action.action import Action
from datahub_actions.event.event_envelope import EventEnvelope
from datahub_actions.pipeline.pipeline_context import PipelineContext

from bench.datahub import acts


class _Noting(Action):
    @classmethod
    def create(cls, config_dict: dict[str, Any], ctx: PipelineContext) -> Action:  # noqa: ARG003 - the contract
        return cls()

    def close(self) -> None:
        # The sink writes five times a second; what it holds must be on disk before the process ends.
        time.sleep(0.5)


class Changed(_Noting):
    def act(self, event: EventEnvelope) -> None:
        acts.changed(event)


class Logged(_Noting):
    def act(self, event: EventEnvelope) -> None:
        acts.logged(event)


class Marked(_Noting):
    def act(self, event: EventEnvelope) -> None:
        acts.marked(event)


class Timed(_Noting):
    def act(self, event: EventEnvelope) -> None:
        acts.timed(event)
