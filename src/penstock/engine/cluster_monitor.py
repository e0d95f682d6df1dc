"""Looks at the clusters for what flows cannot see: ends of partitions, topics made anew, numbers of partitions."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable

import structlog

from penstock.core.errors import PenstockError
from penstock.core.interval import IntervalGate
from penstock.engine.pipelines.runner import PipelineRunner
from penstock.kafka.admin import ClusterView
from penstock.pipeline.messages import Partition

log = structlog.get_logger("penstock.watching")

_EVERY = 1.0
_ENDS = 2.0
_COLD_ENDS = 30.0
"""A cold pipeline has no lag, or the bell would have rung."""
_TOPICS = 5.0
"""A topic that was deleted and made again in between shows by its id."""


class ClusterMonitor(threading.Thread):
    """One per instance, apart from the publisher: a cluster that is away must not make the instance look dead."""

    def __init__(self, flows: Callable[[], list[PipelineRunner]]) -> None:
        super().__init__(name="cluster-watch", daemon=True)
        self._flows = flows
        self._times = IntervalGate()
        self._done = threading.Event()

    def run(self) -> None:
        while not self._done.wait(_EVERY):
            try:
                self._look()
            except Exception:
                log.exception("watching failed; it goes on")

    def stop(self) -> None:
        """Look no more; an answer that is still awaited is nobody's concern."""
        self._done.set()

    def _look(self) -> None:
        cold_too = self._times.is_due("cold ends", _COLD_ENDS)
        if self._times.is_due("ends", _ENDS) or cold_too:
            self._ask_each_cluster(lambda cluster, flows: _take_ends(cluster, flows, cold_too=cold_too))
        if self._times.is_due("topics", _TOPICS):
            self._ask_each_cluster(_take_topics)

    def _ask_each_cluster(self, ask: Callable[[ClusterView, list[PipelineRunner]], None]) -> None:
        by_cluster: dict[int, list[PipelineRunner]] = defaultdict(list)
        for flow in self._flows():
            by_cluster[id(flow.around.cluster)].append(flow)
        for flows in by_cluster.values():
            if self._done.is_set():
                return
            try:
                ask(flows[0].around.cluster, flows)
            except PenstockError as error:
                log.debug("cluster not asked", reason=str(error))


def _take_ends(cluster: ClusterView, flows: list[PipelineRunner], *, cold_too: bool) -> None:
    wanted: set[Partition] = set()
    asked = [flow for flow in flows if cold_too or flow.temperature != "cold"]
    for flow in asked:
        with flow.lock:
            wanted.update(flow.membership.owned)
    if not wanted:
        return
    ends = cluster.find_watermarks(sorted(wanted)).found
    for flow in asked:
        with flow.lock:
            flow.membership.ends.update({tp: ends[tp][1] for tp in flow.membership.owned if tp in ends})


def _take_topics(cluster: ClusterView, flows: list[PipelineRunner]) -> None:
    topics = {topic for flow in flows for topic, _ in list(flow.membership.owned)}
    ids = cluster.topic_ids(sorted(topics)) if topics else {}
    for flow in flows:
        flow.membership.compare_topics(ids)
    limited = [flow for flow in flows if flow.rate_limit_per_second]
    counts = cluster.topics() if limited else {}
    for flow in limited:
        flow.membership.count_partitions(counts)
