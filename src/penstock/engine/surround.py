"""What all pipelines of an instance share."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.core.metrics import Metrics
from penstock.engine.control import Control
from penstock.engine.dispatcher import Dispatcher
from penstock.engine.doorbell import Doorbell
from penstock.engine.taps import Taps
from penstock.engine.warmth import Season
from penstock.kafka.admin import ClusterView
from penstock.store import Store


@dataclass(slots=True, frozen=True, kw_only=True)
class Surround:
    """What a flow shares with the other flows of the instance."""

    instance: str
    store: Store
    control: Control
    dispatcher: Dispatcher
    cluster: ClusterView
    doorbell: Doorbell
    metrics: Metrics
    taps: Taps
    session_timeout: float
    season: Season
