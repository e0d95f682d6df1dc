"""Looks at the clusters for what runners cannot see: ends of partitions, re-created topics, numbers of partitions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import structlog

from penstock.core.clock import SYSTEM, Clock
from penstock.core.errors import PenstockError
from penstock.core.interval import IntervalGate
from penstock.core.periodic import Periodic
from penstock.core.threads import THREADS, Threads
from penstock.engine.pipelines.runner import PipelineRunner
from penstock.kafka.admin import ClusterView
from penstock.pipeline.messages import Partition

log = structlog.get_logger("penstock.cluster_monitor")

_EVERY = 1.0
_ENDS = 2.0
_IDLE_ENDS = 30.0
"""An idle pipeline has no lag, or the idle watcher would have woken it."""
_TOPICS = 5.0
"""A topic that was deleted and re-created in between shows by its id."""


class ClusterMonitor:
    """One per instance, apart from the status publisher: an unavailable cluster does not delay it."""

    def __init__(
        self, runners: Callable[[], list[PipelineRunner]], *, clock: Clock = SYSTEM, threads: Threads = THREADS
    ) -> None:
        self._runners = runners
        self._times = IntervalGate(clock)
        self._stopping = False
        self._loop = Periodic("cluster-monitor", self.look, every=_EVERY, owner="ClusterMonitor", threads=threads)

    def start(self) -> None:
        self._loop.start()

    def stop(self) -> None:
        """Look no more; an answer that is still awaited is not waited for."""
        self._stopping = True
        self._loop.stop()

    def look(self) -> None:
        idle_too = self._times.is_due("idle ends", _IDLE_ENDS)
        if self._times.is_due("ends", _ENDS) or idle_too:
            self._ask_each_cluster(lambda cluster, runners: _take_ends(cluster, runners, idle_too=idle_too))
        if self._times.is_due("topics", _TOPICS):
            self._ask_each_cluster(_take_topics)

    def _ask_each_cluster(self, ask: Callable[[ClusterView, list[PipelineRunner]], None]) -> None:
        by_cluster: dict[int, list[PipelineRunner]] = defaultdict(list)
        for runner in self._runners():
            by_cluster[id(runner.context.cluster)].append(runner)
        for runners in by_cluster.values():
            if self._stopping:
                return
            try:
                ask(runners[0].context.cluster, runners)
            except PenstockError as error:
                log.debug("a cluster cannot be asked", reason=str(error))


def _take_ends(cluster: ClusterView, runners: list[PipelineRunner], *, idle_too: bool) -> None:
    wanted: set[Partition] = set()
    asked = [runner for runner in runners if idle_too or not runner.activity.is_idle]
    for runner in asked:
        wanted.update(runner.partitions.owned())
    if not wanted:
        return
    ends = cluster.find_watermarks(sorted(wanted)).found
    for runner in asked:
        with runner.partitions.lock:
            runner.partitions.ends.update({tp: ends[tp][1] for tp in runner.partitions.owned() if tp in ends})


def _take_topics(cluster: ClusterView, runners: list[PipelineRunner]) -> None:
    topics = {topic for runner in runners for topic, _ in runner.partitions.owned()}
    ids = cluster.topic_ids(sorted(topics)) if topics else {}
    for runner in runners:
        runner.membership.compare_topics(ids)
    limited = [runner for runner in runners if runner.planner.rate_limit_per_second]
    counts = cluster.topics() if limited else {}
    for runner in limited:
        runner.membership.count_partitions(counts)
