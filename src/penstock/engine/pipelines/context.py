"""What all pipelines of an instance share."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.core.metrics import Metrics
from penstock.engine.desired_state import DesiredStateSync
from penstock.engine.lanes.dispatcher import Dispatcher
from penstock.engine.lanes.idle_watcher import IdleWatcher
from penstock.engine.pipelines.activity import IdlePolicy
from penstock.engine.taps import Taps
from penstock.kafka.admin import ClusterView
from penstock.store import Store


@dataclass(slots=True, frozen=True, kw_only=True)
class EngineContext:
    """What a flow shares with the other flows of the instance."""

    instance: str
    store: Store
    control: DesiredStateSync
    dispatcher: Dispatcher
    cluster: ClusterView
    doorbell: IdleWatcher
    metrics: Metrics
    taps: Taps
    session_timeout: float
    season: IdlePolicy
