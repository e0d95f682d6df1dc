"""What all pipelines of an instance share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from penstock.core.clock import SYSTEM, Clock
from penstock.core.errors import PenstockError
from penstock.core.metrics import Metrics
from penstock.core.threads import THREADS, Threads
from penstock.engine.desired_state import DesiredStateSync
from penstock.engine.lanes.dispatcher import Dispatcher
from penstock.engine.lanes.idle_watcher import IdleWatcher
from penstock.engine.pipelines.activity import IdlePolicy
from penstock.engine.taps import Taps
from penstock.kafka.admin import ClusterView
from penstock.kafka.client import KafkaClientConfig
from penstock.kafka.group_consumer import GroupConsumer, RebalanceListener
from penstock.store import Store

log = structlog.get_logger("penstock.pipeline")


class MakeGroupConsumer(Protocol):
    def __call__(
        self,
        client: KafkaClientConfig,
        group: str,
        listener: RebalanceListener,
        *,
        session_timeout: float,
        client_id: str,
    ) -> GroupConsumer: ...


@dataclass(slots=True, frozen=True, kw_only=True)
class EngineContext:
    """The parts of the instance that a runner uses. The simulation passes its own."""

    instance: str
    store: Store
    desired: DesiredStateSync
    dispatcher: Dispatcher
    cluster: ClusterView
    idle_watcher: IdleWatcher
    metrics: Metrics
    taps: Taps
    session_timeout: float
    idle_policy: IdlePolicy
    clock: Clock = SYSTEM
    threads: Threads = THREADS
    group_consumer: MakeGroupConsumer = field(default=GroupConsumer)

    def count(self, measure: Callable[[Metrics], None]) -> None:
        """Feed a metric. L3: one that raises changes nothing else."""
        try:
            measure(self.metrics)
        except Exception:
            log.exception("a metric cannot be counted")

    def note(self, pipeline: str, kind: str, text: str, gap: tuple[int, int] | None = None) -> None:
        """Write a line of the pipeline's history. L3: a store that cannot take it changes nothing else."""
        data = {"from": gap[0], "to": gap[1], "count": gap[1] - gap[0]} if gap else {}
        try:
            self.store.pipelines.note(pipeline, self.instance, kind, text, data)
        except PenstockError as error:
            log.warning("history cannot be written", pipeline=pipeline, reason=str(error))
