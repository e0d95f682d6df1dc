"""The catalogue of metrics: every series that Penstock exports, fed with aggregates, never per event."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import get_args

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector

from penstock.core.latency import Latencies, upper_bound
from penstock.core.status import PartitionStatus, State

_EXPORTED = range(0, 66, 3)
"""Every third of `Latencies`' buckets: bounds from 1 ms to 18 minutes, each about twice the one before."""

_WINDOW_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 5.0, 10.0, 30.0)
_COMMIT_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)


class LatencyCollector(Collector):
    """A histogram fed with whole `Latencies`; the library's own can only be fed one value at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._series: dict[str, Latencies] = {}

    def add(self, pipeline: str, latencies: Latencies) -> None:
        with self._lock:
            self._series.setdefault(pipeline, Latencies()).merge(latencies)

    def forget(self, pipeline: str) -> None:
        with self._lock:
            self._series.pop(pipeline, None)

    def collect(self) -> Iterable[HistogramMetricFamily]:
        family = HistogramMetricFamily(
            "penstock_latency_seconds", "From the record's timestamp to the end of its action.", labels=["pipeline"]
        )
        with self._lock:
            for pipeline, latencies in self._series.items():
                running = list(accumulate(latencies.counts))
                buckets: list[tuple[str, float]] = [
                    (f"{upper_bound(index) / 1000:.4g}", float(running[index])) for index in _EXPORTED
                ]
                buckets.append(("+Inf", float(running[-1])))
                # A bucket's values are at most a quarter apart: its upper bound stands for each of them.
                total = sum(upper_bound(index) * count for index, count in enumerate(latencies.counts) if count) / 1000
                family.add_metric([pipeline], buckets, sum_value=total)
        yield family


class Metrics:
    """All series of one process. Methods take what a window, commit or rebalance adds up to."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        GCCollector(registry=registry)

        self.events = Counter("penstock_events_total", "Events by outcome.", ["pipeline", "outcome"], registry=registry)
        self.failures = Counter(
            "penstock_failures_total", "Events that failed, by stage.", ["pipeline", "stage"], registry=registry
        )
        self.retries = Counter("penstock_retries_total", "Attempts to be repeated.", ["pipeline"], registry=registry)
        self.latency = LatencyCollector()
        registry.register(self.latency)
        self.lag = Gauge(
            "penstock_lag", "Records not committed yet.", ["pipeline", "topic", "partition"], registry=registry
        )
        self.window_seconds = Histogram(
            "penstock_window_seconds", "Length of windows.", registry=registry, buckets=_WINDOW_BUCKETS
        )
        self.commit_seconds = Histogram(
            "penstock_commit_seconds", "Length of offset commits.", registry=registry, buckets=_COMMIT_BUCKETS
        )
        self.commit_failures = Counter(
            "penstock_commit_failures_total", "Commits that the broker did not take.", ["pipeline"], registry=registry
        )
        self.spark_jobs = Counter("penstock_spark_jobs_total", "Spark jobs by kind.", ["kind"], registry=registry)
        self.runs = Counter(
            "penstock_runs_total", "Runs of workflows that ended, by state.", ["state"], registry=registry
        )
        self.rebalances = Counter(
            "penstock_rebalances_total", "Changes of assignment.", ["pipeline", "kind"], registry=registry
        )
        self.pipeline_state = Gauge(
            "penstock_pipeline_state", "1 for the state a pipeline is in.", ["pipeline", "state"], registry=registry
        )
        self.store_errors = Counter(
            "penstock_store_errors_total", "Failed calls of the store.", ["operation"], registry=registry
        )
        self.with_kafka_lag = True
        """False: `kafka_consumer_lag`, which DataHub can switch off, is left out."""
        # DataHub Actions' names, so that boards and alerts written for it go on working.
        self.kafka_offset = Gauge(
            "kafka_offset", "Last offset seen.", ["topic", "partition", "pipeline_name"], registry=registry
        )
        self.kafka_messages = Counter(
            "kafka_messages_total", "Messages by success.", ["pipeline_name", "error"], registry=registry
        )
        self.kafka_consumer_lag = Gauge(
            "kafka_consumer_lag", "Lag over all partitions of a topic.", ["topic", "pipeline_name"], registry=registry
        )
        self.kafka_mcl_early_filter = Counter(
            "kafka_mcl_early_filter_total",
            "Change logs answered before their full decode.",
            ["pipeline_name", "result"],
            registry=registry,
        )

    def add_events(
        self, pipeline: str, *, acted: int = 0, filtered: int = 0, unrouted: int = 0, failed: int = 0
    ) -> None:
        """Counts of one unit."""
        outcomes = {"acted": acted, "filtered": filtered, "unrouted": unrouted, "failed": failed}
        for outcome, count in outcomes.items():
            if count:
                self.events.labels(pipeline, outcome).inc(count)
        if acted or filtered or unrouted:
            self.kafka_messages.labels(pipeline, "False").inc(acted + filtered + unrouted)
        if failed:
            self.kafka_messages.labels(pipeline, "True").inc(failed)

    def add_failures(self, pipeline: str, by_stage: Mapping[str, int]) -> None:
        for stage, count in by_stage.items():
            self.failures.labels(pipeline, stage).inc(count)

    def add_retries(self, pipeline: str, count: int) -> None:
        if count:
            self.retries.labels(pipeline).inc(count)

    def observe_latencies(self, pipeline: str, latencies: Latencies) -> None:
        """The latencies of one unit."""
        self.latency.add(pipeline, latencies)

    def set_positions(self, pipeline: str, partitions: Iterable[PartitionStatus]) -> None:
        """Committed offsets and lag of the partitions this instance owns."""
        lag_by_topic: dict[str, int] = {}
        for p in partitions:
            if p.committed is not None and p.committed > 0:
                self.kafka_offset.labels(p.topic, str(p.partition), pipeline).set(p.committed - 1)
            if p.lag is not None:
                self.lag.labels(pipeline, p.topic, str(p.partition)).set(p.lag)
                lag_by_topic[p.topic] = lag_by_topic.get(p.topic, 0) + p.lag
        for topic, lag in lag_by_topic.items() if self.with_kafka_lag else ():
            self.kafka_consumer_lag.labels(topic, pipeline).set(lag)

    def drop_partition(self, pipeline: str, topic: str, partition: int) -> None:
        """A partition now belongs to somebody else: its figures would only grow old here."""
        self.lag.remove_by_labels({"pipeline": pipeline, "topic": topic, "partition": str(partition)})
        self.kafka_offset.remove_by_labels({"pipeline_name": pipeline, "topic": topic, "partition": str(partition)})

    def set_state(self, pipeline: str, state: State) -> None:
        for each in get_args(State):
            self.pipeline_state.labels(pipeline, each).set(1 if each == state else 0)

    def add_early_filtered(self, pipeline: str, by_result: Mapping[str, int]) -> None:
        for result, count in by_result.items():
            self.kafka_mcl_early_filter.labels(pipeline, result).inc(count)

    def forget(self, pipeline: str) -> None:
        """Drop every series of a pipeline that is gone."""
        self.latency.forget(pipeline)
        ours = (self.events, self.failures, self.retries, self.commit_failures, self.lag, self.rebalances)
        for metric in (*ours, self.pipeline_state):
            metric.remove_by_labels({"pipeline": pipeline})
        for metric in (self.kafka_offset, self.kafka_messages, self.kafka_consumer_lag, self.kafka_mcl_early_filter):
            metric.remove_by_labels({"pipeline_name": pipeline})

    def exposition(self) -> bytes:
        """Everything in Prometheus' text format."""
        return generate_latest(self.registry)


METRICS = Metrics()
"""The series of this process; a second `Metrics` is for tests."""
