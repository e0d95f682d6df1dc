"""An instance: Spark, lanes and all its pipelines, from start to stop."""

from __future__ import annotations

import hashlib
import os
import sys
import threading
import uuid
from collections.abc import Sequence
from dataclasses import replace

import structlog

from penstock.config.settings import Settings
from penstock.config.spec import PipelineSpec
from penstock.core.clock import SYSTEM, Clock
from penstock.core.deadline import Deadline
from penstock.core.errors import ConfigError, PenstockError
from penstock.core.memory import collect_rarely
from penstock.core.metrics import Metrics
from penstock.core.status import PipelineSummary, Trouble
from penstock.core.threads import THREADS, Threads
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
from penstock.engine.status_publisher import StatusPublisher
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
        clock: Clock = SYSTEM,
        threads: Threads = THREADS,
    ) -> None:
        self.id = f"{os.uname().nodename}-{os.getpid()}-{uuid.uuid4().hex[:6]}"
        self.settings, self.store, self.metrics, self.spark = settings, store, metrics, spark
        self._clock, self._threads = clock, threads
        metrics.info.labels(version).set(1)
        store.database.observe = metrics.observe_store
        metrics.positions.of = lambda: [(runner.name, runner.partition_statuses()) for runner in list(self.runners)]
        self.runners: list[PipelineRunner] = []
        self.invalid: list[StateRow] = []
        self.stopped_cleanly = True
        """False: a pipeline was still at work when the time for its stop was over."""
        self.taps = Taps(clock)
        self._idle_policy = IdlePolicy(threads=threads)
        self._clusters: dict[object, ClusterView] = {}
        self._idle_watchers: dict[object, IdleWatcher] = {}
        self._started = self._stopping = False
        self._changing = threading.Lock()
        """Pipelines are added and removed by several threads."""
        self.dispatcher = Dispatcher(spark, metrics, settings.engine.session_timeout, clock=clock, threads=threads)
        self.runs = RunScheduler(self.id, settings, StoredRuns(store), spark, metrics)
        self.desired = DesiredStateSync(self.id, store, metrics, lambda: list(self.runners), threads=threads)
        self._publisher = StatusPublisher(self, version, http_address, clock=clock, threads=threads)
        self._monitor = ClusterMonitor(lambda: list(self.runners), clock=clock, threads=threads)

    def start(self) -> None:
        """Spark and its lanes, then the pipelines added so far; returns when lanes are warm and pipelines have begun
        to join."""
        began = self._clock.monotonic()
        # A hundred threads commit at once while a lane waits for its turn: five milliseconds each would add up.
        sys.setswitchinterval(0.001)
        self.spark.start()
        sizes = LaneSizes.local if self.spark.is_local else LaneSizes.cluster
        self.dispatcher.start(sizes(self.settings.engine, self.spark.cores))
        self._started = True
        collect_rarely()
        # Before any runner joins its group: one that should not run is not begun.
        self.desired.read()
        self.desired.start()
        for watcher in self._idle_watchers.values():
            watcher.start()
        for runner in self.runners:
            runner.start()
        self.runs.start()
        self._publisher.start()
        self._monitor.start()
        seconds = round(self._clock.monotonic() - began, 1)
        log.info("instance started", instance=self.id, pipelines=len(self.runners), seconds=seconds)

    def add(self, spec: PipelineSpec) -> PipelineRunner:
        """Add a pipeline in place of the one of its name; it starts with the instance, or at once.

        One that cannot be built raises, and leaves the one of its name alone.
        """
        runner = self._runner(spec)
        if any(other.name == spec.name for other in self.runners):
            # Its metrics series go on, and so does a pause by the breaker.
            self._leave(spec.name, successor=runner)
        with self._changing:
            # The caller may have waited until the instance was stopping.
            if not self._stopping:
                self.runners = [*self.runners, runner]
                if self._started:
                    runner.start()
        return runner

    def _runner(self, spec: PipelineSpec) -> PipelineRunner:
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
        external = spec.source.is_foreign
        context = EngineContext(
            instance=self.id,
            store=self.store,
            desired=self.desired,
            dispatcher=self.dispatcher,
            cluster=NullCluster() if external else self._cluster(client),
            idle_watcher=IdleWatcher(client) if external else self._idle_watcher(client),
            metrics=self.metrics,
            taps=self.taps,
            session_timeout=self.settings.engine.session_timeout,
            idle_policy=self._idle_policy,
            clock=self._clock,
            threads=self._threads,
        )
        blueprint = blueprint_of(spec, client)
        if external:
            digest = hashlib.sha256(spec.name.encode()).hexdigest()[:16]
            blueprint = replace(blueprint, deaths=self.spark.in_flight_log(f"deaths-{digest}"))
        return PipelineRunner(spec, blueprint, context, pinned=external or not parallel_safe(spec))

    def _cluster(self, client: KafkaClientConfig) -> ClusterView:
        with self._changing:
            if client.identity not in self._clusters:
                self._clusters[client.identity] = ClusterView(client)
            return self._clusters[client.identity]

    def _idle_watcher(self, client: KafkaClientConfig) -> IdleWatcher:
        with self._changing:
            if client.identity not in self._idle_watchers:
                watcher = self._idle_watchers[client.identity] = IdleWatcher(client)
                if self._started:
                    watcher.start()
            return self._idle_watchers[client.identity]

    def remove(self, name: str) -> None:
        """Stop one pipeline: what is in flight is finished and committed, then it leaves its group."""
        self._leave(name)
        self.metrics.forget(name)

    def _leave(self, name: str, successor: PipelineRunner | None = None) -> None:
        gone = [runner for runner in self.runners if runner.name == name]
        self._end(gone, self.settings.engine.stop_timeout)
        with self._changing:
            self.runners = [runner for runner in self.runners if runner not in gone]
        self._release_clients(gone, kept=[successor] if successor is not None else [])

    def _release_clients(self, gone: Sequence[PipelineRunner], kept: Sequence[PipelineRunner]) -> None:
        """Close clients that no pipeline uses any more, after a password was rotated for instance. Those of a runner
        that did not end in time stay open: it may still use them."""
        ended = [runner for runner in gone if not runner.started or runner.wait_ended(0.0)]
        with self._changing:
            used = {id(part) for r in (*self.runners, *kept) for part in (r.context.cluster, r.context.idle_watcher)}
            done = {id(part) for r in ended for part in (r.context.cluster, r.context.idle_watcher)} - used
            clusters = [(key, cluster) for key, cluster in self._clusters.items() if id(cluster) in done]
            watchers = [(key, watcher) for key, watcher in self._idle_watchers.items() if id(watcher) in done]
            for identity, _ in clusters:
                del self._clusters[identity]
            for identity, _ in watchers:
                del self._idle_watchers[identity]
        for _, cluster in clusters:
            cluster.close()
        for _, watcher in watchers:
            watcher.stop()

    def _end(self, runners: Sequence[PipelineRunner], timeout: float) -> None:
        deadline = Deadline.after(timeout, self._clock)
        for runner in runners:
            runner.stop()
        for runner in runners:
            if runner.started and not runner.wait_ended(max(0.1, deadline.remaining)):
                self.stopped_cleanly = False
                log.warning("pipeline did not stop in time", pipeline=runner.name)

    def stop(self, within: float | None = None) -> None:
        """Finish what is in flight, commit it, close actions, leave the groups; within `stop_timeout`."""
        deadline = Deadline.after(self.settings.engine.stop_timeout if within is None else within, self._clock)
        with self._changing:
            self._stopping = True
        self._end(self.runners, deadline.remaining)
        if self._started and not self.runs.stop(max(1.0, deadline.remaining)):
            self.stopped_cleanly = False
            log.warning("runs did not end in time")
        self.desired.stop()
        self._monitor.stop()
        for watcher in self._idle_watchers.values():
            watcher.stop()
        self.dispatcher.stop(max(1.0, deadline.remaining))
        if self._publisher.is_alive:
            self._publisher.stop()
        self.spark.stop(max(5.0, deadline.remaining))
        log.info("instance stopped", instance=self.id)

    def snapshot(self) -> list[PipelineView]:
        """Every pipeline as this instance sees it now."""
        views = [PipelineView(name=row.pipeline, state=row.state, reason=row.reason) for row in self.invalid]
        for runner in list(self.runners):
            done = runner.stats.summary()
            views.append(
                PipelineView(
                    name=runner.name,
                    state=runner.state,
                    reason=runner.status.explanation,
                    events=done.events,
                    acted=done.acted,
                    filtered=done.filtered,
                    failed=done.failed,
                    rate=runner.stats.rate(),
                    p50_ms=done.p50_ms,
                    p99_ms=done.p99_ms,
                    lag=runner.lag(),
                    dead_letters=done.failed,
                )
            )
        return views

    def troubles(self) -> list[Trouble]:
        """What all pipelines need and is away: the log says why."""
        found: list[Trouble] = ["store"] if self._publisher.trouble else []
        return [*found, "spark"] if self.spark.died else found

    def failed_everywhere(self) -> set[str]:
        """Pipelines that no instance runs until a person resumes them; another one could run those that failed here
        only."""
        return {runner.name for runner in list(self.runners) if runner.desired.state == "failed"}

    def summary(self) -> dict[str, PipelineSummary]:
        return {runner.name: runner.stats.summary() for runner in self.runners}

    def ends(self) -> dict[str, dict[Partition, int]]:
        """End offsets of everything the pipelines subscribe to, for `--until-caught-up`."""
        return {runner.name: _ends(runner) for runner in self.runners}

    def caught_up(self, ends: dict[str, dict[Partition, int]]) -> bool:
        """True when all of it is finished and committed, by this instance or by others of the group."""
        return all(_caught_up(runner, ends[runner.name]) for runner in self.runners)


def _ends(runner: PipelineRunner) -> dict[Partition, int]:
    config, cluster = runner.spec.source.config, runner.context.cluster
    counts = cluster.topics()
    names = config.subscribed(counts)
    marks = cluster.watermarks([(name, p) for name in names for p in range(counts[name])])
    return {tp: high for tp, (_, high) in marks.items()}


def _caught_up(runner: PipelineRunner, ends: dict[Partition, int]) -> bool:
    if runner.is_halted:
        return True
    owned = set(runner.partitions.owned())
    if not runner.caught_up({tp: end for tp, end in ends.items() if tp in owned}):
        return False
    elsewhere = {tp: end for tp, end in ends.items() if tp not in owned}
    if not elsewhere or not runner.membership.commits:
        return True
    try:
        committed = runner.context.cluster.committed(runner.spec.group, sorted(elsewhere))
    except PenstockError:
        return False
    return all((committed.get(tp, (None, None))[0] or 0) >= end for tp, end in elsewhere.items())
