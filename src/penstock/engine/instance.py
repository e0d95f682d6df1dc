"""An instance: Spark, lanes and all its pipelines, from start to stop."""

from __future__ import annotations

import hashlib
import os
import sys
import threading
import time
import uuid
from collections.abc import Sequence
from dataclasses import replace

import structlog

from penstock.config.settings import Settings
from penstock.config.spec import PipelineSpec
from penstock.core.errors import ConfigError, PenstockError
from penstock.core.memory import collect_rarely
from penstock.core.metrics import Metrics
from penstock.core.status import PipelineSummary
from penstock.engine.cluster_monitor import ClusterMonitor
from penstock.engine.desired_state import DesiredStateSync
from penstock.engine.lanes.dispatcher import Dispatcher
from penstock.engine.lanes.idle_watcher import IdleWatcher
from penstock.engine.lanes.lane import LaneSizes
from penstock.engine.pipelines.activity import IdlePolicy
from penstock.engine.pipelines.blueprint import blueprint_of, parallel_safe
from penstock.engine.pipelines.context import EngineContext
from penstock.engine.pipelines.external import NullCluster
from penstock.engine.pipelines.runner import PipelineRunner
from penstock.engine.pipelines.stats import PipelineView
from penstock.engine.runs.scheduler import RunScheduler, StoredRuns
from penstock.engine.spark.context import Spark
from penstock.engine.status_publisher import Publisher
from penstock.engine.taps import Taps
from penstock.kafka.admin import ClusterView
from penstock.kafka.client import KafkaClientConfig
from penstock.pipeline.messages import Partition
from penstock.store import StateRow, Store

log = structlog.get_logger("penstock.instance")


class Instance:
    """One running Penstock: a Spark driver and a member of each pipeline's group."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        metrics: Metrics,
        spark: Spark,
        *,
        version: str,
        http_address: str | None = None,
    ) -> None:
        self.id = f"{os.uname().nodename}-{os.getpid()}-{uuid.uuid4().hex[:6]}"
        self.settings = settings
        self.store = store
        self.metrics = metrics
        metrics.info.labels(version).set(1)
        store.database.observe = metrics.observe_store
        metrics.positions.of = lambda: [(flow.name, flow.partitions()) for flow in list(self.flows)]
        self.flows: list[PipelineRunner] = []
        self.invalid: list[StateRow] = []
        self.stopped_cleanly = True
        """False: a pipeline was still at work when the time for its stop was over."""
        self.taps = Taps()
        self._season = IdlePolicy()
        self._clusters: dict[object, ClusterView] = {}
        self._doorbells: dict[object, IdleWatcher] = {}
        self._started = self._over = False
        self._changing = threading.Lock()
        """Pipelines come and go by several threads."""
        self.spark = spark
        self.dispatcher = Dispatcher(self.spark, metrics, settings.engine.session_timeout)
        self.runs = RunScheduler(self.id, settings, StoredRuns(store), spark, metrics)
        self.control = DesiredStateSync(self.id, store, metrics, lambda: list(self.flows))
        self._publisher = Publisher(self, version, http_address)
        self._watch = ClusterMonitor(lambda: list(self.flows))

    def start(self) -> None:
        """Spark and its lanes, then the pipelines added so far; returns when lanes are warm and pipelines have begun
        to join."""
        began = time.monotonic()
        # A hundred threads commit at once while a lane waits for its turn: five milliseconds each would add up.
        sys.setswitchinterval(0.001)
        self.spark.start()
        sizes = LaneSizes.local if self.spark.is_local else LaneSizes.cluster
        self.dispatcher.start(sizes(self.settings.engine, self.spark.cores))
        self._started = True
        collect_rarely()
        # Before any flow joins its group: one that should not run is not begun.
        self.control.read()
        self.control.start()
        for doorbell in self._doorbells.values():
            doorbell.start()
        for flow in self.flows:
            flow.start()
        self.runs.start()
        self._publisher.start()
        self._watch.start()
        log.info(
            "instance started", instance=self.id, pipelines=len(self.flows), seconds=round(time.monotonic() - began, 1)
        )

    def add(self, spec: PipelineSpec) -> PipelineRunner:
        """Take a pipeline in, in place of the one of its name; it starts with the instance, or at once.

        One that cannot be made raises, and leaves the one of its name alone.
        """
        flow = self._flow(spec)
        if any(other.name == spec.name for other in self.flows):
            # It goes on under its name, and so do its series: what the breaker holds, it holds by the new file, too.
            self._leave(spec.name)
        with self._changing:
            # Whoever takes a pipeline in may have been held up until the instance was told to stop.
            if not self._over:
                self.flows = [*self.flows, flow]
                if self._started:
                    flow.start()
        return flow

    def _flow(self, spec: PipelineSpec) -> PipelineRunner:
        client = KafkaClientConfig.of(spec.source.config.connection)
        for warning in client.warnings:
            log.warning(warning, pipeline=spec.name)
        if spec.source.is_foreign and not self.spark.is_local:
            raise ConfigError(
                f"a source of type {spec.source.type!r} lives in one process, which a cluster cannot promise",
                received=spec.source.type,
                allowed=["kafka"],
                hint="run this pipeline in an instance with a local Spark master",
            )
        around = EngineContext(
            instance=self.id,
            store=self.store,
            control=self.control,
            dispatcher=self.dispatcher,
            cluster=NullCluster() if spec.source.is_foreign else self._cluster(client),
            doorbell=IdleWatcher(client) if spec.source.is_foreign else self._doorbell(client),
            metrics=self.metrics,
            taps=self.taps,
            session_timeout=self.settings.engine.session_timeout,
            season=self._season,
        )
        blueprint = blueprint_of(spec, client)
        if spec.source.is_foreign:
            digest = hashlib.sha256(spec.name.encode()).hexdigest()[:16]
            blueprint = replace(blueprint, deaths=self.spark.in_flight_log(f"deaths-{digest}"))
        pinned = spec.source.is_foreign or not parallel_safe(spec)
        return PipelineRunner(spec, blueprint, around, pinned=pinned)

    def _cluster(self, client: KafkaClientConfig) -> ClusterView:
        with self._changing:
            if client.identity not in self._clusters:
                self._clusters[client.identity] = ClusterView(client)
            return self._clusters[client.identity]

    def _doorbell(self, client: KafkaClientConfig) -> IdleWatcher:
        with self._changing:
            if client.identity not in self._doorbells:
                doorbell = self._doorbells[client.identity] = IdleWatcher(client)
                if self._started:
                    doorbell.start()
            return self._doorbells[client.identity]

    def remove(self, name: str) -> None:
        """Stop one pipeline: what is under way is finished and committed, then it leaves its group."""
        self._leave(name)
        self.metrics.forget(name)

    def _leave(self, name: str) -> None:
        gone = [flow for flow in self.flows if flow.name == name]
        self._end(gone, self.settings.engine.stop_timeout)
        with self._changing:
            self.flows = [flow for flow in self.flows if flow not in gone]

    def _end(self, flows: Sequence[PipelineRunner], timeout: float) -> None:
        end = time.monotonic() + timeout
        for flow in flows:
            flow.stop()
        for flow in flows:
            if flow.started and not flow.wait_ended(max(0.1, end - time.monotonic())):
                self.stopped_cleanly = False
                log.warning("pipeline did not stop in time", pipeline=flow.name)

    def stop(self, within: float | None = None) -> None:
        """Finish what is under way, commit it, close actions, leave the groups; within `stop_timeout`."""
        timeout = self.settings.engine.stop_timeout if within is None else within
        end = time.monotonic() + timeout
        with self._changing:
            self._over = True
        self._end(self.flows, timeout)
        if self._started and not self.runs.stop(max(1.0, end - time.monotonic())):
            self.stopped_cleanly = False
            log.warning("runs did not end in time")
        self.control.stop()
        self._watch.stop()
        for doorbell in self._doorbells.values():
            doorbell.stop()
        self.dispatcher.stop(max(1.0, end - time.monotonic()))
        if self._publisher.is_alive():
            self._publisher.stop()
        self.spark.stop(max(5.0, end - time.monotonic()))
        log.info("instance stopped", instance=self.id)

    def snapshot(self) -> list[PipelineView]:
        """Every pipeline as this instance sees it now."""
        views = [PipelineView(name=row.pipeline, state=row.state, reason=row.reason) for row in self.invalid]
        for flow in list(self.flows):
            done = flow.books.summary()
            with flow.lock:
                lag = flow.membership.lag() if flow.membership.settled else None
            views.append(
                PipelineView(
                    name=flow.name,
                    state=flow.state,
                    reason=flow.said,
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

    def troubles(self) -> list[str]:
        """What is wrong with what all pipelines need."""
        found = [trouble] if (trouble := self._publisher.trouble) else []
        return [*found, "Spark's JVM has ended"] if self.spark.died else found

    def failed_everywhere(self) -> set[str]:
        """Pipelines that no instance runs until a person says so; another one could run those that failed here only."""
        return {flow.name for flow in list(self.flows) if flow.wanted.state == "failed"}

    def summary(self) -> dict[str, PipelineSummary]:
        return {flow.name: flow.books.summary() for flow in self.flows}

    def ends(self) -> dict[str, dict[Partition, int]]:
        """End offsets of everything the pipelines subscribe to, for `--until-caught-up`."""
        return {flow.name: _ends(flow) for flow in self.flows}

    def caught_up(self, ends: dict[str, dict[Partition, int]]) -> bool:
        """True when all of it is finished and committed, by this instance or by others of the group."""
        return all(_caught_up(flow, ends[flow.name]) for flow in self.flows)


def _ends(flow: PipelineRunner) -> dict[Partition, int]:
    config, cluster = flow.spec.source.config, flow.around.cluster
    counts = cluster.topics()
    names = config.subscribed(counts)
    marks = cluster.watermarks([(name, p) for name in names for p in range(counts[name])])
    return {tp: high for tp, (_, high) in marks.items()}


def _caught_up(flow: PipelineRunner, ends: dict[Partition, int]) -> bool:
    if flow.halted:
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
