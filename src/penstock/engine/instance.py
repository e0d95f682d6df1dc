"""An instance: Spark, lanes and all its pipelines, from start to stop."""

from __future__ import annotations

import os
import re
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

import structlog

from penstock.act.registry import action_class
from penstock.config.settings import Settings
from penstock.config.spec import PipelineSpec
from penstock.core.errors import PenstockError
from penstock.core.metrics import Metrics
from penstock.core.status import PipelineSummary
from penstock.engine.books import PipelineView
from penstock.engine.dispatcher import Dispatcher
from penstock.engine.doorbell import Doorbell
from penstock.engine.flow import Flow, Surround
from penstock.engine.publisher import Publisher
from penstock.engine.spark import Spark
from penstock.kafka.admin import ClusterView
from penstock.kafka.client import KafkaClientConfig
from penstock.store import StateRow, Store
from penstock.worker.protocol import Blueprint, Partition

log = structlog.get_logger("penstock.instance")

_PINNED_AT_MOST = 8
"""Lanes of their own for class plug-ins; each is a process of some 80 MB. Further ones share."""
_COLD_AFTER = 60.0


class Instance:
    """One running Penstock: a Spark driver and a member of each pipeline's group."""

    def __init__(
        self,
        specs: Sequence[PipelineSpec],
        settings: Settings,
        store: Store,
        metrics: Metrics,
        *,
        version: str,
        invalid: Sequence[StateRow] = (),
        output: str | None = None,
    ) -> None:
        self.id = f"{os.uname().nodename}-{os.getpid()}-{uuid.uuid4().hex[:6]}"
        self.settings = settings
        self.store = store
        self.metrics = metrics
        self._clusters: dict[object, ClusterView] = {}
        self._doorbells: dict[object, Doorbell] = {}
        self._invalid = [_of_instance(row, self.id) for row in invalid]
        pinned = {spec.name for spec in specs if not _parallel_safe(spec)}
        cores = os.cpu_count() or 1
        engine = settings.engine
        sizes = {
            "carpool": engine.carpool_lanes or min(cores, 4),
            "hot": cores if engine.hot_lanes is None else engine.hot_lanes,
            "express": 1,
            "pinned": min(
                _pinned_lanes(specs, pinned), _PINNED_AT_MOST if engine.pinned_lanes is None else engine.pinned_lanes
            ),
        }
        if pinned and not sizes["pinned"]:
            sizes["pinned"] = 1
        self.spark = Spark(
            master=settings.spark.master,
            conf=settings.spark.conf,
            home=settings.home,
            slots=sum(sizes.values()) + 1,
            driver_output=output,
        )
        self.dispatcher = Dispatcher(self.spark, metrics, **sizes)
        self.flows = [self._flow(spec, pinned=spec.name in pinned) for spec in specs]
        self._publisher = Publisher(self.id, version, store, metrics, self.flows, self._invalid)

    def _flow(self, spec: PipelineSpec, *, pinned: bool) -> Flow:
        client = KafkaClientConfig.of(spec.source.config.connection)
        for warning in client.warnings:
            log.warning(warning, pipeline=spec.name)
        cluster = self._clusters.setdefault(client.identity, None) or ClusterView(client)  # type: ignore[arg-type]  # filled just below
        self._clusters[client.identity] = cluster
        if client.identity not in self._doorbells:
            self._doorbells[client.identity] = Doorbell(client)
        around = Surround(
            instance=self.id,
            store=self.store,
            dispatcher=self.dispatcher,
            cluster=cluster,
            doorbell=self._doorbells[client.identity],
            metrics=self.metrics,
            session_timeout=self.settings.engine.session_timeout,
            cold_after=_COLD_AFTER,
        )
        return Flow(spec, Blueprint(spec, client, _folder(spec)), around, pinned=pinned)

    def start(self) -> None:
        """Spark, lanes, doorbells, then the pipelines; returns when lanes are warm and pipelines have begun to join."""
        began = time.monotonic()
        self.spark.start()
        self.dispatcher.start()
        for doorbell in self._doorbells.values():
            doorbell.start()
        for flow in self.flows:
            flow.start()
        self._publisher.start()
        log.info(
            "instance started", instance=self.id, pipelines=len(self.flows), seconds=round(time.monotonic() - began, 1)
        )

    def stop(self) -> None:
        """Finish what is under way, commit it, close actions, leave the groups; within `stop_timeout`."""
        end = time.monotonic() + self.settings.engine.stop_timeout
        for flow in self.flows:
            flow.stop()
        for flow in self.flows:
            if flow.started and not flow.wait_ended(max(0.1, end - time.monotonic())):
                log.warning("pipeline did not stop in time", pipeline=flow.name)
        for doorbell in self._doorbells.values():
            doorbell.stop()
        self.dispatcher.stop(max(1.0, end - time.monotonic()))
        if self._publisher.is_alive():
            self._publisher.stop()
        self.spark.stop()
        log.info("instance stopped", instance=self.id)

    def snapshot(self) -> list[PipelineView]:
        """Every pipeline as this instance sees it now."""
        views = [PipelineView(name=row.pipeline, state=row.state, reason=row.reason) for row in self._invalid]
        for flow in self.flows:
            done = flow.books.summary()
            with flow.lock:
                lag = flow.membership.lag() if flow.membership.settled else None
            views.append(
                PipelineView(
                    name=flow.name,
                    state=flow.state,
                    reason=flow.reason,
                    events=done.events,
                    acted=done.acted,
                    filtered=done.filtered,
                    failed=done.failed,
                    rate=flow.books.rate(),
                    p50_ms=done.p50_ms,
                    p99_ms=done.p99_ms,
                    lag=lag,
                    dead_letters=done.failed,
                    temperature=flow.temperature,
                )
            )
        return views

    def summary(self) -> dict[str, PipelineSummary]:
        return {flow.name: flow.books.summary() for flow in self.flows}

    def ends(self) -> dict[str, dict[Partition, int]]:
        """End offsets of everything the pipelines subscribe to, for `--until-caught-up`."""
        return {flow.name: _ends(flow) for flow in self.flows}

    def caught_up(self, ends: dict[str, dict[Partition, int]]) -> bool:
        """True when all of it is finished and committed, by this instance or by others of the group."""
        return all(_caught_up(flow, ends[flow.name]) for flow in self.flows)


def _ends(flow: Flow) -> dict[Partition, int]:
    config, cluster = flow.spec.source.config, flow.around.cluster
    counts = cluster.topics()
    if config.topic_pattern:
        pattern = re.compile(config.topic_pattern)
        names = [name for name in counts if pattern.match(name)]
    else:
        names = [name for name in config.subscription if name in counts]
    marks = cluster.watermarks([(name, p) for name in names for p in range(counts[name])])
    return {tp: high for tp, (_, high) in marks.items()}


def _caught_up(flow: Flow, ends: dict[Partition, int]) -> bool:
    if flow.state == "failed":
        return True
    with flow.lock:
        owned = set(flow.membership.owned)
    if not flow.caught_up({tp: end for tp, end in ends.items() if tp in owned}):
        return False
    elsewhere = {tp: end for tp, end in ends.items() if tp not in owned}
    if not elsewhere or not flow.membership.commits:
        return True
    try:
        committed = flow.around.cluster.committed(flow.spec.group, sorted(elsewhere))
    except PenstockError:
        return False
    return all((committed.get(tp, (None, None))[0] or 0) >= end for tp, end in elsewhere.items())


def _parallel_safe(spec: PipelineSpec) -> bool:
    return bool(getattr(action_class(spec.action.type, spec.action.config, _folder(spec)), "parallel_safe", False))


def _pinned_lanes(specs: Sequence[PipelineSpec], pinned: set[str]) -> int:
    return sum(spec.options.parallelism or 1 for spec in specs if spec.name in pinned)


def _folder(spec: PipelineSpec) -> str | None:
    return str(Path(spec.origin).resolve().parent) if spec.origin else None


def _of_instance(row: StateRow, instance: str) -> StateRow:
    return StateRow(pipeline=row.pipeline, instance=instance, state=row.state, reason=row.reason)
